"""The cache of IPNS: what each name points at, the best record seen of it, and when to ask again.

One in-flight request for a name asks every source at once, verifies their records and keeps the
best one. A record with a lower sequence than one seen before is never taken, whichever source
serves it, across restarts too. Look-ups are bounded, with a fair share for each requestor; one that
others join is charged to whoever began it. Knows freshness (boxo `namesys`: the record's TTL, but
never beyond its validity). Entries are followed to content by resolver.py."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore, Permit
from content_gateway.errors import Overloaded, TooManyAtOnce, UpstreamError
from content_gateway.ipns.cache_entry import DEFAULT_TTL, NEVER, CacheEntry, IpnsPolicy
from content_gateway.ipns.record import IpnsRecord, verify
from content_gateway.model.content_path import parse_content_path
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import StoredEntry
from content_gateway.telemetry.numbers import Outcomes

log = structlog.get_logger(__name__)


class RecordSource(Protocol):
    """A server that may hold records. It need not be trusted: records are signed."""

    @property
    def kind(self) -> str:
        """The word for it in metrics."""

    async def record(self, name: IpnsName) -> bytes | None:
        """The record's bytes, None if the source has none; raises UpstreamError."""


class DnsLinkRecord(Protocol):
    """A domain's DNSLink record."""

    @property
    def path(self) -> str:
        """A content path."""

    @property
    def ttl(self) -> timedelta:
        """How long DNS allows it to be cached."""


class DnsLinkSource(Protocol):
    """DNSLink lookups."""

    async def lookup(self, domain: str) -> DnsLinkRecord | None:
        """The record of *domain*, None if it has none; raises UpstreamError."""


