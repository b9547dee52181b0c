"""Byte budget: how many bytes all who share it may hold at once.

The first 64 KiB of each are free, so that ordinary work never finds it full; what is larger is
counted, and refused when there is no room. Knows numbers only."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from content_gateway.errors import Overloaded

FREE_BYTES: Final = 64 * 1024


class Hold:
    """The bytes that one user holds."""

    def __init__(self, budget: "ByteBudget") -> None:
        self._budget = budget
        self._bytes = 0

    def resize(self, number: int) -> None:
        """Hold *number* bytes from now on; raises Overloaded when the budget is used up."""
        more = max(0, number - FREE_BYTES) - self._bytes
        self._budget.take(more)
        self._bytes += more


class ByteBudget:
    """At most *limit* bytes, beside the free ones."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self, number: int) -> None:
        """Count *number* bytes, which may be negative; raises Overloaded."""
        if number > self._left:
            raise Overloaded("Too many large answers are being read here.")
        self._left -= number

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """A hold, released when the block ends."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            hold.resize(0)
