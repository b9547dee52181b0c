"""A limit of so many in the last so many seconds, counted in sixty steps.

Never more than the limit in any such time, and at most a sixtieth less: the step that is only
partly inside counts as a whole. A fixed window would let twice the limit through around its end,
and a bucket of tokens in its first minute. Knows time and numbers; whom a limit is for is left to
whoever has one."""

from typing import Final

_STEPS: Final = 60


class SlidingWindow:
    """At most *limit* in any *seconds*; *used* is how many there were in those before the last
    `take`. Times are of one monotonic clock, in seconds."""

    __slots__ = ("_counts", "_frees", "_step", "_width", "limit", "used")

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit: Final = limit
        self.used = 0
        self._width = seconds / _STEPS
        self._step = 0  # the newest
        self._counts = [0] * (_STEPS + 1)  # those inside, and the one that is partly
        self._frees = 0  # the first step in which the oldest that was counted is no more inside

    def take(self, now: float) -> bool:
        """Whether one more is within the limit, which then counts."""
        step = int(now / self._width)
        if step != self._step:
            self._advance(step)
        if self.used >= self.limit:
            return False
        if not self.used:
            self._frees = step + len(self._counts)
        self.used += 1
        self._counts[step % len(self._counts)] += 1
        return True

    def frees_in(self, now: float) -> int:
        """Whole seconds until the oldest that was counted counts no more; 0 if none was."""
        if not self.used:
            return 0
        return max(1, -int(-(self._frees * self._width - now) // 1))

    def _advance(self, step: int) -> None:
        """Forget what is no longer inside."""
        size = len(self._counts)
        for old in range(max(self._step + 1, step - size + 1), step + 1):
            self.used -= self._counts[old % size]
            self._counts[old % size] = 0
        self._step = step
        inside = range(step - size + 1, step + 1)
        oldest = next((each for each in inside if self._counts[each % size]), step)
        self._frees = oldest + size
