"""The lines of a file as entries of an import: a CID and perhaps a name, or an exported pin.

Knows the two forms of a line. Reading lines is left to lines.py, JSON to pin_objects.py."""

from collections.abc import AsyncIterator

from content_gateway.cli.bulk_import import Entry
from content_gateway.cli.lines import MAX_LINE
from content_gateway.cli.pin_objects import check_name, parse_pin
from content_gateway.model.pins import Label
from content_gateway.pins.origins import OriginRules


async def entries_of(
    lines: AsyncIterator[tuple[int, bytes | None]], rules: OriginRules
) -> AsyncIterator[Entry]:
    """What the numbered *lines* say; those that say nothing are passed over."""
    async for number, line in lines:
        try:
            parsed = parse_line(line, rules)
        except ValueError as wrong:
            yield Entry(number, refusal=str(wrong))
            continue
        if parsed is not None:
            yield Entry(number, *parsed)


def parse_line(line: bytes | None, rules: OriginRules) -> tuple[str, Label] | None:
    """The CID and the label on a line, None for one that says nothing; ValueError says what is
    wrong with it. The CID itself is not checked."""
    if line is None:
        raise ValueError(f"It has more than {MAX_LINE} bytes.")
    try:
        text = line.decode().removeprefix("\ufeff").strip()
    except UnicodeDecodeError:
        raise ValueError("It is not UTF-8.") from None
    if not text or text.startswith("#"):
        return None
    if text.startswith("{"):
        return parse_pin(text.encode(), rules)
    cid, *names = text.split(None, 1)
    name = names[0] if names else None
    check_name(name)
    return cid, Label(name)
