"""One run of the simulation: processes, clients and faults by a seed, then healing and the proof.

Everything is drawn from the seed: the backend, how many processes and clients there are, and what
happens to them (chaos.py). After some minutes of that all is mended, and what was promised must
come true within a bound; what must hold is in truths.py."""

import asyncio
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.errors import GatewayError
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.cid import RAW, Cid
from tests.simulation.backend import SimulatedBackend
from tests.simulation.chaos import Chaos
from tests.simulation.clients import Client
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.ledger import Link, Rows, SimulatedDatabase, Trouble
from tests.simulation.loop import OWNER, SimulatedLoop, Stuck
from tests.simulation.process import PATIENT, POLICY, Process
from tests.simulation.store import SimulatedStore
from tests.simulation.truths import Truths

CHECK_SECONDS: Final = 4.0
HEALED_WITHIN: Final = 800.0
"""Seconds after the last fault within which every promise is kept: some backoffs, attempts, leases
and batches in a row, and a resync."""
_BEGUN: Final = 1_800_000_000.0


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a seed: *wrong* is None where all was as it must be."""

    seed: int
    seconds: float
    commits: int
    requests: int
    callbacks: int
    wrong: str | None
    course: list[str] = field(default_factory=list)


class SimulatedWorld:
    """The world of *seed*, over a copy of the empty ledger at *template*."""

    def __init__(self, seed: int, loop: SimulatedLoop, path: Path, chance: random.Random) -> None:
        self.seed = seed
        self.loop = loop
        self.chance = chance
        self.path = path
        self.course: list[str] = []
        self.is_over = False
        self.offset = 0.0
        self.grace = chance.choice((0.0, 5.0, 20.0))
        self.chaos_seconds = chance.uniform(60, 200)
        self.deadliness = chance.choice((0.0, 0.002, 0.01))
        self.cids = [_cid(number) for number in range(chance.randrange(4, 9))]
        self.strange = [_cid(200), _cid(201)]
        self.backend = self._backend()
        self.policy = PATIENT if chance.random() < 0.6 else POLICY
        batch_age = self.backend.batch_age
        # The second one is when a rule that takes an unpin for done too early is wrong.
        self.flip_seconds: Sequence[tuple[float, float]] = (
            (0.0, self.grace + 2 * batch_age + 15.0),
            (self.grace + max(0.0, batch_age - 4.0), self.grace + batch_age + 7.0),
        )
        names = [f"requestor {number}" for number in range(chance.randrange(2, 5))]
        self._limits = {names[0]: 3} if chance.random() < 0.3 else {}
        self.rows = Rows(path)
        self.truths = Truths(
            self.rows, self.backend, self.clock, loop.time, self.grace, self._limits
        )
        self.truths.strange.update(self.strange)
        self.backend._watcher = self
        self.slots: dict[int, Process] = {}
        self._names = names
        kind = (
            f"{type(self.backend).__name__}, batch age {batch_age:.0f} s, grace {self.grace:.0f} s"
        )
        self.course.append(kind)
        self._is_healed = False

    def _backend(self) -> Any:
        chance = self.chance
        stalest = chance.random() < 0.5
        backend: SimulatedBackend
        if chance.random() < 0.4:
            backend = SimulatedStore(chance, self, stalest=stalest)
        else:
            backend = SimulatedCluster(
                chance,
                self,
                window=chance.choice((2.0, 15.0, 30.0)),
                workers=chance.choice((1, 2, 4)),
                stalest=stalest,
                shows_batch=chance.random() < 0.4,
            )
        backend.provide(self.cids)
        return backend

    # What processes and clients need.

    def clock(self) -> float:
        """The time of day, in seconds since 1970."""
        return _BEGUN + self.loop.time() + self.offset

    def limit_of(self, requestor: str) -> int:
        """How many pins it may have; 0 is no limit."""
        return self._limits.get(requestor, 0)

    def open_database(self, link: Link) -> SimulatedDatabase:
        """The shared ledger over *link*."""
        return SimulatedDatabase(self.path, link)

    def new_link(self) -> Link:
        """A way to the database without trouble."""
        return Link(self.chance, self._committed)

    def ready_process(self) -> Process | None:
        """Some process that takes requests."""
        ready = [process for process in self.slots.values() if process.is_ready]
        return self.chance.choice(ready) if ready else None

    def note(self, text: str) -> None:
        """A line of the course of events."""
        self.course.append(f"{self.loop.time():9.3f} {text}")

    # What the backend needs of its watcher.

    def request_begins(self, request: Any, cid: Cid) -> object:
        """As `Watcher.request_begins`."""
        self.note(f"{_owner()} sends {request} of {str(cid)[-6:]}")
        return self.truths.request_begins(request, cid)

    def request_ends(self, call: object) -> None:
        """As `Watcher.request_ends`."""
        self.truths.request_ends(call)

    def moment(self, what: str) -> None:
        """As `Watcher.moment`: the process of the caller may die of it."""
        owner = OWNER.get()
        if not isinstance(owner, Process) or self._is_healed:
            return
        if self.chance.random() < self.deadliness:
            owner.kill(f"when {what}")

    def _committed(self) -> None:
        self.truths.committed()
        self.moment("it has committed")

    # The course of a run.

    async def live(self) -> None:
        """Chaos, healing, proof; ends at the first thing that is wrong."""
        chance, chaos = self.chance, Chaos(self)
        tasks = [chaos.keep_alive(slot) for slot in range(chance.randrange(2, 5))]
        tasks += [chaos.run(), self._watch()]
        clients = []
        for name in self._names:
            mine = list(self.cids)
            chance.shuffle(mine)
            part = len(mine) // 2
            pause = chance.uniform(1, 12)
            clients += [
                Client(self, chance, name, cids).run(pause)
                for cids in (mine[:part], mine[part:])
                if cids
            ]
        running = [self.loop.create_task(task) for task in tasks]
        asking = [self.loop.create_task(client) for client in clients]
        try:
            await self._until(lambda: self.loop.time() > self.chaos_seconds)
            if self.truths.wrong is None:
                self.note("all is mended")
            self.is_over = self._is_healed = True
            chaos.heal()
            healed_at, until = self.clock(), self.loop.time() + HEALED_WITHIN
            await self._until(
                lambda: all(task.done() for task in asking) and self.truths.is_quiet(healed_at),
                until,
            )
            self.truths.check_all_kept()
            for task in (*running, *asking):
                if task.done():
                    task.result()
        finally:
            self.course.append("the end")
            for process in self.slots.values():
                process.kill("at the end")

    async def _until(self, is_so: Any, until: float | None = None) -> None:
        while self.truths.wrong is None and not is_so():
            if until is not None and self.loop.time() > until:
                self.truths.fail(f"it is not all quiet after so long:\n{self.truths.waiting()}")
            await asyncio.sleep(CHECK_SECONDS)

    async def _watch(self) -> None:
        while True:
            is_alive = any(
                process.is_ready and process.link.trouble is Trouble.NONE
                for process in self.slots.values()
            )
            self.truths.check_now(is_alive=is_alive)
            await asyncio.sleep(CHECK_SECONDS)


def simulate(seed: int, template: Path, *, is_told: bool = False) -> Run:
    """Take the course of *seed*, over a copy of the empty ledger at *template*; with *is_told*
    each commit is told of in its course."""
    random.seed(seed)  # backoffs draw their jitter there
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        path = Path(folder) / "ledger.sqlite"
        shutil.copy(template, path)
        loop = SimulatedLoop(chance)  # type: ignore[abstract]
        asyncio._set_running_loop(loop)  # futures are made before it runs
        world = SimulatedWorld(seed, loop, path, chance)
        asyncio._set_running_loop(None)
        if is_told:
            world.truths.note = world.note
        with _errors_to(world.truths):
            try:
                loop.run_until_complete(world.live())
            except Stuck as stuck:
                world.truths.fail(str(stuck))
            if loop.unhandled:
                world.truths.fail(f"unhandled: {loop.unhandled[0]}")
            wrong, seconds = world.truths.wrong, loop.time()
            loop.close()
        for process in world.slots.values():
            process.close_files()
        world.rows.close()
    truths = world.truths
    return Run(
        *(seed, seconds, truths.commits, truths.requests, loop.callbacks),
        wrong,
        world.course,
    )


@contextmanager
def empty_ledger() -> Iterator[Path]:
    """An empty ledger to be copied, in memory where there is a folder for it."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    async def make(path: Path) -> None:
        async with LedgerDatabase(path):
            pass

    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = Path(folder) / "empty.sqlite"
        asyncio.run(make(path))
        yield path


@contextmanager
def _errors_to(truths: Truths) -> Iterator[None]:
    """Have errors that the code logs, and goes on after, found by *truths*."""

    class Log:
        def __init__(self, *_: object, **__: object) -> None: ...

        def bind(self, **_: object) -> "Log":
            return self

        def info(self, *_: object, **__: object) -> None: ...

        debug = warning = info

        def error(self, event: str, **facts: Any) -> None:
            wrong = facts.get("exc_info")
            if isinstance(wrong, Exception) and not isinstance(wrong, GatewayError):
                truths.fail(f"{event}: {wrong!r}")

        def exception(self, event: str, **facts: Any) -> None:
            truths.fail(event)

    log: Any = Log
    structlog.configure(wrapper_class=log, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.reset_defaults()


def _owner() -> str:
    owner = OWNER.get()
    return owner.name if isinstance(owner, Process) else "nobody"


def _cid(number: int) -> Cid:
    return Cid(RAW, SHA2_256, bytes([number + 1]) * 32)
