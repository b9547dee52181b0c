"""The measure of the loop's lag is one: it sees what holds the loop, and nothing else."""

import asyncio
import time

from tests.lag import MOST_LAG, loop_lag


async def test_what_holds_the_loop_is_seen() -> None:
    """A callback that works for 200 ms is a lag of 200 ms of CPU."""
    async with loop_lag() as lag:
        await asyncio.sleep(0.02)
        begun = time.thread_time()
        while time.thread_time() < begun + 0.2:
            pass
    assert lag.worst >= 0.2


async def test_work_in_another_thread_is_no_lag() -> None:
    """What another thread works on does not count as the loop's."""

    def work() -> None:
        begun = time.thread_time()
        while time.thread_time() < begun + 0.2:
            pass

    async with loop_lag() as lag:
        await asyncio.to_thread(work)
    assert lag.worst < MOST_LAG
