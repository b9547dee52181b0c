"""Breaks machines and the network between them, by a seed, and mends what it broke.

Two go on side by side: one kills gateways in turn, one has everything else. Knows how each fault is
done and undone; which may come is chosen by whoever runs it."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tests.machines.backends import PEERS, Backend
from tests.machines.gateways import Gateway
from tests.machines.pair import Pair
from tests.world.stores import Store

Fault = Callable[[], Awaitable[None]]
ALONE: Final = ("PostgreSQL restarted", "PostgreSQL crashed", "PostgreSQL killed")
"""The faults of a database that needs no standby."""


class Nemesis:
    """The faults of one bed; `faults` counts those that were done, by name."""

    def __init__(
        self,
        pair: Pair,
        gateways: Sequence[Gateway],
        backend: Backend,
        start: Callable[[Gateway], Awaitable[None]],
        store: Store | None,
        *,
        seed: int,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.faults: Counter[str] = Counter()
        self._pair = pair
        self._gateways = gateways
        self._backend = backend
        self._start = start
        self._store = store
        self._chance = random.Random(f"{seed}/nemesis")
        self._note = note
        self._is_over = asyncio.Event()
        self.known: dict[str, Fault] = {
            "PostgreSQL restarted": self._restart,
            "PostgreSQL crashed": self._crash,
            "PostgreSQL killed": self._kill,
            "PostgreSQL failed over": pair.fail_over,
            "PostgreSQL failed over while replication was cut": self._fail_over_behind,
            "PostgreSQL failed over as it stood still": self._fail_over_paused,
            "PostgreSQL stood still": self._pause_primary,
            "the standby stood still": self._pause_standby,
            "replication was cut": self._cut_replication,
            "connections were cut": self._cut,
            "connections were delayed": self._delay,
            "a gateway's network hung": self._hang,
            "a cluster peer stood still": self._pause_peer,
            "a cluster peer was killed": self._kill_peer,
        }
        if store is not None:
            self.known["Valkey stood still"] = self._pause_store
            self.known["Valkey was killed"] = self._kill_store

    def stop(self) -> None:
        """Begin no more; what is broken is mended."""
        self._is_over.set()

    async def run(self, names: Sequence[str], rest: float) -> None:
        """Do the faults of these *names* until `stop`, in rounds, each round in another order;
        *rest* is the longest pause between two of them, in seconds."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kill_gateways(rest))
            group.create_task(self._break_others(names, rest))

    async def _break_others(self, names: Sequence[str], rest: float) -> None:
        while not self._is_over.is_set():
            for name in self._chance.sample(names, len(names)):
                await self._pause(self._chance.uniform(rest / 4, rest))
                if self._is_over.is_set():
                    return
                await self._do(name, self.known[name])

    async def _kill_gateways(self, rest: float) -> None:
        while not self._is_over.is_set():
            for gateway in self._gateways:
                await self._pause(self._chance.uniform(rest / 2, 2 * rest))
                if self._is_over.is_set():
                    return

                async def kill(gateway: Gateway = gateway) -> None:
                    await gateway.kill9()
                    await self._pause(self._chance.uniform(0.2, 2.0))
                    await self._start(gateway)

                await self._do("a gateway was killed", kill)

    async def _do(self, name: str, fault: Fault) -> None:
        self._note(f"{name} ...")
        await fault()
        self._note(f"{name}: mended")
        self.faults[name] += 1

    async def _pause(self, seconds: float) -> None:
        """So long, or until all is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
        except TimeoutError:
            pass

    def _while(self, least: float, most: float) -> float:
        return self._chance.uniform(least, most)

    async def _restart(self) -> None:
        await asyncio.to_thread(self._pair.primary.shut_down)
        await self._start_primary()

    async def _crash(self) -> None:
        await asyncio.to_thread(self._pair.primary.crash)
        await self._start_primary()

    async def _kill(self) -> None:
        await asyncio.to_thread(self._pair.primary.power_off)
        await asyncio.sleep(self._while(0, 2))
        await self._start_primary()

    async def _start_primary(self) -> None:
        """It shows what it had committed alone; before it may be lost the standby has that too."""
        await asyncio.to_thread(self._pair.primary.start)
        await self._pair.until_in_step()

    async def _fail_over_behind(self) -> None:
        """Commits wait for a standby that hears nothing, and which is then the primary."""
        link = self._pair.replication
        link.drop()
        await asyncio.sleep(self._while(0.2, 4))
        await self._pair.fail_over()
        link.cut()
        link.mend()

    async def _fail_over_paused(self) -> None:
        self._pair.primary.pause()
        await asyncio.sleep(self._while(0.2, 3))
        await self._pair.fail_over()

    async def _pause_primary(self) -> None:
        self._pair.primary.pause()
        await asyncio.sleep(self._while(0.5, 6))
        self._pair.primary.go_on()

    async def _pause_standby(self) -> None:
        """For longer than a statement may take, at times: commits wait for it."""
        if self._pair.standby is not None:
            self._pair.standby.pause()
            long = self._chance.random() < 0.3
            await asyncio.sleep(self._while(10, 20) if long else self._while(0.5, 6))
            self._pair.standby.go_on()

    async def _cut_replication(self) -> None:
        self._pair.replication.drop()
        await asyncio.sleep(self._while(0.2, 4))
        self._pair.replication.cut()
        self._pair.replication.mend()

    async def _cut(self) -> None:
        for _ in range(5):
            for link in self._chance.choice(self._gateways).links:
                link.cut()
            await asyncio.sleep(self._while(0, 0.5))

    async def _delay(self) -> None:
        links = [link for gateway in self._gateways for link in gateway.links]
        for link in links:
            link.delay = self._while(0.0, 0.15)
        await asyncio.sleep(self._while(2, 5))
        for link in links:
            link.delay = 0.0

    async def _hang(self) -> None:
        links = self._chance.choice(self._gateways).links
        for link in links:
            link.drop()
        await asyncio.sleep(self._while(0.5, 6))
        for link in links:
            link.mend()

    async def _pause_peer(self) -> None:
        peer = self._chance.randrange(PEERS)
        self._backend.pause(peer)
        await asyncio.sleep(self._while(2, 6))
        self._backend.go_on(peer)

    async def _kill_peer(self) -> None:
        peer = self._chance.randrange(PEERS)
        await self._backend.kill9(peer)
        await asyncio.sleep(self._while(0.5, 3))
        await self._backend.start(peer)

    async def _pause_store(self) -> None:
        assert self._store is not None
        self._store.hang()
        await asyncio.sleep(self._while(0.5, 6))
        self._store.go_on()

    async def _kill_store(self) -> None:
        """At times it has forgotten everything when it is back."""
        assert self._store is not None
        await self._store.kill()
        if self._chance.random() < 0.5:
            self._store.forget()
        await asyncio.sleep(self._while(0.5, 3))
        await self._store.start()
