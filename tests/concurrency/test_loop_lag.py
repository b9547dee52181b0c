"""How late the event loop is, and when that is more than one pause."""

import asyncio

from content_gateway.concurrency.loop_lag import INTERVAL, LoopLag
from tests.virtual import VirtualLoop, run_virtually


async def _after(*pauses: float) -> LoopLag:
    """Measured while the loop stands still for these seconds, in one interval after the other."""
    lag, loop = LoopLag(), asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lag.start()
    for pause in pauses:
        loop.stand_still(INTERVAL + pause)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    lag.close()
    return lag


def test_one_pause_does_not_stand() -> None:
    """However long: it is over when it is seen, and is counted."""
    lag = run_virtually(_after(0, 0, 0, 0, 3.0))
    assert lag.seconds.sum == 3.0
    assert lag.standing == 0


def test_what_is_late_again_and_again_stands() -> None:
    """By as much as it was late at least, in the last five intervals; until it is not."""
    assert run_virtually(_after(1.5, 1.25, 2.0, 3.0, 1.5)).standing == 1.25
    assert run_virtually(_after(1.5, 1.25, 2.0, 3.0, 1.5, 0)).standing == 0
