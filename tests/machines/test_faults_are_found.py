"""A run finds what is wrong: a gateway that lies, a failover that loses what was acknowledged."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chance import SEED
from tests.machines.backends import miniature_cluster
from tests.machines.bed import Bed, running_bed
from tests.machines.clients import Clients
from tests.machines.history import History
from tests.machines.liar import Forgets, Keeps, Liar, Remembers, Repeats, lying
from tests.machines.linearizable import violation
from tests.machines.pair import running_pair
from tests.machines.verdict import is_lost, judge
from tests.waiting import until

pytestmark = [pytest.mark.timeout(300), pytest.mark.deep]
_LIES = 40  # one is found only where nothing that overlaps it explains it


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    """One gateway, before a PostgreSQL without a standby."""
    pair = running_pair(has_standby=False)
    async with running_bed(tmp_path, pair, miniature_cluster, gateways=1) as bed:
        yield bed


def violations(history: History) -> int:
    """How many pins have a history that cannot have been."""
    return sum(violation(operations) is not None for _, operations in history)


async def test_a_gateway_that_lies_is_found_out(bed: Bed) -> None:
    """Whatever the lie; and before it lies there is nothing to be found."""
    (gateway,) = bed.gateways
    port = gateway.port
    for number, lie in enumerate((Liar, Forgets, Repeats, Remembers, Keeps)):
        async with lying(lie(port)) as liar:
            gateway.port = liar.port
            history = History()
            clients = Clients(
                history,
                bed.gateways,
                bed.backend,
                seed=SEED + number,
                think=0.02,
                first=1000 * number,
            )
            running = asyncio.create_task(clients.run())
            enough = lambda: liar.told >= _LIES or clients.outcomes.total() > 6_000  # noqa: B023, E731
            await until(enough, seconds=120)
            clients.stop()
            await running
            assert (violations(history) > 0) is (lie is not Liar), lie
            assert (liar.told > 0) is (lie is not Liar), lie


async def test_a_failover_to_an_asynchronous_standby_is_found_out(tmp_path: Path) -> None:
    """It lacks what was acknowledged while replication hung: those pins are lost, and the verdict
    says so."""
    pair = running_pair(is_synchronous=False)
    async with running_bed(tmp_path, pair, miniature_cluster, gateways=2) as bed:
        history = History()
        clients = Clients(history, bed.gateways, bed.backend, seed=SEED, think=0.05)
        running = asyncio.create_task(clients.run())
        await until(lambda: clients.outcomes["add", "created"] > 50, seconds=120)
        bed.pair.replication.drop()
        before = clients.outcomes["add", "created"]
        await until(lambda: clients.outcomes["add", "created"] > before + 50, seconds=120)
        await bed.pair.fail_over()
        clients.stop()
        await running
        verdict = await judge(bed, history, clients, SEED)
    assert verdict.not_linearizable > 0
    assert any(is_lost(operations) for _, operations in history)
    assert any("acknowledged pins are lost" in problem for problem in verdict.problems)
