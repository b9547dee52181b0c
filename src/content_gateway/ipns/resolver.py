"""The IPNS resolver: asks every source, verifies every record, keeps the best one.

A name asked for the first time makes its caller wait, for a moment only; afterwards the last
verified answer is given at once and a refresh runs behind it. Knows freshness (boxo `namesys`:
the record's TTL, never beyond its validity); where records come from is left to the sources."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.ipns_name import IpnsName
from content_gateway.errors import InvalidCid, UpstreamError
from content_gateway.ipns.record import IpnsRecord, verify

DEFAULT_TTL = timedelta(seconds=60)

log = structlog.get_logger(__name__)


class RecordSource(Protocol):
    """Somebody who may hold records; need not be trusted."""

    async def record(self, name: IpnsName) -> bytes | None:
        """The record as it was given, None if the source has none; raises UpstreamError."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds to wait, and how many names to remember and to resolve at once.

    *better_record* is how long a first answer waits for a better one, *least_lifetime* how
    often at most the owner of a name can make us ask."""

    first_wait: float = 1.5
    better_record: float = 0.2
    least_lifetime: float = 5.0
    retry_after: float = 10.0
    source_limit: float = 10.0
    max_names: int = 20_000
    max_flights: int = 256


@dataclass(slots=True)
class Known:
    """What is known of one name; *fresh_until* is monotonic, the record's validity is not."""

    record: IpnsRecord | None = None
    cid: Cid | None = None
    fresh_until: float = 0.0
    first_wait_ends: float = 0.0
    answered: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Flight:
    """A resolution under way, and what it fills."""

    task: asyncio.Task[None]
    known: Known


class IpnsResolver:
    """Resolves key names; owns its flights. Close it when done."""

    def __init__(
        self,
        sources: Sequence[RecordSource],
        *,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sources = tuple(sources)
        self._policy = policy or Policy()
        self._clock = clock
        self._today = today
        self._known: dict[IpnsName, Known] = {}
        self._flights: dict[IpnsName, _Flight] = {}

    async def latest(self, name: IpnsName) -> Cid | None:
        """The last verified CID behind *name*, None while there is none.

        Starts a resolution unless the answer is fresh or one is under way. Waits for it only
        in the first moments (Policy.first_wait) after a name was asked for the first time."""
        now = self._clock()
        known = self._remember(name, now)
        if now >= known.fresh_until and not name.is_dnslink:
            self._start(name, known)
        if known.record is not None:
            return known.cid if known.record.valid_until > self._today() else None
        wait = known.first_wait_ends - now
        if wait > 0 and name in self._flights:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await known.answered.wait()
        return known.cid

    async def close(self) -> None:
        """End every resolution and wait until it has ended."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remember(self, name: IpnsName, now: float) -> Known:
        known = self._known.pop(name, None)
        if known is None and name in self._flights:
            known = self._flights[name].known  # forgotten while its resolution was under way
        if known is None:
            known = Known(first_wait_ends=now + self._policy.first_wait)
            if len(self._known) >= self._policy.max_names:
                del self._known[next(iter(self._known))]
        self._known[name] = known
        return known

    def _start(self, name: IpnsName, known: Known) -> None:
        if name in self._flights or len(self._flights) >= self._policy.max_flights:
            return
        task = asyncio.create_task(self._fly(name, known), name=f"ipns {name}")
        self._flights[name] = _Flight(task, known)
        task.add_done_callback(lambda _: self._flights.pop(name, None))

    async def _fly(self, name: IpnsName, known: Known) -> None:
        known.fresh_until = self._clock() + self._policy.retry_after
        asks = [asyncio.create_task(self._ask(source, name)) for source in self._sources]
        try:
            for asked in asyncio.as_completed(asks):
                record = await asked
                # A sequence never goes back, whatever a source still serves.
                if record and (known.record is None or record.rank >= known.record.rank):
                    self._keep(known, record)
        finally:
            for ask in asks:
                ask.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
            known.answered.set()

    async def _ask(self, source: RecordSource, name: IpnsName) -> IpnsRecord | None:
        """One source's record, None if it has none that is valid."""
        try:
            async with asyncio.timeout(self._policy.source_limit):
                data = await source.record(name)
            return None if data is None else verify(name, data, self._today())
        except (UpstreamError, TimeoutError) as failed:
            log.warning("ipns source failed", name=name.text, reason=str(failed))
            return None

    def _keep(self, known: Known, record: IpnsRecord) -> None:
        ttl = DEFAULT_TTL if record.ttl is None else record.ttl
        lifetime = min(ttl, record.valid_until - self._today())
        known.record = record
        known.cid = content_of(record)
        seconds = max(lifetime.total_seconds(), self._policy.least_lifetime)
        known.fresh_until = self._clock() + seconds
        if known.cid is not None:
            # Another source may have a better record; it has a moment to show it.
            asyncio.get_running_loop().call_later(self._policy.better_record, known.answered.set)


def content_of(record: IpnsRecord) -> Cid | None:
    """The CID a record points at; None if it points at another name, or below a CID."""
    scheme, _, target = record.value.removeprefix("/").partition("/")
    if scheme != "ipfs":
        return None
    try:
        return Cid.parse(target.rstrip("/"))
    except InvalidCid:
        return None
