"""Waits until a pin is pinned: polls the ledger, and shows the progress.

Knows that a service or this command must reconcile the ledger meanwhile (reconcile_if_idle.py).
What a time-out means is left to the command."""

import asyncio
from collections.abc import Callable
from typing import Final

from content_gateway.cli.pin_view import how_far, progress
from content_gateway.cli.reconcile_if_idle import ReconcileIfIdle
from content_gateway.cli.status_line import StatusLine
from content_gateway.errors import StorageUnavailable
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import PinStatus

_POLL_SECONDS: Final = 0.2
_MOST_FAILED_POLLS: Final = 100  # twenty seconds, one after the other


async def until_pinned(
    read_status: Callable[[], PinStatus],
    *,
    reconciling: ReconcileIfIdle,
    seconds: float | None,
    line: StatusLine,
) -> PinStatus:
    """The pin that *read_status* returns, once it is pinned, or as it is after *seconds*.

    Raises PinNotFound when it is removed meanwhile, WrongSettings when nobody reconciles it and we
    must not, and StorageUnavailable when the ledger cannot be read for long."""
    clock = asyncio.get_running_loop().time
    end = None if seconds is None else clock() + seconds
    step, failed_polls, last = 0, 0, ("", 0, "")
    while True:
        reconciling.ensure_reconciled()
        try:
            status, failed_polls = read_status(), 0
        except StorageUnavailable:
            failed_polls += 1
            if failed_polls > _MOST_FAILED_POLLS:
                raise
        else:
            text = progress(status, step) if line.is_terminal else how_far(status)
            seen = (status.state, status.replicas, status.error or "")
            line.show(text, news=seen != last)
            if status.state is ContentState.PINNED or (end is not None and clock() >= end):
                return status
            step, last = step + 1, seen
        await asyncio.sleep(_POLL_SECONDS)
