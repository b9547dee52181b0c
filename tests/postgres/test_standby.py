"""A PostgreSQL whose commits wait for a standby: what is acknowledged is on both, or nobody is told
that it is kept."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from content_gateway.errors import StorageUnavailable
from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.pins import NO_LABEL, Pin
from tests.ledgers import cid
from tests.machines.pair import Pair, running_pair
from tests.waiting import eventually
from tests.world import postgres

SECONDS = 1.0


@pytest.fixture(params=postgres.VERSIONS)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with running_pair(version=request.param) as pair:
        yield pair


def ledger_of(pair: Pair) -> PostgresLedger:
    hosts = ",".join(f"127.0.0.1:{machine.port}" for machine in pair.machines)
    url = f"postgresql://{postgres.USER}@{hosts}/ledger?target_session_attrs=read-write"
    return PostgresLedger(ServerOptions(url, 4, SECONDS), LedgerOptions(60.0, 1_000))


async def add(ledger: PostgresLedger, number: int) -> Pin | None:
    return await ledger.pins.add("anna", cid(number), str(cid(number)), NO_LABEL)


async def refused(ledger: PostgresLedger, number: int) -> bool:
    """Whether that addition is refused."""
    try:
        await add(ledger, number)
    except StorageUnavailable:
        return True
    return False


async def test_what_the_standby_has_not_is_not_acknowledged(pair: Pair) -> None:
    """While it stands still nobody hears that a pin was made, and nobody sees it; once it goes on
    both come true."""
    async with ledger_of(pair) as ledger:
        assert await add(ledger, 1) is not None
        assert pair.standby is not None
        pair.standby.pause()
        assert await refused(ledger, 2)
        assert await refused(ledger, 2)
        assert not await ledger.pins.holds("anna", cid(2))
        pair.standby.go_on()
        await pair.until_in_step()
        assert await add(ledger, 2) is None


async def test_a_repeat_is_not_acknowledged_either(pair: Pair) -> None:
    """A primary that starts again shows what it had committed alone. Who asks for that pin again is
    not told that it is there: a failover would lose it."""
    async with ledger_of(pair) as ledger:
        assert await add(ledger, 1) is not None
        assert await add(ledger, 1) is None  # from now on repeats are looked for first
        assert pair.standby is not None
        pair.standby.pause()
        assert await refused(ledger, 2)
        await asyncio.to_thread(pair.primary.crash)
        await asyncio.to_thread(pair.primary.start)

        async def is_seen() -> bool:
            try:
                return await ledger.pins.holds("anna", cid(2))
            except StorageUnavailable:
                return False

        await eventually(is_seen)
        assert await refused(ledger, 2)
        pair.standby.go_on()
        await pair.until_in_step()
        assert await add(ledger, 2) is None


async def test_a_failover_to_it_loses_nothing(pair: Pair) -> None:
    """Under way when the primary is lost: what was acknowledged is there, twice over."""
    acknowledged: list[int] = []
    is_over = False
    async with ledger_of(pair) as ledger:

        async def stream(first: int) -> None:
            for number in range(first, 1_000_000, 8):
                if is_over:
                    return
                try:
                    await add(ledger, number)
                except StorageUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    acknowledged.append(number)

        streams = [asyncio.create_task(stream(first)) for first in range(8)]
        for _ in range(2):
            await pair.fail_over()
            before = len(acknowledged)
            while len(acknowledged) < before + 50:
                await asyncio.sleep(0.05)
        is_over = True
        await asyncio.gather(*streams)
        for number in acknowledged:
            assert await ledger.pins.holds("anna", cid(number)), number
