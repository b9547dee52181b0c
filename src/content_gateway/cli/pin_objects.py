"""Pins that come from elsewhere as JSON: what is said of them, by the limits that are ours.

Knows the Pin object of the Pinning Service API, which is also what `pin export` writes. An origin
that we do not connect to is left out; anything else that we cannot keep refuses the pin, so that
nothing is shortened unseen."""

from collections.abc import Iterable
from typing import Final

import msgspec

from content_gateway.errors import InvalidBody
from content_gateway.model.pins import MAX_LABEL_BYTES, Label
from content_gateway.pins.origins import MOST_ORIGINS, OriginRules

MAX_NAME: Final = 255


class _PinLine(msgspec.Struct, frozen=True):
    cid: str
    name: str | None = None
    origins: list[str] | None = None
    meta: dict[str, str] | None = None


_PIN: Final = msgspec.json.Decoder(_PinLine)


def parse_pin(text: bytes, rules: OriginRules) -> tuple[str, Label]:
    """CID and label of the Pin object *text*, with the origins that *rules* take.

    ValueError says what is wrong. The CID itself is not checked."""
    try:
        pin = _PIN.decode(text)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise ValueError(f"It is no Pin object: {wrong}.") from wrong
    check_name(pin.name)
    meta = pin.meta or {}
    if any("\0" in part for member in meta.items() for part in member):
        raise ValueError("Its metadata has a NUL in it.")
    label = Label(pin.name, _usable(pin.origins or (), rules), meta)
    if (size := label.encoded_bytes) > MAX_LABEL_BYTES:
        raise ValueError(
            f"Name, origins and metadata have {size} bytes, and at most {MAX_LABEL_BYTES} are kept."
        )
    return pin.cid, label


def check_name(name: str | None) -> None:
    """ValueError for a name that is not kept."""
    if name is not None and len(name) > MAX_NAME:
        raise ValueError(f"The name has more than {MAX_NAME} characters.")
    if name is not None and "\0" in name:
        raise ValueError("The name has a NUL in it.")


def _usable(texts: Iterable[str], rules: OriginRules) -> tuple[str, ...]:
    """The first MOST_ORIGINS of *texts* that *rules* take."""
    found: dict[str, None] = {}
    for text in texts:
        if len(found) == MOST_ORIGINS:
            break
        try:
            found.update(dict.fromkeys(rules.taken([text])))
        except InvalidBody:
            continue
    return tuple(found)
