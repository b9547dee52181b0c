"""What operators and their machines do: restarts one after the other, and clocks that are set.

Clients go on meanwhile, and are told apart from a proxy by nothing: one that finds a closed port
asks the next machine."""

import asyncio
import shutil
from collections import Counter
from contextlib import AsyncExitStack
from time import monotonic
from typing import Final

import aiohttp

from tests.cli.test_service_manager import PROGRAM, descriptors, handed, listener
from tests.faults.asking import ask_all, session
from tests.faults.ground import NOBODY, OPEN, Ground, PostgresGround
from tests.faults.journal import block
from tests.faults.row import Figure, Size
from tests.faults.rows.pinsets import cluster
from tests.ledgers import cid
from tests.process import COMMAND, Running, running
from tests.waiting import until

_CLIENTS: Final = 8
_BETWEEN: Final = {"full": 3.0, "short": 0.5}
_NODES: Final = 3
_DRAIN: Final = 15.0
_YEAR, _DAY = 365 * 86_400.0, 86_400.0
_EACH: Final = 20


class _Load:
    """Clients that pin one content after the other at whichever node takes a connection."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.answers = Counter[str]()
        self._is_over = False
        self._clients: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Let all of them begin."""
        self._clients = [asyncio.create_task(self._client(who)) for who in range(_CLIENTS)]

    async def end(self) -> None:
        """Begin no request any more, and wait for the answers to the last."""
        self._is_over = True
        await asyncio.gather(*self._clients)

    async def _client(self, who: int) -> None:
        """One of them, with a new connection for each request, as proxies have for POSTs."""
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(
            connector=connector, headers={"x-api-key": f"key{who}"}
        ) as own:
            number = who * 1_000_000
            while not self._is_over:
                number += 1
                await self._add(own, f"/ipfs/pin/add/{block(number)[0]}", who)

    async def _add(self, own: aiohttp.ClientSession, path: str, who: int) -> None:
        urls = self.urls[who % len(self.urls) :] + self.urls[: who % len(self.urls)]
        for url in urls:
            try:
                async with own.post(url + path) as answer:
                    await answer.read()
                    self.answers[str(answer.status)] += 1
                    return
            except aiohttp.ClientConnectorError:
                continue  # nobody listens there: the next one
            except aiohttp.ClientError as broken:
                self.answers[type(broken).__name__] += 1
                return
        self.answers["nobody"] += 1


async def rolling_restart(ground: Ground, size: Size) -> Figure:
    """PostgreSQL: three nodes, each stopped and started. SQLite: one service on a listener that its
    manager holds, three times."""
    load = _Load()
    if isinstance(ground, PostgresGround):
        drains = await _nodes(ground, load, _BETWEEN[size])
    else:
        drains = await _one(ground, load, _BETWEEN[size])
    failed = load.answers.total() - load.answers["200"]
    kept = len(ground.rows.pins())
    told = f" ({dict(load.answers)})" if failed else ""
    return Figure(
        f"{load.answers['200']:,} POSTs, {failed} failed{told}; longest drain {max(drains):.1f} s",
        not failed and max(drains) <= _DRAIN and kept >= load.answers["200"],
    )


async def _nodes(ground: PostgresGround, load: _Load, between: float) -> list[float]:
    drains = []
    stacks = [AsyncExitStack() for _ in range(_NODES)]
    try:
        nodes: list[Running] = [
            await stack.enter_async_context(ground.node(f"node{number}", {}))
            for number, stack in enumerate(stacks)
        ]
        load.urls = [one.url for one in nodes]
        load.begin()
        for number in range(_NODES):
            await asyncio.sleep(between)
            begun = monotonic()
            assert await nodes[number].stop(60) == 0
            drains.append(monotonic() - begun)
            await stacks[number].aclose()
            again = await stacks[number].enter_async_context(ground.node(f"node{number}", {}))
            load.urls[number] = again.url
        await asyncio.sleep(between)
        await load.end()
    finally:
        for stack in stacks:
            await stack.aclose()
    return drains


async def _one(ground: Ground, load: _Load, between: float) -> list[float]:
    drains = []
    with listener() as held:
        chosen = {**OPEN, **NOBODY, **ground.settings, **handed(held)}
        load.urls = [f"http://127.0.0.1:{held.getsockname()[1]}"]
        load.begin()
        for left in reversed(range(_NODES + 1)):
            async with running(
                "serve", ground.folder / "data", chosen, PROGRAM, handed=descriptors(held)
            ) as service:
                await asyncio.sleep(between)
                if not left:
                    await load.end()
                begun = monotonic()
                assert await service.stop(60) == 0
                drains.append(monotonic() - begun)
    return drains


async def a_wrong_clock(ground: Ground, size: Size) -> Figure:
    """A year ahead, then right, then two days back; with work under way each time."""
    ahead = ground.folder / "ahead"
    ahead.write_text("0")
    program = [COMMAND[0], "-m", "tests.faults.wrong_clock", str(ahead)]
    took = []
    async with (
        cluster(1) as (mini, settings),
        ground.serving(settings, program) as service,
        session() as asking,
    ):

        async def add(first: int) -> None:
            urls = [
                f"{service.url}/ipfs/pin/add/{cid(each)}" for each in range(first, first + _EACH)
            ]
            assert {answer.status for answer in await ask_all(asking, "POST", urls)} == {200}

        for step, seconds in enumerate((_YEAR, 0.0, -2 * _DAY)):
            mini.refusal = "no space left on device"  # what waits, waits by that clock
            await add(step * 100)
            await asyncio.sleep(1.0)
            other = ahead.with_name("next")
            other.write_text(str(seconds))
            shutil.move(other, ahead)
            await add(step * 100 + 50)
            mini.refusal = ""
            begun = monotonic()
            await until(lambda: ground.rows.unsettled() == 0, seconds=120)
            took.append(monotonic() - begun)
    told = ", ".join(f"{seconds:.1f} s" for seconds in took)
    return Figure(
        f"all pinned {told} after the clock was a year ahead, right, two days back",
        max(took) <= 60,
    )
