"""The leases of a batch: work ends before its lease does, whatever the ledger takes to answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from content_gateway.model.content_state import ContentState, WorkItem
from content_gateway.pins.leases import Leases
from tests.ledgers import cid
from tests.virtual import run_virtually

LEASE = 30.0
ITEM = WorkItem(1, cid(1), ContentState.QUEUED, 0, is_held=True)

Renew = Callable[[Sequence[WorkItem], float], Awaitable[set[int]]]


async def _no_answer(items: Sequence[WorkItem], seconds: float) -> set[int]:
    await asyncio.sleep(3600)
    return {item.id for item in items}


async def _seconds_of_work(renew: Renew, *, given_after: float) -> float:
    """How long after it was asked for its lease some work is cancelled; the ledger's answer took
    so many seconds."""
    loop = asyncio.get_running_loop()
    asked_at = loop.time()
    await asyncio.sleep(given_after)
    async with Leases([ITEM], renew, LEASE, asked_at) as leases:
        work = asyncio.create_task(asyncio.sleep(3600))
        leases.cancel_on_loss(ITEM, work)
        await asyncio.wait([work])
    assert work.cancelled()
    return loop.time() - asked_at


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    """The ledger may have given it long before its answer came."""
    for given_after in (0.0, 15.0, 25.0):
        seconds = run_virtually(_seconds_of_work(_no_answer, given_after=given_after))
        assert seconds <= max(given_after, LEASE * 2 / 3) + 0.01


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    """Where the answer to the first renewal is late and the second one has none, work ends two
    thirds of a lease after the first was asked for."""
    renewals = 0

    async def renew(items: Sequence[WorkItem], seconds: float) -> set[int]:
        nonlocal renewals
        renewals += 1
        await asyncio.sleep(9.0 if renewals == 1 else 3600.0)
        return {item.id for item in items}

    assert run_virtually(_seconds_of_work(renew, given_after=0.0)) <= LEASE / 3 + LEASE * 2 / 3


def test_work_that_begins_after_its_lease_was_lost_is_cancelled() -> None:
    """A lease may be lost while the backend is still asked for the status."""

    async def lost(items: Sequence[WorkItem], seconds: float) -> set[int]:
        return set()

    async def begin_late() -> bool:
        loop = asyncio.get_running_loop()
        async with Leases([ITEM], lost, LEASE, loop.time()) as leases:
            await asyncio.sleep(LEASE / 3 + 1.0)
            work = asyncio.create_task(asyncio.sleep(3600))
            leases.cancel_on_loss(ITEM, work)
            await asyncio.wait([work], timeout=0.1)
            return work.cancelled()

    assert run_virtually(begin_late())
