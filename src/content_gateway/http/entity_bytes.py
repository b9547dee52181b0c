"""The part of a file that the parameter `entity-bytes` names: `from:to`, both within it.

Knows the syntax and the bounds of ipfs/specs `trustless-gateway.md`, "entity-bytes". Which blocks
hold the bytes is left to ipld/."""

import re
from typing import Final, NamedTuple

from content_gateway.errors import InvalidQuery

_FORM: Final = re.compile(r"(-?[0-9]{1,18}):(-?[0-9]{1,18}|\*)", re.ASCII)


class EntityBytes(NamedTuple):
    """The bytes from *first* to *last*, counted from the end below zero; None is the end."""

    first: int
    last: int | None

    def __str__(self) -> str:
        return f"{self.first}:{'*' if self.last is None else self.last}"

    def within(self, size: int) -> tuple[int, int]:
        """From which byte to before which of *size* that is: the same one where nothing is between.

        Raises InvalidQuery where all of it is outside of a file that has bytes."""
        first = self.first + size if self.first < 0 else self.first
        last = size - 1 if self.last is None else self.last
        last = last + size if last < 0 else last
        if size and (first >= size or last < 0):
            raise InvalidQuery(f"entity-bytes is outside of the file, which has {size} bytes.")
        start = min(max(0, first), size)
        return start, max(start, min(last + 1, size))


def parse_entity_bytes(text: str) -> EntityBytes | None:
    """The part that *text* names, None for all; raises InvalidQuery."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise InvalidQuery("entity-bytes is from:to, as in 0:1023, -1024:* or 512:-256.")
    first, last = int(found[1]), None if found[2] == "*" else int(found[2])
    if last is not None and last < first and (first < 0) == (last < 0):
        raise InvalidQuery("entity-bytes ends before it begins.")
    return None if (first, last) == (0, None) else EntityBytes(first, last)
