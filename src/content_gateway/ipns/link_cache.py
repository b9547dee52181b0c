"""IPNS links: where each name points next, the best proof of it, and when to look again.

One in-flight request a name asks every source at once, verifies what they say and keeps the best
record; so many run at once, fairly by requestor, and one that others join is charged to whoever
began it; a record with a lower sequence is never taken, whatever a source still serves and across
restarts. Knows freshness (boxo `namesys`: the record's TTL, never beyond its validity); following
links to content is left to resolver.py, fetching to the sources."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import Overloaded, UpstreamError
from content_gateway.ipns.cache_entry import DEFAULT_TTL, NEVER, CacheEntry, IpnsPolicy
from content_gateway.ipns.record import IpnsRecord, verify
from content_gateway.model.content_path import parse_content_path
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import StoredEntry

log = structlog.get_logger(__name__)


class RecordSource(Protocol):
    """Somebody who may hold records; need not be trusted."""

    async def record(self, name: IpnsName) -> bytes | None:
        """The record as it was given, None if the source has none; raises UpstreamError."""


class DnsLinkRecord(Protocol):
    """What a domain's TXT record says."""

    @property
    def path(self) -> str:
        """A content path."""

    @property
    def ttl(self) -> timedelta:
        """How long DNS lets it be reused unasked."""


class DnsLinkSource(Protocol):
    """DNSLink lookups."""

    async def lookup(self, domain: str) -> DnsLinkRecord | None:
        """The link of *domain*, None if it has none; raises UpstreamError."""


