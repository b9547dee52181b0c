"""What the machine's steps are made of: processes that are opened, killed, and at work.

A deed is something that happens while a process is at a point. Which steps there are, and in what
order they come, is left to machine.py; what must hold, to truths.py."""

import asyncio
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.errors import PinNotFound, UpstreamError
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import ResyncReport
from content_gateway.model.pins import Label
from tests.ledgers import Clock
from tests.pins.model.cluster import CALL_SECONDS, Mood, SimulatedCluster
from tests.pins.model.points import Crashed, Deed
from tests.pins.model.process import POLICY, Cluster, Process, World
from tests.pins.model.truths import Truths

CIDS: Final = tuple(Cid(RAW, SHA2_256, bytes([number]) * 32) for number in range(7))
OURS, STRANGE = CIDS[:5], CIDS[5:]
MOST_ROUNDS: Final = 400


@dataclass
class Tally:
    """What was done, over all runs."""

    steps: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    crashed: Counter[str] = field(default_factory=Counter)


class Acting(RuleBasedStateMachine):
    """Two processes, a cluster with this batch *window*, and what can be done to them."""

    tally: Tally
    template: Path
    cluster: type[Cluster] = SimulatedCluster
    window = 60.0
    grace = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(dir=self.template.parent)
        path = Path(self._folder.name) / "ledger.sqlite"
        shutil.copy(self.template, path)
        clock = Clock()
        self.world = World(path, clock, self.cluster(clock, self.window), self.grace)
        self.world.passed, self.world.crashed = self.tally.passed, self.tally.crashed
        for cid in OURS:
            self.world.cluster.provide(cid)
        self.truths = Truths(self.world, set(STRANGE))
        self.processes: list[Process | None] = [None, None]
        self._awake_at = self.world.clock()
        self._moody_steps = 0
        self._is_fine = True
        self._run(self._open(0))

    def _do(self, which: int, deed: Deed) -> None:
        """Do it with that process, which may die of it."""

        async def do() -> None:
            self._awake_at = self.world.clock()
            if self.processes[which] is None:
                await self._open(which)
            with suppress(Crashed, PinNotFound, UpstreamError):
                await deed()
            for each, process in enumerate(self.processes):
                if process is not None and process.points.is_dead:
                    await self._kill(each)

        self._run(do())

    async def _open(self, which: int) -> None:
        process = Process(self.world)
        await process.open()
        self.processes[which] = process

    async def _kill(self, which: int) -> None:
        process, self.processes[which] = self.processes[which], None
        if process is not None:
            await process.kill()

    def _work(self, which: int, rounds: int, seconds: float) -> None:
        async def work() -> None:
            for _ in range(rounds):
                await self._of(which).reconciler.round()
                self.world.clock.now += seconds
                self._awake_at = self.world.clock()

        self._do(which, work)

    def _of(self, which: int) -> Process:
        process = self.processes[which]
        if process is None:
            raise Crashed
        return process

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def _arm(self, which: int, point: str, passages: int, deed: Deed | None) -> None:
        if self.processes[which] is None:
            self._run(self._open(which))
        self._of(which).points.arm(point, passages, deed)

    def _held(self, requestor: str, number: int) -> Cid:
        """A content that *requestor* holds, if there is one."""
        pins = self.world.model.pins[requestor]
        return pins[number % len(pins)].cid if pins else OURS[number]

    async def _add(self, which: int, requestor: str, cid: Cid, name: str | None) -> None:
        await self._of(which).pinning.add(requestor, str(cid), Label(name))

    async def _remove(self, which: int, requestor: str, cid: Cid) -> None:
        await self._of(which).pinning.remove(requestor, cid)

    async def _resync(self, which: int) -> ResyncReport | None:
        self.world.clock.now += 0.002  # what was pinned in this millisecond may be left out
        number = self.truths.number
        report = await self._of(which).resync.now()
        if report is not None:
            self.truths.resynced(report, number)
        return report

    async def _deed(self, which: int, deed: str, requestor: str, cid: Cid, seconds: float) -> None:
        """Something that happens while process *which* is at a point."""
        self.world.clock.now += seconds
        await self._keep_or_lose(which)
        other, cluster = self.processes[1 - which], self.world.cluster
        with suppress(PinNotFound):
            match deed:
                case "add":
                    await self._add(which, requestor, cid, None)
                case "remove":
                    await self._remove(which, requestor, cid)
                case "work":
                    await self._of(which).reconciler.round()
                case "other" if other is not None:
                    await other.reconciler.round()
                case "kill":
                    cluster.kill()
                case "commit":
                    cluster.commit()
                case "away":
                    cluster.mood = Mood.AWAY
                    self._moody_steps = 2
                case "lose":
                    cluster.lose(cid)
                    self.truths.excuse([cid])

    async def _keep_or_lose(self, which: int) -> None:
        """Leases are extended while a call is under way; a process that sleeps does not do it.

        Then it may do damage, as nobody can stop it: the resync mends it."""
        slept = self.world.clock() - self._awake_at
        if slept <= CALL_SECONDS:
            await self._of(which).contents.renew_all(POLICY.lease)
        else:
            self.world.calls.are_leases_lost = True
            self.truths.excuse(self.truths.leased(), late=True)

    async def _quieten(self, which: int) -> None:
        """Let everything that was wrong be over, and wait for what follows."""
        for process in filter(None, self.processes):
            process.points.disarm()
        if self.processes[which] is None:
            await self._open(which)
        cluster, self.world.calls.latency = self.world.cluster, 0.0
        cluster.mood = Mood.WELL
        for cid in CIDS:
            cluster.provide(cid)
        for _ in range(2):
            # A resync of a process that died is taken over once its lease has run out.
            self.world.clock.now += 600.0
            await self._calm_down(which)
            report = await self._resync(which)
        await self._calm_down(which)
        assert report is not None
        self.truths.check()
        self.truths.check_all_kept(report)

    async def _calm_down(self, which: int) -> None:
        clock, cluster = self.world.clock, self.world.cluster
        for _ in range(MOST_ROUNDS):
            if self.truths.is_quiet():
                return
            moments = [self.truths.next_at(), cluster.commits_at]
            clock.now = max(clock.now + 0.01, min(filter(None, moments)) + 0.01)
            if not await self._of(which).reconciler.round():
                clock.now += 1.0
            cluster.tick()
        raise AssertionError(f"something is tended again and again: {self.truths.rows()}")

    def teardown(self) -> None:
        try:
            if self._is_fine:
                self._run(self._quieten(0))
        finally:
            for which in (0, 1):
                self._run(self._kill(which))
            self.world.rows.close()
            self._loop.close()
            self._folder.cleanup()
