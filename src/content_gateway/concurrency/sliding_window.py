"""A limit of so many in the last so many seconds, counted in sixty steps.

Never more than the limit in any such time, and at most a sixtieth less: the step that is only
partly inside counts as a whole. A fixed window would let twice the limit through around its end,
and a bucket of tokens in its first minute. Knows time and numbers; whom a limit is for is left to
whoever has one."""

from collections.abc import Iterable, Iterator
from typing import Final

STEPS: Final = 60
_SIZE: Final = STEPS + 1  # those that are inside, and the one that is partly


def step_at(now: float, seconds: float) -> int:
    """The step of a window of so many *seconds* in which *now* is."""
    return int(now / (seconds / STEPS))


class SlidingWindow:
    """At most *limit* in any *seconds*; *left* is how many more there may be in those before the
    last `take`. Times are of one monotonic clock, in seconds."""

    __slots__ = ("_counts", "_ends", "_frees", "_newest", "_now", "_width", "left", "limit")

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit: Final = limit
        self.left = limit
        self._width = seconds / STEPS
        self._counts = [0] * _SIZE
        self._now = 0  # the newest step
        self._newest = 0  # how many there are in it, which are not in _counts yet
        self._ends = 0.0  # when it does
        self._frees = 0  # the first step in which the oldest that was counted counts no more

    def take(self, now: float) -> bool:
        """Whether one more is within the limit, which then counts."""
        if now >= self._ends:
            self._advance(int(now / self._width))
        left = self.left
        if left <= 0:
            return False
        if left == self.limit:
            self._frees = self._now + _SIZE
        self.left = left - 1
        self._newest += 1
        return True

    def give_back(self) -> None:
        """Count the last one that `take` counted no more, in the same moment."""
        self.left += 1
        self._newest -= 1

    def add(self, number: int, now: float, step: int | None = None) -> None:
        """Count *number* that another process let through, in its *step* or just now.

        No more than are left: what two processes let through at once beyond the limit is lost."""
        if now >= self._ends:
            self._advance(int(now / self._width))
        step = self._now if step is None else min(step, self._now)
        number = min(number, self.left)
        if number <= 0 or step < self._now - STEPS:
            return
        frees = step + _SIZE
        self._frees = frees if self.left == self.limit else min(self._frees, frees)
        self.left -= number
        if step == self._now:
            self._newest += number
        else:
            self._counts[step % _SIZE] += number

    def raise_to(self, steps: Iterable[tuple[int, int]], now: float) -> None:
        """Count what *steps* have more than there is, newest first; nothing where they have less.

        For numbers that may have in them what is counted here already, or may lack some of it."""
        self.add(0, now)
        inside = sorted(one for one in steps if one[0] > self._now - STEPS)
        missing = sum(number for _, number in inside) - self.used
        for step, number in reversed(inside):
            if missing <= 0:
                break
            self.add(min(number, missing), now, step)
            missing -= number

    def resized(self, limit: int) -> "SlidingWindow":
        """Another one with that *limit*, in which as many count."""
        other = SlidingWindow(limit, self._width * STEPS)
        for step, count in self.steps():
            other.add(count, (self._now + 0.5) * self._width, step)
        return other

    def steps(self) -> Iterator[tuple[int, int]]:
        """Each step that counts, oldest first, and how many there were in it."""
        for step in range(self._now - STEPS, self._now):
            if count := self._counts[step % _SIZE]:
                yield step, count
        if self._newest:
            yield self._now, self._newest

    @property
    def used(self) -> int:
        """How many there were in the seconds before the last `take`."""
        return self.limit - self.left

    def used_at(self, now: float) -> int:
        """How many there were in the seconds before *now*, at which nothing was taken."""
        first = int(now / self._width) - STEPS  # the first step that is inside
        if first > self._now:
            return 0
        gone = range(max(0, self._now - STEPS), first)
        return self.used - sum(self._counts[step % _SIZE] for step in gone)

    def frees_in(self, now: float) -> int:
        """Whole seconds until the oldest that was counted counts no more; 0 if none was."""
        if self.left == self.limit:
            return 0
        return max(1, -int(-(self._frees * self._width - now) // 1))

    def _advance(self, step: int) -> None:
        """Begin *step*, and forget what is no longer inside."""
        self._counts[self._now % _SIZE] = self._newest
        self._newest = 0
        for old in range(max(self._now + 1, step - STEPS), step + 1):
            self.left += self._counts[old % _SIZE]
            self._counts[old % _SIZE] = 0
        self._now = step
        self._ends = (step + 1) * self._width
        inside = range(step - STEPS, step + 1)
        self._frees = next((each for each in inside if self._counts[each % _SIZE]), step) + _SIZE