class IpnsStore(Protocol):
    """LinkCache that outlive this process."""

    def load_ipns(self, name: IpnsName) -> StoredEntry | None:
        """What is remembered; None if nothing is, or it cannot be read now."""

    def store_ipns(self, name: IpnsName, link: StoredEntry | None) -> None:
        """Remember *link* some time soon; None: the name points nowhere any more."""


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A look-up under way or waiting for its *permit*, and the link that it fills."""

    task: asyncio.Task[None]
    link: CacheEntry
    permit: Permit


class LinkCache:
    """The links of all names; owns the in-flight requests. Close it when done."""

    def __init__(
        self,
        sources: Sequence[RecordSource],
        domains: DnsLinkSource,
        store: IpnsStore,
        *,
        policy: IpnsPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.policy = policy or IpnsPolicy()
        self.clock = clock
        self.today = today
        self._sources = tuple(sources)
        self._domains = domains
        self._store = store
        self._links: dict[IpnsName, CacheEntry] = {}
        self._in_flight: dict[IpnsName, _InFlight] = {}
        self._permits = FairSemaphore(
            self.policy.max_in_flight,
            waiting=self.policy.max_waiting,
            patience=self.policy.turn_limit,
            detail="Too many IPNS names are being looked up at once.",
        )

    def entry(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> CacheEntry:
        """The link of *name* as it is known now.

        Starts an in-flight request for *requestor* unless the link is fresh or one is under
        way; with *force_refresh* also when it is fresh, but not more often than the policy allows.
        Starts none where the requestor has used up its share (`check`)."""
        link = self.known(name)
        now = self.clock()
        wanted = force_refresh and now >= link.asked_at + self.policy.between_refreshes
        if name in self._in_flight:
            self._in_flight[name].permit.join(requestor)
        elif wanted or now >= link.fresh_until:
            self._start(name, link, now, requestor)
        return link

    def check(self, name: IpnsName, requestor: str) -> None:
        """Raises Overloaded where a look-up of *name* could not begin for *requestor* now."""
        if name not in self._in_flight and not self._permits.has_room(requestor):
            raise Overloaded(self._permits.detail)

    def known(self, name: IpnsName) -> CacheEntry:
        """The link of *name* from memory, else from the store; asks nobody."""
        link = self._links.pop(name, None)
        if link is None and name in self._in_flight:
            link = self._in_flight[name].link  # forgotten while its in-flight request was under way
        if link is None:
            link = self._loaded(name)
            if len(self._links) >= self.policy.max_names:
                del self._links[next(iter(self._links))]
        self._links[name] = link
        return link

    async def close(self) -> None:
        """End every in-flight request and wait until it has ended."""
        tasks = [in_flight.task for in_flight in self._in_flight.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _loaded(self, name: IpnsName) -> CacheEntry:
        """The link that a former process has left behind, or an empty one."""
        link = CacheEntry()
        known = self._store.load_ipns(name)
        if known is None:
            return link
        try:
            if name.is_dnslink:
                self._take_domain(link, known.path, known.ttl or DEFAULT_TTL, known.at)
            elif known.record is not None:
                # It was verified then; it may have expired since, but its sequence still counts.
                self._take_record(link, verify(name, known.record, known.at), known.at)
        except UpstreamError as wrong:
            log.error("a kept ipns record is not valid", name=name.text, reason=wrong.detail)
            return CacheEntry()
        link.finished_at = known.at
        return link

    def _start(self, name: IpnsName, link: CacheEntry, now: float, requestor: str) -> None:
        try:
            permit = self._permits.request(requestor)
        except Overloaded:
            return
        if link.asked_at < 0:
            link.first_wait_ends = now + self.policy.first_wait
        link.asked_at = now
        link.answered.clear()
        task = asyncio.create_task(self._run(name, link, permit), name=f"ipns {name}")
        self._in_flight[name] = _InFlight(task, link, permit)
        task.add_done_callback(lambda _: self._in_flight.pop(name).permit.release())

    async def _run(self, name: IpnsName, link: CacheEntry, permit: Permit) -> None:
        try:
            await permit.granted()
            # What a source brings replaces this; else nobody asks again for a while.
            link.fresh_until = self.clock() + self.policy.retry_after
            link.failure = None
            if name.is_dnslink:
                await self._ask_dns(name, link)
            else:
                await self._ask_sources(name, link)
        except Overloaded as ours:
            link.failure = ours.detail
        finally:
            link.finished_at = self.today()
            link.answered.set()

    async def _ask_dns(self, name: IpnsName, link: CacheEntry) -> None:
        try:
            async with asyncio.timeout(self.policy.source_limit):
                found = await self._domains.lookup(name.text)
        except (UpstreamError, TimeoutError) as failed:
            link.failure = f"DNS: {_reason(failed)}"
            log.warning("dnslink lookup failed", name=name.text, reason=_reason(failed))
            return
        if found is None:
            link.target, link.usable_until = None, NEVER
            link.failure = "The domain has no DNSLink record."
            self._store.store_ipns(name, None)
            return
        now = self.today()
        self._take_domain(link, found.path, found.ttl, now)
        self._store.store_ipns(name, StoredEntry(found.path, now, ttl=found.ttl))

    async def _ask_sources(self, name: IpnsName, link: CacheEntry) -> None:
        reasons = [] if self._sources else ["No source of IPNS records is configured."]
        asks = [asyncio.create_task(self._ask(source, name)) for source in self._sources]
        is_told = False
        try:
            for asked in asyncio.as_completed(asks):
                try:
                    data = await asked
                    if data is not None:
                        self._consider(name, link, data)
                        is_told = True
                except (UpstreamError, TimeoutError) as failed:
                    reasons.append(_reason(failed))
                    log.warning("ipns source failed", name=name.text, reason=reasons[-1])
        finally:
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
        if not is_told:
            # Absence is told only if no source has failed.
            link.failure = reasons[0] if reasons else "No source has a record of that name."

    async def _ask(self, source: RecordSource, name: IpnsName) -> bytes | None:
        async with asyncio.timeout(self.policy.source_limit):
            return await source.record(name)

    def _consider(self, name: IpnsName, link: CacheEntry, data: bytes) -> None:
        """Take the record in *data* unless a better one is known; raises InvalidUpstreamResponse
        for one that does not prove itself."""
        now = self.today()
        record = verify(name, data, now)
        if link.rank is not None and record.rank < link.rank:
            log.info("ipns source is behind", name=name.text, sequence=record.sequence)
            return
        is_news = record.rank != link.rank
        self._take_record(link, record, now)
        link.finished_at = now
        link.answered.set()
        if is_news:
            self._store.store_ipns(name, StoredEntry(record.value, now, data))

    def _take_record(self, link: CacheEntry, record: IpnsRecord, at: datetime) -> None:
        link.rank, link.usable_until = record.rank, record.valid_until
        ttl = DEFAULT_TTL if record.ttl is None else record.ttl
        self._take(link, record.value, min(ttl, record.valid_until - at), at)

    def _take_domain(self, link: CacheEntry, path: str, ttl: timedelta, at: datetime) -> None:
        ttl = min(ttl, timedelta(seconds=self.policy.most_lifetime))
        link.usable_until = at + ttl + timedelta(seconds=self.policy.domain_stale)
        self._take(link, path, ttl, at)

    def _take(self, link: CacheEntry, path: str, lifetime: timedelta, at: datetime) -> None:
        """Point *link* at *path*, which holds for *lifetime* from the moment *at*."""
        link.target = parse_content_path(path)
        seconds = max(lifetime.total_seconds(), self.policy.least_lifetime)
        age = (self.today() - at).total_seconds()
        # What seems to come from the future was stored under another clock: it is old for us.
        left = min(seconds, self.policy.most_lifetime) - age if age >= 0 else 0.0
        link.fresh_until = self.clock() + left


def _reason(failed: UpstreamError | TimeoutError) -> str:
    return failed.detail if isinstance(failed, UpstreamError) else "No answer in time."
