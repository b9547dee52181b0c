"""The ports of one process, watched: every call passes two points, and tells the model.

The real ledger and the real rules are behind them; nothing is changed on the way. What must hold
at each call is checked here, as only here both sides of it are seen."""

import sqlite3
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    Event,
    LastRequest,
    LeaseQuota,
    Listed,
    Outcome,
    WorkItem,
)
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.model.pins import Label, Page, Pin, PinStatus, Removal, Search
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.pinning import PinLedger
from content_gateway.pins.work_queue import WorkQueue
from tests.ledgers import Clock
from tests.pins.model.points import Points
from tests.pins.model.promises import Promises

T = TypeVar("T")


class WatchedLedger:
    """A PinLedger whose answers the model hears before anybody else does."""

    def __init__(self, ledger: PinLedger, points: Points, model: Promises) -> None:
        self._ledger = ledger
        self._points = points
        self._model = model

    async def add(
        self, requestor: str, cid: Cid, spelling: str, label: Label, *, most: int = 0
    ) -> Pin | None:
        await self._points.passing("before add")
        pin = await self._ledger.add(requestor, cid, spelling, label, most=most)
        self._model.added(requestor, cid, label, pin)
        await self._points.passing("after add")
        return pin

    async def relabel(self, requestor: str, cid: Cid, label: Label) -> bool:
        await self._points.passing("before relabel")
        found = await self._ledger.relabel(requestor, cid, label)
        self._model.relabelled(requestor, cid, label, found)
        await self._points.passing("after relabel")
        return found

    async def replace(
        self, requestor: str, old: Pin, cid: Cid, spelling: str, label: Label
    ) -> Pin | None:
        await self._points.passing("before replace")
        pin = await self._ledger.replace(requestor, old, cid, spelling, label)
        self._model.replaced(requestor, old, cid, pin)
        await self._points.passing("after replace")
        return pin

    async def remove(
        self, requestor: str, cid: Cid, created_at: datetime | None, *, by_operator: bool
    ) -> Removal | None:
        await self._points.passing("before remove")
        removal = await self._ledger.remove(requestor, cid, created_at, by_operator=by_operator)
        self._model.removed(requestor, cid, removal)
        await self._points.passing("after remove")
        return removal

    async def status(self, requestor: str, cid: Cid) -> PinStatus | None:
        self._points.check()
        return await self._ledger.status(requestor, cid)

    async def search(self, requestor: str, search: Search, shown: Callable[[Page], T]) -> T:
        await self._points.passing("before search")
        return await self._ledger.search(requestor, search, shown)


class WatchedContents:
    """A WorkQueue; *begun* is what this process has recorded that it is about to send, and when."""

    def __init__(
        self,
        ledger: WorkQueue,
        points: Points,
        model: Promises,
        clock: Callable[[], float],
        rows: sqlite3.Connection,
    ) -> None:
        self._rows = rows
        self.begun: dict[Cid, tuple[LastRequest, float]] = {}
        self._leased: dict[tuple[str, int], WorkItem] = {}
        self._ledger = ledger
        self._points = points
        self._model = model
        self._clock = clock

    async def any_due(self, quota: LeaseQuota) -> bool:
        self._points.check()
        return await self._ledger.any_due(quota)

    async def waiting_requestors(self, limit: int) -> Sequence[int]:
        self._points.check()
        return await self._ledger.waiting_requestors(limit)

    async def lease(self, owner: str, seconds: float, quota: LeaseQuota) -> Sequence[WorkItem]:
        await self._points.passing("before lease")
        items = await self._ledger.lease(owner, seconds, quota)
        for item in items:
            if item.is_held != (item.cid in self._model.held()):
                self._model.wrong.append(f"leased with is_held {item.is_held}: {item.cid}")
            self._leased[owner, item.id] = item
        await self._points.passing("after lease")
        return items

    async def renew(self, owner: str, items: Sequence[WorkItem], seconds: float) -> set[int]:
        return await self._ledger.renew(owner, items, seconds)

    async def renew_all(self, seconds: float) -> None:
        """What the reconciler does by a clock that is not the test's: extend all leases."""
        for (owner, _), item in list(self._leased.items()):
            await self._ledger.renew(owner, [item], seconds)

    async def release(self, owner: str) -> None:
        await self._points.passing("before release")
        await self._ledger.release(owner)
        await self._points.passing("after release")

    async def rebase(self, longest: float, lease: float, back: float) -> None:
        await self._points.passing("before rebase")
        await self._ledger.rebase(longest, lease, back)
        await self._points.passing("after rebase")

    async def trigger(self, numbers: Sequence[int]) -> None:
        await self._points.passing("before trigger")
        await self._ledger.trigger(numbers)
        await self._points.passing("after trigger")

    async def begin(
        self,
        owner: str,
        item: WorkItem,
        last_request: LastRequest,
        event: Event | None,
        *,
        though_held: bool = False,
    ) -> WorkItem | None:
        await self._points.passing("before begin")
        begun = await self._ledger.begin(owner, item, last_request, event, though_held=though_held)
        if begun is not None:
            self.begun[item.cid] = (last_request, self._clock())
            self._model.sends(last_request, item.cid, is_back=though_held)
        await self._points.passing("after begin")
        return begun

    def check_begun(self, cid: Cid, last_request: LastRequest) -> None:
        """Note it where *last_request* is about to be sent and was not recorded before."""
        if self.begun.get(cid, (None, 0.0))[0] is not last_request:
            self._model.wrong.append(f"{last_request} was sent and not recorded before: {cid}")

    def _of_others(self, owner: str, items: Sequence[WorkItem]) -> set[tuple[Any, ...]]:
        """The rows of *items* whose leases *owner* does not have."""
        ids = ",".join(str(item.id) for item in items)
        found = self._rows.execute(
            f"SELECT * FROM contents WHERE id IN ({ids}) AND lease_owner IS NOT ?", (owner,)
        )
        return set(found.fetchall())

    def _expect_same(
        self, owner: str, others: set[tuple[Any, ...]], items: Sequence[WorkItem]
    ) -> None:
        if not others <= self._of_others(owner, items):
            self._model.wrong.append(f"written without a lease: {others}")

    async def progress(self, owner: str, item: WorkItem, blocks: int, size: int) -> None:
        self._points.check()
        await self._ledger.progress(owner, item, blocks, size)

    async def record_outcomes(
        self, owner: str, outcomes: Sequence[tuple[WorkItem, Outcome]]
    ) -> None:
        await self._points.passing("before record_outcomes")
        items, deeds = [item for item, _ in outcomes], self._points.deeds
        number, is_alone = deeds.number, not deeds.is_busy
        others = self._of_others(owner, items)
        await self._ledger.record_outcomes(owner, outcomes)
        if is_alone and deeds.number == number:
            self._expect_same(owner, others, items)
        for item, _ in outcomes:
            self.begun.pop(item.cid, None)
            self._leased.pop((owner, item.id), None)
        await self._points.passing("after record_outcomes")


