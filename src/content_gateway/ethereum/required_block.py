"""The block that answers of a chain must not be behind, as names have changed in it.

A listener says which it is, through whatever node it hears; other nodes may not have it yet. Knows
for how long that is worth asking for, and whether answers were from before it; asking is left to
rpc.py and quorum.py."""

import time
from collections.abc import Callable
from typing import Final

# After that every node that follows the chain has it.
_SECONDS: Final = 30.0
# That any node may be asked, after none had it: whoever lies about it costs a call in so many.
_PAUSE: Final = 1.0


class RequiredBlock:
    """None at first; by *clock* (monotonic seconds)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number = 0
        self._until = float("-inf")
        self._behind_until = float("-inf")

    def require(self, number: int) -> None:
        """From now on answers are from this block at least, where a node has it."""
        self._number, self._until = number, self._clock() + _SECONDS

    @property
    def number(self) -> int | None:
        """The block that a node must have to be asked; None where any may be: nothing has changed
        lately, or no node had that block just now."""
        now = self._clock()
        return self._number if self._behind_until <= now < self._until else None

    def was_missing(self) -> None:
        """No node that was asked just now has the block."""
        self._behind_until = self._clock() + _PAUSE

    def was_behind(self, since: float) -> bool:
        """Whether answers to what was asked since that time may be from before the block."""
        return since < self._behind_until
