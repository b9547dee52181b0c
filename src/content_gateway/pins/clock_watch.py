"""Watches the wall clock, by which the ledger's gates are kept, and has them set again if it jumps.

Knows that all processes of a ledger share its moments, so that they must be moments of the wall
clock, which somebody may set; and that the monotonic clock tells when that has happened. A clock
that goes forward opens gates early, which costs a status check. One that goes back would keep them
shut: by as much as it went back where somebody saw it, and until anybody has seen that no backoff
is as long as that where it happened unseen, or in another process. What is set again is left to the
ledger."""

import time
from collections.abc import Callable
from typing import Final

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.pins.work_queue import WorkQueue

STEP: Final = 2.0
"""Seconds that the two clocks may drift apart between two looks; more is a step."""

log = structlog.get_logger(__name__)


class ClockWatch:
    """Sees to it that nothing in *ledger* waits for more than *longest* seconds from now, or is
    leased for more than *lease*."""

    def __init__(
        self,
        ledger: WorkQueue,
        *,
        longest: float,
        lease: float,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._longest = longest
        self._lease = lease
        self._clock = clock
        self._monotonic = monotonic
        self._seen: tuple[float, float] | None = None
        self._rebased_at: float | None = None

    async def check(self) -> None:
        """Set the gates again if the clock went back since the last status check; and in any case
        the first time and every *longest* seconds, for what others have seen.

        Where the ledger cannot be written now, the next status check does it."""
        wall, ticks = self._clock(), self._monotonic()
        back = 0.0
        if self._seen is not None:
            back = max(0.0, self._seen[0] + (ticks - self._seen[1]) - wall)
        is_step = back > STEP
        if is_step:
            log.warning("the clock was set back", seconds=round(back))
        is_time = self._rebased_at is None or ticks - self._rebased_at >= self._longest
        if is_step or is_time:
            try:
                await self._ledger.rebase(self._longest, self._lease, back if is_step else 0.0)
            except StorageUnavailable as wrong:
                log.error("what a wrong clock has put off waits on", reason=wrong.detail)
                return
            self._rebased_at = ticks
        # Last: a step that could not be written down is seen again.
        self._seen = (wall, ticks)
