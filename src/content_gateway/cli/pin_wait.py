"""Waiting for a pin: reads the ledger again and again until it says that the backend holds it.

Knows that somebody must reconcile the ledger meanwhile (reconcile_if_idle.py) and shows how far the
pin is. What an end before that means is left to the command."""

import asyncio
from collections.abc import Callable
from typing import Final

from content_gateway.cli.pin_view import how_far, progress
from content_gateway.cli.reconcile_if_idle import ReconcileIfIdle
from content_gateway.cli.status_line import StatusLine
from content_gateway.errors import StorageUnavailable
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import PinStatus

_BETWEEN_LOOKS: Final = 0.2
_MOST_BLIND_LOOKS: Final = 100  # twenty seconds, one after the other


async def until_pinned(
    look: Callable[[], PinStatus],
    *,
    reconciling: ReconcileIfIdle,
    seconds: float | None,
    line: StatusLine,
) -> PinStatus:
    """The pin that *look* tells of once it is pinned, or as it is after *seconds*.

    Raises PinNotFound when it is removed meanwhile, WrongSettings when nobody reconciles it and we
    must not, and StorageUnavailable when the ledger cannot be read for long."""
    clock = asyncio.get_running_loop().time
    end = None if seconds is None else clock() + seconds
    step, blind, last = 0, 0, ("", 0, "")
    while True:
        reconciling.see_to_it()
        try:
            status, blind = look(), 0
        except StorageUnavailable:
            blind += 1
            if blind > _MOST_BLIND_LOOKS:
                raise
        else:
            text = progress(status, step) if line.is_terminal else how_far(status)
            seen = (status.state, status.replicas, status.error or "")
            line.show(text, news=seen != last)
            if status.state is ContentState.PINNED or (end is not None and clock() >= end):
                return status
            step, last = step + 1, seen
        await asyncio.sleep(_BETWEEN_LOOKS)
