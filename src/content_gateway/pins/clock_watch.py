"""Corrects the due times in the ledger when the wall clock was set back.

All processes share the due times in the ledger, so these are times of the wall clock, which
somebody may set. The monotonic clock shows when that has happened. A step forward makes contents
due early, which costs a status check. A step back would delay them: by the step, where a process
saw it; and where nobody did, until a due time is further ahead than any backoff."""

import time
from collections.abc import Callable
from typing import Final

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.pins.work_queue import WorkQueue

STEP: Final = 2.0
"""Seconds that the two clocks may drift apart between two checks; more is a step."""

log = structlog.get_logger(__name__)


class ClockWatch:
    """Ensures that no wait in *ledger* is over *longest* seconds, and no lease over *lease*."""

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
        """Correct the due times if the clock went back since the last check; and also at the first
        check and every *longest* seconds, for steps that no process saw.

        If the ledger cannot be written, the next check tries again."""
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
        # Only now: if the correction failed, the next check sees the same step.
        self._seen = (wall, ticks)
