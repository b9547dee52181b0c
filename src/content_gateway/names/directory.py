"""The directory: which service answers for a name, and how long its answer serves.

Theory of operation. A name is looked up in three places, in this order.

1. The local zones. They are files of the operator, cheap to ask and never cached here, so an
   edit shows within a second.
2. The cache. An entry is *fresh* for five minutes if the name has records and for thirty
   seconds if it is known to have none; a fresh entry is the answer and nobody is asked.
3. The services, one after the other. A service that does not know the name lets the search go
   on; a service that could not find out ends it, because the next one's silence would then
   look like absence. All callers who wait for one name share one *flight*, a task that belongs
   to the directory: a caller who gives up does not take the others' answer away.

What a flight learns replaces the entry, absence included. When it learns nothing because a
service is down, the last known records serve, marked as stale, until they are an hour old; the
next flight for that name is held back for a few seconds, so that an outage costs one caller a
wait and not all of them. A known absence is never stretched beyond its thirty seconds.

The cache holds at most *max_entries* names and drops the one least recently asked for. Knows
nothing of HTTP, chains or files; IPNS is started here and resolved by `ipns/`."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from content_gateway.content.cid import Cid
from content_gateway.content.domain import DomainName
from content_gateway.content.ipns_name import IpnsName
from content_gateway.content.records import IpnsContent, Records, Resolution, Staleness
from content_gateway.errors import (
    NameNotFound,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)


class LocalNames(Protocol):
    """Names that are known without asking anybody."""

    def find(self, name: DomainName) -> Records | None:
        """The records, None if another service may know; raises NameNotFound if none may."""


class NameService(Protocol):
    """Somebody who knows what names point at."""

    async def resolve(self, name: DomainName) -> Records:
        """What *name* points at.

        Raises NameNotFound when the service knows of no records, UpstreamError when it could
        not find out. Never returns a guess."""


class IpnsLookup(Protocol):
    """What IPNS names point at."""

    async def latest(self, name: IpnsName) -> Cid | None:
        """The last verified CID, None if there is none yet; starts a resolution."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds that answers serve, and the bounds of one lookup."""

    fresh: float = 300.0
    absent: float = 30.0
    stale_limit: float = 3600.0
    hold_back: float = 5.0
    lookup: float = 8.0
    max_entries: int = 100_000
    max_flights: int = 1_000


@dataclass(slots=True)
class Entry:
    """What is known of one name: its records, or None for known absence."""

    records: Records | None
    learned_at: float
    fresh_until: float
    ask_again_at: float


class Directory:
    """Answers for every name; owns its cache and its flights. Close it when done."""

    def __init__(
        self,
        *,
        local: Sequence[LocalNames],
        services: Sequence[NameService],
        ipns: IpnsLookup,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local = tuple(local)
        self._services = tuple(services)
        self._ipns = ipns
        self._policy = policy or Policy()
        self._clock = clock
        self._entries: dict[DomainName, Entry] = {}
        self._flights: dict[DomainName, asyncio.Task[Entry]] = {}

    async def resolve(self, name: DomainName) -> Resolution:
        """What *name* points at, from the first place that knows.

        Raises NameNotFound when every service says that there is nothing, UpstreamError when
        we could not find out and no last known answer is young enough."""
        for zone in self._local:
            if (records := zone.find(name)) is not None:
                return await self._resolution(records)
        now = self._clock()
        entry = self._entries.get(name)
        if entry is None or now >= entry.ask_again_at:
            entry = await self._learn(name, entry)
            now = self._clock()
        self._touch(name, entry)
        if entry.records is None:
            raise NameNotFound("No such name is registered, or it has neither wallet nor content.")
        stale = _staleness(entry, now) if now >= entry.fresh_until else None
        return await self._resolution(entry.records, stale)

    async def close(self) -> None:
        """End every flight and wait until it has ended."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def _resolution(self, records: Records, stale: Staleness | None = None) -> Resolution:
        if isinstance(records.content, IpnsContent):
            return Resolution(records, await self._ipns.latest(records.content.name), stale)
        return Resolution(records, None, stale)

    async def _learn(self, name: DomainName, known: Entry | None) -> Entry:
        """A fresh entry, or the *known* one while it may serve stale; raises UpstreamError."""
        try:
            return await asyncio.shield(self._flight(name))
        except UpstreamError:
            now = self._clock()
            if known is None or known.records is None or now >= self._too_old_at(known):
                raise
            known.ask_again_at = min(now + self._policy.hold_back, self._too_old_at(known))
            return known

    def _flight(self, name: DomainName) -> asyncio.Task[Entry]:
        """The one flight for *name*, begun if there is none; raises UpstreamUnavailable."""
        flight = self._flights.get(name)
        if flight is None:
            if len(self._flights) >= self._policy.max_flights:
                raise UpstreamUnavailable("Too many names are being looked up at once.")
            flight = asyncio.create_task(self._fly(name), name=f"resolve {name}")
            self._flights[name] = flight
            flight.add_done_callback(lambda done: self._landed(name, done))
        return flight

    async def _fly(self, name: DomainName) -> Entry:
        try:
            async with asyncio.timeout(self._policy.lookup):
                records = await self._ask_services(name)
        except TimeoutError as late:
            raise UpstreamTimeout("The name service did not answer in time.") from late
        now = self._clock()
        lifetime = self._policy.fresh if records else self._policy.absent
        entry = Entry(records, now, now + lifetime, now + lifetime)
        self._touch(name, entry)
        return entry

    async def _ask_services(self, name: DomainName) -> Records | None:
        if not self._services:
            raise UpstreamUnavailable("No name service is configured for this domain.")
        for service in self._services:
            try:
                return await service.resolve(name)
            except NameNotFound:
                continue
        return None

    def _landed(self, name: DomainName, flight: asyncio.Task[Entry]) -> None:
        del self._flights[name]
        if not flight.cancelled():
            flight.exception()  # seen, even if every caller has given up

    def _too_old_at(self, entry: Entry) -> float:
        return entry.learned_at + self._policy.stale_limit

    def _touch(self, name: DomainName, entry: Entry) -> None:
        """Make *entry* the most recently used one, within the bound."""
        self._entries.pop(name, None)
        self._entries[name] = entry
        if len(self._entries) > self._policy.max_entries:
            del self._entries[next(iter(self._entries))]


def _staleness(entry: Entry, now: float) -> Staleness:
    return Staleness(
        timedelta(seconds=now - entry.learned_at), timedelta(seconds=now - entry.fresh_until)
    )
