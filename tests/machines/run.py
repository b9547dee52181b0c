"""One run: load and faults for a while, a rest, and the verdict."""

import asyncio
import random
from collections.abc import Callable, Sequence

from tests.machines.bed import Bed
from tests.machines.clients import Clients
from tests.machines.history import History
from tests.machines.nemesis import Nemesis
from tests.machines.verdict import Verdict, judge


async def run(
    bed: Bed,
    *,
    seconds: float,
    seed: int,
    faults: Sequence[str] | None = None,
    rest: float = 4.0,
    clients: int = 16,
    note: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """The verdict on *seconds* of load and *faults* (all, where None), drawn from *seed*."""
    history = History()
    asking = Clients(history, bed.gateways, bed.backend, seed=seed, number=clients)
    nemesis = Nemesis(
        bed.pair, bed.gateways, bed.backend, bed.start, bed.store, seed=seed, note=note
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(asking.run())
        breaking = group.create_task(nemesis.run(list(faults or nemesis.known), rest))
        await asyncio.sleep(seconds)
        nemesis.stop()
        await breaking
        await bed.pair.until_in_step()
        # All is well: what comes now must be answered.
        await asyncio.sleep(random.Random(seed).uniform(1.0, 2.0))
        asking.stop()
    note("at rest")
    verdict = await judge(bed, history, asking, seed)
    verdict.faults = nemesis.faults
    return verdict
