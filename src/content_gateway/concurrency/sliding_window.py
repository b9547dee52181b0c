"""A limit of so many in the last so many seconds, counted in sixty steps.

Never more than the limit in any such time, and at most a sixtieth less: the step that is only
partly inside counts as a whole. A fixed window would let twice the limit through around its end,
and a bucket of tokens in its first minute. Knows time and numbers; whom a limit is for is left to
whoever has one."""

from typing import Final

_STEPS: Final = 60
_SIZE: Final = _STEPS + 1  # those that are inside, and the one that is partly


class SlidingWindow:
    """At most *limit* in any *seconds*; *used* is how many there were in those before the last
    `take`. Times are of one monotonic clock, in seconds."""

    __slots__ = ("_counts", "_ends", "_frees", "_now", "_width", "limit", "used")

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit: Final = limit
        self.used = 0
        self._width = seconds / _STEPS
        self._counts = [0] * _SIZE
        self._now = 0  # the newest step
        self._ends = 0.0  # when it does
        self._frees = 0  # the first step in which the oldest that was counted counts no more

    def take(self, now: float) -> bool:
        """Whether one more is within the limit, which then counts."""
        if now >= self._ends:
            self._advance(int(now / self._width))
        if self.used >= self.limit:
            return False
        if not self.used:
            self._frees = self._now + _SIZE
        self.used += 1
        self._counts[self._now % _SIZE] += 1
        return True

    def frees_in(self, now: float) -> int:
        """Whole seconds until the oldest that was counted counts no more; 0 if none was."""
        if not self.used:
            return 0
        return max(1, -int(-(self._frees * self._width - now) // 1))

    def _advance(self, step: int) -> None:
        """Begin *step*, and forget what is no longer inside."""
        for old in range(max(self._now + 1, step - _STEPS), step + 1):
            self.used -= self._counts[old % _SIZE]
            self._counts[old % _SIZE] = 0
        self._now = step
        self._ends = (step + 1) * self._width
        inside = range(step - _STEPS, step + 1)
        self._frees = next((each for each in inside if self._counts[each % _SIZE]), step) + _SIZE
