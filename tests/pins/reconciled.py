"""The ledger and the reconciler as they are, over a backend in memory."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import PinDeferred, PinFailed, UpstreamUnavailable
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, ContentState, Listed, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.model.pins import PinStatus, Removal
from content_gateway.pins.backoff import ReconcilePolicy
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from tests.ledgers import cid
from tests.waiting import eventually

QUICK = ReconcilePolicy(
    workers=16,
    idle=0.02,
    lease=60.0,  # nobody dies, and a machine that is busy takes none away
    first_backoff=0.01,
    longest_backoff=0.05,
    longest_failure_backoff=0.05,
    longest_unreachable_backoff=0.05,
)
PINNED, ABSENT = (
    BackendStatus(TrackerStatus.PINNED, replicas=1),
    BackendStatus(TrackerStatus.ABSENT),
)


class Backend:
    """A backend in memory that can be unreachable, refuse, lose or be slow.

    With a *batch_age* a request is seen only after so many seconds, in the order they came; the pin
    of a content that is *late* only so long after its first unpin."""

    def __init__(self, batch_age: float = 0.0) -> None:
        self.batch_age = batch_age
        self.held: set[Cid] = set()
        self.sent: Counter[Cid] = Counter()
        self.origins: dict[Cid, Sequence[Multiaddr]] = {}
        self.unpinned: Counter[Cid] = Counter()
        self.checked: Counter[Cid] = Counter()
        self.calls = 0
        self.refused: set[Cid] = set()
        self.deferred: set[Cid] = set()
        self.broken: set[Cid] = set()
        self.hanging: set[Cid] = set()
        self.late: set[Cid] = set()
        self.is_unreachable = False
        self.is_rejecting_writes = False
        self.seconds = 0.0
        self.running = 0
        self.most_running = 0
        self.busy: Counter[Cid] = Counter()
        self.overlapped = False

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        self.calls += 1
        self.checked.update(cids)
        if self.is_unreachable:
            raise UpstreamUnavailable("away")
        return {cid: PINNED if cid in self.held else ABSENT for cid in cids}

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        if self.is_unreachable or self.is_rejecting_writes:
            raise UpstreamUnavailable("away")
        if cid in self.refused:
            raise PinFailed("no such block")
        if cid in self.deferred:
            raise PinDeferred("not now")
        if cid in self.broken:
            raise ZeroDivisionError
        self.sent[cid] += 1
        self.origins[cid] = origins
        async with self._one_of(cid):
            progress(1, 100)
            await asyncio.sleep(3600 if cid in self.hanging else self.seconds)
        if not self.batch_age:
            self.held.add(cid)
            return PINNED
        if cid not in self.late:
            self._commit_pin(cid)
        return BackendStatus(TrackerStatus.QUEUED)

    def _commit_pin(self, cid: Cid) -> None:
        asyncio.get_running_loop().call_later(self.batch_age * 0.8, self.held.add, cid)

    async def unpin(self, cid: Cid) -> None:
        if self.is_unreachable:
            raise UpstreamUnavailable("away")
        self.unpinned[cid] += 1
        if cid in self.late:
            self.late.remove(cid)
            self._commit_pin(cid)
        async with self._one_of(cid):
            await asyncio.sleep(self.seconds)
        if not self.batch_age:
            self.held.discard(cid)
        elif cid in self.held:  # else it is not there yet, and a cluster answers 404
            asyncio.get_running_loop().call_later(self.batch_age * 0.8, self.held.discard, cid)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        for held in sorted(self.held, key=str):
            yield Listed(held)

    @asynccontextmanager
    async def _one_of(self, cid: Cid) -> AsyncIterator[None]:
        self.busy[cid] += 1
        self.running += 1
        self.overlapped |= self.busy[cid] > 1
        self.most_running = max(self.most_running, self.running)
        try:
            yield
        finally:
            self.busy[cid] -= 1
            self.running -= 1


class Pins:
    """The pins of a ledger, by number, and a reconciler for them that a test starts."""

    def __init__(
        self,
        database: LedgerDatabase,
        backend: Backend,
        policy: ReconcilePolicy = QUICK,
        *,
        grace: float = 0.2,
        clock: Callable[[], float] = time.time,
        **parts: Any,
    ) -> None:
        self.backend, self.contents = backend, SqliteWorkQueue(database, clock=clock)
        self.ledger = SqlitePins(database, grace=grace, clock=clock)
        self.reconciler = Reconciler(self.contents, backend, policy=policy, clock=clock, **parts)
        self.pinning = Pinning(
            self.ledger, denylist=Denylist(None, None), wake=self.reconciler.wake
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reconciler.close()

    def start(self) -> None:
        self.reconciler.start()

    async def add(self, *numbers: int, who: str = "a") -> None:
        """Let *who* pin these contents."""
        await asyncio.gather(*(self.pinning.add(who, str(cid(number))) for number in numbers))

    async def remove(self, number: int, who: str = "a") -> Removal:
        return await self.pinning.remove(who, cid(number))

    async def status(self, number: int, who: str = "a") -> PinStatus:
        return await self.pinning.status(who, cid(number))

    async def reaches(self, state: ContentState, number: int, who: str = "a") -> PinStatus:
        """The status of a pin, once it has *state*."""

        async def status() -> PinStatus | None:
            status = await self.status(number, who)
            return status if status.state is state else None

        return await eventually(status)

    async def tried(self, number: int, times: int = 1, who: str = "a") -> None:
        """Once a pin that is not there yet was asked for so many *times*."""

        async def is_tried() -> bool:
            return (await self.status(number, who)).attempts >= times

        await eventually(is_tried)

    async def explained(self, number: int) -> None:
        """Once it is told why a pin is not there."""

        async def has_reason() -> bool:
            return (await self.status(number)).error is not None

        await eventually(has_reason)

    async def pinned(self, *numbers: int, who: str = "a") -> None:
        for number in numbers:
            await self.reaches(ContentState.PINNED, number, who)
