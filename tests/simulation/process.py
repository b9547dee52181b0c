"""A simulated process: reconciler, resync and pins over the shared ledger, until it is killed.

All that it does runs in a context of its own, by which the loop knows whose a callback is. A kill
may come before any of its steps, or right after something that it has not heard of yet; then
nothing of it runs any more, its files are closed, and its leases stay until they run out. The real
parts are wired as in wiring/pins.py, with a miniature of the backend."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import Event, LastRequest, LeaseQuota, WorkItem
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync, ResyncSchedule
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.ledger import Link, Ports, SimulatedDatabase
from tests.simulation.loop import OWNER, SimulatedLoop, outside

T = TypeVar("T")

POLICY: Final = ReconcilePolicy(
    workers=4,
    batch=3,
    idle=4.0,
    gather=0.05,
    gather_many=0.05,
    second_attempt_timeout=15.0,
    longest_attempt_timeout=60.0,
    longest_first_backoff=5.0,
    longest_backoff=60.0,
    longest_failure_backoff=60.0,
)
PATIENT: Final = replace(POLICY, first_attempt_timeout=60.0, second_attempt_timeout=60.0)
"""So that attempts last longer than leases."""
SCHEDULE: Final = ResyncSchedule(interval=60.0, least=5.0, poll=10.0, after_failure=5.0, lease=40.0)


class Gone(Exception):
    """The process was killed before it answered."""


class NoDenylist:
    """Everything may be pinned."""

    def check_cid(self, cid: Cid) -> None:
        """Never raises."""


class World(Protocol):
    """What a process needs of the world around it."""

    loop: SimulatedLoop
    backend: Any
    truths: Any
    policy: ReconcilePolicy
    grace: float

    def clock(self) -> float:
        """The time of day, in seconds since 1970."""

    def limit_of(self, requestor: str) -> int:
        """How many pins it may have; 0 is no limit."""

    def open_database(self, link: Link) -> SimulatedDatabase:
        """The shared ledger over *link*."""

    def note(self, text: str) -> None:
        """A line of the course of events."""


class Process:
    """One process of *world*, called *name*, over *link*; it lives from `open` on."""

    def __init__(self, world: World, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.is_dead = False
        self.is_ready = False
        self.steps = 0
        self.dies_at = 0  # after so many steps; 0: it does not
        self._world = world
        self.gone: asyncio.Future[None] = world.loop.create_future()
        self._context: Context = outside()
        self._context.run(OWNER.set, self)
        self._database: SimulatedDatabase | None = None
        self.pinning: Pinning
        self.reconciler: Reconciler
        self.resync: Resync

    def step(self) -> None:
        """As `Owner.step`: it dies here if this is the step."""
        self.steps += 1
        if self.steps == self.dies_at:
            self.kill("at a step")

    def kill(self, why: str) -> None:
        """End it at once: nothing of it runs any more."""
        if self.is_dead:
            return
        self._world.note(f"{self.name} is killed {why}")
        self.is_dead, self.is_ready = True, False
        self._world.loop.keep_tasks()
        self._world.loop.call_soon(self._bury, context=outside())

    def close_files(self) -> None:
        """What the kernel does once it has ended."""
        if self._database is not None:
            self._database.cut()

    def _bury(self) -> None:
        self.close_files()
        if not self.gone.done():
            self.gone.set_result(None)

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What *work* comes to as work of this process; raises Gone if it was killed before."""
        if self.is_dead:
            raise Gone
        task: asyncio.Task[T] = self._world.loop.create_task(work(), context=self._context.copy())
        task.add_done_callback(_retrieve, context=outside())
        either: set[asyncio.Future[Any]] = {task, self.gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.gone.done() and not (task.done() and not self.is_dead):
            raise Gone
        return task.result()

    async def open(self) -> None:
        """Open the ledger and start the work."""
        await self.call(self._open)

    async def _open(self) -> None:
        world = self._world
        self._database = database = world.open_database(self.link)
        await database.__aenter__()
        ports = Ports(database, grace=world.grace, clock=world.clock)
        backend, monotonic = world.backend, world.loop.time
        self.reconciler = Reconciler(
            WatchedQueue(ports.queue, world.truths, self),
            backend,
            policy=world.policy,
            health=ports.health,
            returned=lambda: self.resync.trigger(),  # noqa: PLW0108 - each wakes the other
            queue=backend if isinstance(backend, SimulatedCluster) else None,
            clock=world.clock,
            monotonic=monotonic,
        )
        self.resync = Resync(
            WatchedResyncs(ports.resyncs, world.truths, self),
            backend,
            wake=self.reconciler.wake,
            schedule=SCHEDULE,
            clock=world.clock,
        )
        self.pinning = Pinning(
            ports.pins,
            denylist=NoDenylist(),
            wake=self.reconciler.wake,
            limit_of=world.limit_of,
        )
        self.reconciler.start()
        self.resync.start()
        self.is_ready = True

    async def stop(self) -> None:
        """End it in order: its leases are given up."""
        self.is_ready = False

        async def close() -> None:
            await self.resync.close()
            await self.reconciler.close()
            if self._database is not None:
                await self._database.__aexit__()

        await self.call(close)
        self.is_dead = True
        if not self.gone.done():
            self.gone.set_result(None)


class WatchedQueue:
    """The port WorkQueue, whose calls are told to *truths*."""

    def __init__(self, port: Any, truths: Any, process: Process) -> None:
        self._port = port
        self._truths = truths
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        """Lease, and check that the quota was kept."""
        items: Sequence[WorkItem] = await self._port.lease(owner, seconds, quota)
        self._truths.leased(self._process, owner, quota, items)
        return items

    async def begin(
        self,
        owner: str,
        item: WorkItem,
        last_request: LastRequest,
        event: Event | None,
        *,
        though_held: bool = False,
    ) -> WorkItem | None:
        """Begin; a withdrawal is no unpin of something promised."""
        self._truths.begins(item, is_withdrawal=though_held)
        begun: WorkItem | None = await self._port.begin(
            owner, item, last_request, event, though_held=though_held
        )
        return begun


class WatchedResyncs:
    """The port ResyncLedger, whose calls are told to *truths*."""

    def __init__(self, port: Any, truths: Any, process: Process) -> None:
        self._port = port
        self._truths = truths
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def acquire_job(self, name: str, owner: str, seconds: float, longest: float) -> bool:
        """Acquire the job, which nobody else may have."""
        until = self._truths.clock() + seconds
        acquired: bool = await self._port.acquire_job(name, owner, seconds, longest)
        if acquired:
            self._truths.job_begins(self._process, owner, until)
        return acquired

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Renew the lease."""
        until = self._truths.clock() + seconds
        renewed: bool = await self._port.renew_job(name, owner, seconds)
        if renewed:
            self._truths.job_goes_on(owner, until)
        return renewed

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """Finish the job."""
        self._truths.job_ends(owner)
        await self._port.finish_job(name, owner, again_in)

    async def report(self, report: Any) -> None:
        """A resync has seen everything."""
        await self._port.report(report)
        self._truths.resynced(report)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Whoever called may be gone: then nobody asks for its error."""
    if not task.cancelled():
        task.exception()
