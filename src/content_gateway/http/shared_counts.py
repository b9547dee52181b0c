"""One limit of a key over several processes: each tells the others whom it let in.

Theory of operation. Each process counts for itself and refuses without asking anybody. What it let
through it tells a quarter of a second later at most, and as soon as that is a hundredth of what the
key has left, so that a limit that is nearly reached is told request by request. What goes too far
is what the others let through until they hear of it: some milliseconds' requests.

Knows counts only; key_limits.py refuses, and how they travel is left to whoever runs several
processes."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.http.key_limits import KeyLimits, KeyUse

# By the id of a key: how many were let through, and the limits of a minute and a day, 0 for none.
Taken: TypeAlias = Mapping[str, tuple[int, int, int]]
# By the id of a key: its limit of a minute with the steps that count, and that of a day.
_Steps: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
Counts: TypeAlias = Mapping[str, tuple[_Steps, _Steps]]

_LATEST: Final = 0.25  # seconds until what was let through is told
_SOONEST: Final = 0.005  # the same near a limit: a flood of keys costs 200 messages a second
_PART: Final = 100


class SharedCounts:
    """The counts of *limits*, which *tell* hands to every other process."""

    def __init__(
        self,
        limits: KeyLimits,
        tell: Callable[[Taken], None],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """*clock* is the one whose times `KeyLimits.admit` gets, the same in all processes."""
        self._limits = limits
        self._tell = tell
        self._clock = clock
        self._untold: dict[str, _Untold] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_soon = False
        limits.counted = self._note

    def hear(self, taken: Taken) -> None:
        """Count what another process let through."""
        now = self._clock()
        for key, (number, minute, day) in taken.items():
            for window in self._limits.used_elsewhere(key, minute, day).windows:
                window.add(number, now)

    def counts(self) -> Counts:
        """All that counts now, for a process that begins."""
        return {
            key: (_steps_of(use.minute), _steps_of(use.day))
            for key, use in self._limits.used()
            if use.windows
        }

    def hear_late(self, counts: Counts) -> None:
        """Count what other processes let through, in the steps in which they did: also all of it,
        where this process begins."""
        now = self._clock()
        for window, steps in self._windows_of(counts):
            for step, number in steps:
                window.add(number, now, step)

    def raise_to(self, counts: Counts) -> None:
        """Count what all processes together had let through, as far as it is more than is known
        here."""
        now = self._clock()
        for window, steps in self._windows_of(counts):
            window.raise_to(steps, now)

    def _windows_of(
        self, counts: Counts
    ) -> Iterator[tuple[SlidingWindow, tuple[tuple[int, int], ...]]]:
        for key, (minute, day) in counts.items():
            use = self._limits.used_elsewhere(key, minute[0], day[0])
            for window, (_, steps) in ((use.minute, minute), (use.day, day)):
                if window is not None:
                    yield window, steps

    def tell(self) -> None:
        """Tell what was let through and not told."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._is_soon = None, False
        untold, self._untold = self._untold, {}
        taken = {
            key: (each.number, _limit_of(each.use.minute), _limit_of(each.use.day))
            for key, each in untold.items()
        }
        if taken:
            self._tell(taken)

    def _note(self, key: str, use: KeyUse) -> None:
        untold = self._untold.get(key)
        if untold is None:
            untold = self._untold[key] = _Untold(use)
        untold.number += 1
        if self._is_soon:
            return
        for window in use.windows:  # not any(): this is done for each request
            if untold.number * _PART >= window.left:
                self._is_soon = True
        if self._timer is None or self._is_soon:
            if self._timer is not None:
                self._timer.cancel()
            seconds = _SOONEST if self._is_soon else _LATEST
            self._timer = asyncio.get_running_loop().call_later(seconds, self.tell)


class _Untold:
    """How many requests of a key were let through and not told; *use* has its limits."""

    __slots__ = ("number", "use")

    def __init__(self, use: KeyUse) -> None:
        self.number = 0
        self.use = use


def _limit_of(window: SlidingWindow | None) -> int:
    return 0 if window is None else window.limit


def _steps_of(window: SlidingWindow | None) -> _Steps:
    return _limit_of(window), () if window is None else tuple(window.steps())