class IpnsStore(Protocol):
    """Entries that outlive this process."""

    async def load_ipns(self, name: IpnsName) -> StoredEntry | None:
        """The stored entry; None if there is none, or it cannot be read now."""

    def store_ipns(self, name: IpnsName, entry: StoredEntry | None) -> None:
        """Store *entry* in the background; None: the name points at nothing any more."""


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A look-up that runs or waits for its *permit*, and the entry that it updates."""

    task: asyncio.Task[None]
    entry: CacheEntry
    permit: Permit


class LinkCache:
    """The entries of all names; owns the in-flight requests. Close it when done."""

    def __init__(
        self,
        sources: Sequence[RecordSource],
        domains: DnsLinkSource,
        store: IpnsStore,
        *,
        policy: IpnsPolicy | None = None,
        limit_of: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """*limit_of* a requestor is how many of its look-ups run at once; 0: its share."""
        self.lookups = Outcomes()  # by the kind of source
        self.policy = policy or IpnsPolicy()
        self.clock = clock
        self.today = today
        self._sources = tuple(sources)
        self._domains = domains
        self._store = store
        self._entries: dict[IpnsName, CacheEntry] = {}
        self._in_flight: dict[IpnsName, _InFlight] = {}
        self._permits = FairSemaphore(
            self.policy.max_in_flight,
            waiting=self.policy.max_waiting,
            patience=self.policy.turn_limit,
            detail="Too many IPNS names are being looked up at once.",
            limit_of=limit_of,
        )

    def has(self, name: IpnsName) -> bool:
        """Whether the entry of *name* is in memory; else `load` it before it is asked for."""
        return name in self._entries

    async def load(self, name: IpnsName) -> None:
        """Bring the entry of *name* into memory, from the store or an empty one; asks no source."""
        loaded = await self._loaded(name)
        if name in self._entries:
            return  # somebody else has loaded it meanwhile
        if name in self._in_flight:
            loaded = self._in_flight[name].entry  # evicted during its look-up
        if len(self._entries) >= self.policy.max_names:
            # The least recently used: each use takes an entry out and puts it in again.
            del self._entries[next(iter(self._entries))]
        self._entries[name] = loaded

    def entry(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> CacheEntry:
        """The entry of *name*, which is in memory, as it is now.

        Begins a look-up, charged to *requestor*, where the entry is stale and none is under way;
        with *force_refresh* also where it is fresh, but not more often than the policy allows.
        Begins none where the requestor has used up its share (see `check`)."""
        entry = self.known(name)
        now = self.clock()
        refreshes = force_refresh and now >= entry.asked_at + self.policy.between_refreshes
        if name in self._in_flight:
            self._in_flight[name].permit.join(requestor)
        elif refreshes or now >= entry.fresh_until:
            self._start(name, entry, now, requestor)
        return entry

    def check(self, name: IpnsName, requestor: str) -> None:
        """Raises Overloaded, or TooManyAtOnce by its own limit, where a look-up of *name* could not
        begin for *requestor* now."""
        if name not in self._in_flight and not self._permits.has_room(requestor):
            raise self._permits.refusal([requestor])

    def known(self, name: IpnsName) -> CacheEntry:
        """The entry of *name*, which is in memory; asks no source."""
        entry = self._entries[name] = self._entries.pop(name)
        return entry

    async def close(self) -> None:
        """Cancel every in-flight request and wait until it has ended."""
        tasks = [in_flight.task for in_flight in self._in_flight.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _loaded(self, name: IpnsName) -> CacheEntry:
        """The entry that was stored before a restart, or an empty one."""
        entry = CacheEntry()
        known = await self._store.load_ipns(name)
        if known is None:
            return entry
        try:
            if name.is_dnslink:
                self._take_domain(entry, known.path, known.ttl or DEFAULT_TTL, known.at)
            elif known.record is not None:
                # It was verified then; it may have expired since, but its sequence still counts.
                record = verify(name, known.record, known.at)
                self._take_record(entry, record, known.record, known.at)
        except UpstreamError as wrong:
            log.error("a stored ipns record is not valid", name=name.text, reason=wrong.detail)
            return CacheEntry()
        entry.finished_at = known.at
        return entry

    def _start(self, name: IpnsName, entry: CacheEntry, now: float, requestor: str) -> None:
        try:
            permit = self._permits.request(requestor)
        except (Overloaded, TooManyAtOnce):
            return
        if entry.asked_at < 0:
            entry.first_wait_ends = now + self.policy.first_wait
        entry.asked_at = now
        entry.answered.clear()
        task = asyncio.create_task(self._run(name, entry, permit), name=f"ipns {name}")
        self._in_flight[name] = _InFlight(task, entry, permit)
        task.add_done_callback(lambda _: self._in_flight.pop(name).permit.release())

    async def _run(self, name: IpnsName, entry: CacheEntry, permit: Permit) -> None:
        try:
            await permit.granted()
            # A record replaces this. Without one, wait before the sources are asked again.
            entry.fresh_until = self.clock() + self.policy.retry_after
            entry.failure, entry.is_absent = None, False
            if name.is_dnslink:
                await self._ask_dns(name, entry)
            else:
                await self._ask_sources(name, entry)
        except TooManyAtOnce:
            entry.failure = self._permits.detail  # which others read too: nothing of whose limit
        except Overloaded as ours:
            entry.failure = ours.detail
        finally:
            entry.finished_at = self.today()
            entry.answered.set()

    async def _ask_dns(self, name: IpnsName, entry: CacheEntry) -> None:
        try:
            with self.lookups.counted("dnslink") as counted:
                async with asyncio.timeout(self.policy.source_limit):
                    found = await self._domains.lookup(name.text)
                if found is None:
                    counted.outcome = "absent"
        except (UpstreamError, TimeoutError) as failed:
            entry.failure = f"DNS: {_reason(failed)}"
            log.warning("dnslink lookup failed", name=name.text, reason=_reason(failed))
            return
        if found is None:
            entry.target, entry.usable_until = None, NEVER
            entry.failure = "The domain has no DNSLink record."
            self._store.store_ipns(name, None)
            return
        now = self.today()
        self._take_domain(entry, found.path, found.ttl, now)
        self._store.store_ipns(name, StoredEntry(found.path, now, ttl=found.ttl))

    async def _ask_sources(self, name: IpnsName, entry: CacheEntry) -> None:
        reasons = [] if self._sources else ["No source of IPNS records is configured."]
        asks = [asyncio.create_task(self._ask(source, name)) for source in self._sources]
        has_record = False
        try:
            for asked in asyncio.as_completed(asks):
                try:
                    data = await asked
                    if data is not None:
                        self._consider(name, entry, data)
                        has_record = True
                except (UpstreamError, TimeoutError) as failed:
                    reasons.append(_reason(failed))
                    log.warning("ipns source failed", name=name.text, reason=reasons[-1])
        finally:
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
        if not has_record:
            # "No record" is certain only if no source has failed.
            entry.is_absent = not reasons
            entry.failure = reasons[0] if reasons else "No source has a record of that name."

    async def _ask(self, source: RecordSource, name: IpnsName) -> bytes | None:
        with self.lookups.counted(source.kind) as counted:
            async with asyncio.timeout(self.policy.source_limit):
                record = await source.record(name)
            if record is None:
                counted.outcome = "absent"
            return record

    def _consider(self, name: IpnsName, entry: CacheEntry, data: bytes) -> None:
        """Take the record in *data* unless a better one is known.

        Raises InvalidUpstreamResponse where its signature or validity is wrong."""
        now = self.today()
        record = verify(name, data, now)
        if entry.rank is not None and record.rank < entry.rank:
            log.info("ipns source is behind", name=name.text, sequence=record.sequence)
            return
        is_new = record.rank != entry.rank
        self._take_record(entry, record, data, now)
        entry.finished_at = now
        entry.answered.set()
        if is_new:
            self._store.store_ipns(name, StoredEntry(record.value, now, data))

    def _take_record(
        self, entry: CacheEntry, record: IpnsRecord, data: bytes, at: datetime
    ) -> None:
        """Have *entry* hold *record*, which is *data*, as a source had it *at* that time."""
        entry.rank, entry.usable_until = record.rank, record.valid_until
        entry.record = data if len(data) <= self.policy.kept_record else None
        ttl = DEFAULT_TTL if record.ttl is None else record.ttl
        entry.ttl = min(ttl, record.valid_until - at)
        entry.seen_at = self.clock() - max(0.0, (self.today() - at).total_seconds())
        self._take(entry, record.value, entry.ttl, at)

    def _take_domain(self, entry: CacheEntry, path: str, ttl: timedelta, at: datetime) -> None:
        ttl = min(ttl, timedelta(seconds=self.policy.most_lifetime))
        entry.usable_until = at + ttl + timedelta(seconds=self.policy.domain_stale)
        self._take(entry, path, ttl, at)

    def _take(self, entry: CacheEntry, path: str, lifetime: timedelta, at: datetime) -> None:
        """Have *entry* point at *path*, fresh for *lifetime* from *at* on."""
        entry.target = parse_content_path(path)
        seconds = max(lifetime.total_seconds(), self.policy.least_lifetime)
        age = (self.today() - at).total_seconds()
        # An entry from the future was stored under another clock: it counts as stale.
        left = min(seconds, self.policy.most_lifetime) - age if age >= 0 else 0.0
        entry.fresh_until = self.clock() + left


def _reason(failed: UpstreamError | TimeoutError) -> str:
    return failed.detail if isinstance(failed, UpstreamError) else "No answer in time."
