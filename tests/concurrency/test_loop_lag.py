"""How late the event loop is, and when that is more than one pause."""

import asyncio

from content_gateway.concurrency.loop_lag import INTERVAL, LoopLag
from tests.virtual import VirtualLoop, run_virtually


async def _after(*pauses: float, since: float = 0.0) -> tuple[float, float]:
    """What stands, and the sum of all, while the loop stands still for these seconds, in one
    interval after the other, and then has *since* gone on without coming to its timers."""
    lag, loop = LoopLag(), asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lag.start()
    for pause in pauses:
        loop.stand_still(INTERVAL + pause)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    loop.stand_still(since)
    standing = lag.standing
    lag.close()
    return round(standing, 6), round(lag.seconds.sum, 6)


def test_one_pause_does_not_stand() -> None:
    """However long: it is over when it is seen, and is counted."""
    assert run_virtually(_after(0, 0, 3.0)) == (0, 3.0)
    assert run_virtually(_after(0, 0, since=3.0)) == (0, 0)


def test_a_burst_does_not_stand() -> None:
    """Some turns in a row are late, and it is worked off within two seconds."""
    assert run_virtually(_after(*[0] * 9, 0.5, 0.5, 0.5))[0] == 0


def test_what_is_late_again_and_again_stands() -> None:
    """By as much as it was late at least, in the last two seconds; until it is not."""
    assert run_virtually(_after(*[0] * 9, 0.6, 0.5, 0.7, 0.6))[0] == 0.5
    assert run_virtually(_after(0, 2.5, 1.5))[0] == 1.5  # two, though one came before that
    assert run_virtually(_after(0.6, 0.6, 0.6, 0.6, 0))[0] == 0


def test_a_timer_that_has_not_come_is_late_already() -> None:
    """Nobody waits for the end of a pause to be told of it; and where the loop is back in time,
    none is told."""
    assert run_virtually(_after(0, 1.5, since=INTERVAL + 1.25))[0] == 1.25
    assert run_virtually(_after(1.5, 1.5, since=INTERVAL + 0.01))[0] == 0.01
