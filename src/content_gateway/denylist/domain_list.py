"""A list of blocked domains: one a line, `*.` before it for everything below, `#` for comments.

Knows the file's syntax and how a name is looked up. When the file is read, and what happens to
a name that is blocked, is left to denylist.py."""

from content_gateway.denylist.rules import RuleSet, denies, next_run
from content_gateway.errors import InvalidDomain
from content_gateway.files.watched_file import lines
from content_gateway.model.domain import DomainName

_ANY_BELOW = "*."


class DomainList:
    """The domains of one file, normalised."""

    def __init__(self) -> None:
        self._names = RuleSet()
        self._has_wildcards = False

    def __len__(self) -> int:
        return len(self._names)

    def add(self, text: str) -> None:
        """Block the domain *text*, or all below it (`*.example.eth`); raises ValueError."""
        below = text.startswith(_ANY_BELOW)
        name = _normalised_suffix(text[len(_ANY_BELOW) :]) if below else _normalised(text)
        self._has_wildcards |= below
        self._names.put((_ANY_BELOW + name if below else name).encode(), next_run(0, allows=False))

    def blocks(self, name: str) -> bool:
        """True if *name*, normalised, is listed or lies below a wildcard."""
        if denies(self._names.last(name.encode())):
            return True
        if self._has_wildcards:
            dot = name.find(".")
            while dot >= 0:
                if denies(self._names.last(b"*" + name[dot:].encode())):
                    return True
                dot = name.find(".", dot + 1)
        return False


def parse_domains(data: bytes) -> DomainList:
    """The list in *data*; ValueError names the line that is wrong."""
    if not data:
        # What a download that failed leaves behind must not let everything through.
        raise ValueError("the file is empty; a list that blocks nothing holds a comment")
    names = DomainList()
    for number, line in lines(data):
        try:
            fields = line.decode().split()
            if not fields or fields[0].startswith("#"):
                continue
            if len(fields) > 1 and not fields[1].startswith("#"):
                raise ValueError("it holds more than one domain")
            names.add(fields[0])
        except ValueError as wrong:
            raise ValueError(f"line {number}: {wrong}") from wrong
    return names


def _normalised(text: str) -> str:
    try:
        return DomainName.parse(text).text
    except InvalidDomain as wrong:
        raise ValueError(wrong.detail) from wrong


def _normalised_suffix(text: str) -> str:
    # Labels are normalised one by one (ENSIP-15), so one more in front makes `eth` a domain too.
    return _normalised(f"x.{text}").removeprefix("x.")
