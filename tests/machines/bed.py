"""The machines of a run, up between entrance and exit: gateways, a pair of PostgreSQLs, a cluster,
and a Valkey where limits are shared.

Put together here and nowhere else: who talks to whom, over which link."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.miniature import running
from tests.machines.backends import Backend
from tests.machines.gateways import Gateway
from tests.machines.name_service import CountingEthereum
from tests.machines.pair import Pair
from tests.postgres.toxic import linked
from tests.world.stores import Store, running_store


@dataclass(frozen=True)
class Bed:
    """All that runs."""

    pair: Pair
    gateways: list[Gateway]
    backend: Backend
    ethereum: CountingEthereum
    store: Store | None

    async def start(self, gateway: Gateway) -> None:
        """Start a gateway, again."""
        await gateway.start(self.ethereum.url)


@asynccontextmanager
async def running_bed(
    folder: Path,
    pair: AbstractAsyncContextManager[Pair],
    cluster: Callable[[Path], AbstractAsyncContextManager[Backend]],
    *,
    gateways: int = 3,
    shares_limits: bool = False,
) -> AsyncIterator[Bed]:
    """So many gateways before that *pair* and *cluster*, with logs and data in *folder*."""
    async with AsyncExitStack() as stack:
        databases = await stack.enter_async_context(pair)
        backend = await stack.enter_async_context(cluster(folder))
        ethereum = await stack.enter_async_context(running(CountingEthereum()))
        settings, store = dict(backend.settings), None
        if shares_limits:
            store = await stack.enter_async_context(running_store("valkey", folder / "valkey"))
            # More than is asked for: each process counts, tells and hears, and refuses nobody.
            settings |= {"LIMITS__URL": store.url, "LIMITS__REQUESTS_PER_MINUTE": "1000000"}
        started = []
        for number in range(gateways):
            links = [
                await stack.enter_async_context(linked(machine.port))
                for machine in databases.machines
            ]
            gateway = Gateway(number, folder, links, settings)
            started.append(gateway)
            stack.push_async_callback(gateway.kill9)
        bed = Bed(databases, started, backend, ethereum, store)
        await asyncio.gather(*(bed.start(gateway) for gateway in started))
        yield bed