class Calls:
    """The changes that backends are being asked for now, by all processes.

    While a call is under way its process passes a point, and at least *latency* seconds."""

    def __init__(self, clock: Clock, model: Promises) -> None:
        self.latency = 0.0
        self.are_leases_lost = False
        self._clock = clock
        self._model = model
        self._calls: dict[Cid, list[tuple[Points, WatchedContents]]] = defaultdict(list)

    @contextmanager
    def call(self, cid: Cid, points: Points, contents: WatchedContents) -> Iterator[None]:
        """Between enter and exit the backend is asked to change *cid*."""
        calls = self._calls[cid]
        if any(other is points or not self.are_leases_lost for other, _ in calls):
            self._model.wrong.append(f"two calls at once for {cid}")
        calls.append((points, contents))
        try:
            yield
        finally:
            calls.remove((points, contents))

    async def meanwhile(self, what: str, cid: Cid) -> None:
        """What happens before the backend takes in the change that was asked for last."""
        points, contents = self._calls[cid][-1]
        _, begun_at = contents.begun.get(cid, (None, self._clock()))
        self._clock.now = max(self._clock(), begun_at + self.latency)
        await points.passing(f"during {what}")


class WatchedBackend:
    """A PinBackend that is asked only for what was recorded before."""

    def __init__(
        self, backend: PinBackend, points: Points, contents: WatchedContents, calls: Calls
    ) -> None:
        self._backend = backend
        self._points = points
        self._contents = contents
        self._calls = calls

    @property
    def batch_age(self) -> float:
        return self._backend.batch_age

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        await self._points.passing("before status")
        seen = await self._backend.status(cids, ages, unsent)
        await self._points.passing("after status")
        return seen

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        await self._points.passing("before pin")
        self._contents.check_begun(cid, LastRequest.PIN)
        progress(1, 100)
        with self._calls.call(cid, self._points, self._contents):
            status = await self._backend.pin(cid, seen, progress, origins)
        await self._points.passing("after pin")
        return status

    async def unpin(self, cid: Cid) -> None:
        await self._points.passing("before unpin")
        self._contents.check_begun(cid, LastRequest.UNPIN)
        with self._calls.call(cid, self._points, self._contents):
            await self._backend.unpin(cid)
        await self._points.passing("after unpin")

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        await self._points.passing("before pinset")
        async for listed in self._backend.pinset():
            await self._points.passing("during pinset")
            yield listed
        await self._points.passing("after pinset")


class WatchedResyncs:
    """A ResyncLedger: each of its calls passes two points."""

    def __init__(self, resyncs: Any, points: Points) -> None:
        self._resyncs = resyncs
        self._points = points

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._resyncs, name)

        async def watched(*arguments: Any) -> Any:
            await self._points.passing(f"before {name}")
            answer = await method(*arguments)
            await self._points.passing(f"after {name}")
            return answer

        return watched
