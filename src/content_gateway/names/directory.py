"""The directory: which service answers for a name, and how long its answer serves.

Theory of operation. A name is looked up in three places, in this order.

1. The local zones. They are files of the operator, cheap to ask and never cached here, so an
   edit shows within a second.
2. The cache (cache.py). What was resolved passes through four ages:

       stored ─── fresh ──── 5 min ─── while revalidating ─── 10 min ─── if error ─── 1 h

   A *fresh* entry is the answer and nobody is asked. After that the entry is still told, marked as
   stale, while one in-flight request fetches the next answer behind the caller's back.
   Later the caller waits for that in-flight request, and hears the old answer only if the in-flight
   request request fails. After an hour a failure is a failure. Known absence is fresh for thirty
   seconds and never stretched. What is not in memory may be in the database, where every answer is
   written and where it has the same ages: a restart forgets nothing, not even during an outage. 3.
   The services that cover the name, one after the other. A service that does not know the name lets
   the search go on; a service that could not find out ends it, because the next one's silence would
   then look like absence. An answer of which a record failed is fresh as long as absence is, and
   never replaces a whole one in the database; where that is an outage's doing, the whole one of
   before serves instead, as in any outage.

All callers who wait for one question share one *in_flight*, a task that belongs to the directory: a
caller who gives up does not take the others' answer away. So many fly at once, fairly by requestor
(lookups.py): an in-flight request is charged to whoever began it, and who joins it is never
refused. What an in-flight request resolves replaces the entry, absence included. When it fails and
there is an entry that may serve, that is told from then on, and the in-flight requests that look
whether the outage is over, a few seconds apart, are nobody's wait. Names without such an entry fail
as fast as their service does. A caller may demand a refresh: each name gets one every five seconds,
whoever demands it, and whoever does not get it is told how old the answer is.

What the operator blocks is refused before anything is looked up, and again when it is known what
the name points at. Knows nothing of HTTP, chains or files; IPNS is started here and resolved by
`ipns/`."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from content_gateway.errors import (
    InvalidCoinType,
    NameNotFound,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpfsContent, IpnsContent, Records, Resolution, Resolved
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cache import Cache, CachedName, Question
from content_gateway.names.lookups import Lookups


class LocalNames(Protocol):
    """Names that are known without asking anybody."""

    def find(self, name: DomainName) -> Records | None:
        """The records, None if another service may know; raises NameNotFound if none may."""


class NameService(Protocol):
    """Somebody who knows what names point at."""

    def covers(self, name: DomainName) -> bool:
        """True when names like this one may be found here."""

    async def resolve(self, name: DomainName, coin: CoinType, *, requestor: str = "") -> Records:
        """What *name* points at, its wallet being the address for *coin*.

        What others choose to have asked is charged to *requestor*.

        Raises NameNotFound when the service knows of no records, InvalidCoinType when it does not
        read those of *coin*, UpstreamError when it could not find out. Never returns a guess."""


class IpnsLookup(Protocol):
    """What IPNS names point at."""

    async def latest(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> IpfsPath | None:
        """Where it was last verified to lead, None if unknown; starts a resolution for *requestor*.

        With *force_refresh* a resolution is started even if the last one still holds. Raises
        Blocked."""

    def known(self, name: IpnsName) -> IpfsPath | None:
        """The last verified path that is still valid, without asking anybody; raises Blocked."""


class NameDenylist(Protocol):
    """The operator's denylist; each of these raises Blocked."""

    def check_name(self, name: DomainName) -> None:
        """Refuse a domain."""

    def check_cid(self, cid: Cid) -> None:
        """Refuse content."""


@dataclass(frozen=True, slots=True)
class DirectoryPolicy:
    """Seconds between in-flight requests for one question, and the bounds of all in-flight requests
    (lookups.py)."""

    hold_back: float = 3.0
    between_refreshes: float = 5.0
    max_fresh_looks: int = 10_000
    lookup: float = 10.0
    max_in_flight: int = 1_000
    max_waiting: int = 1_000


class Directory:
    """Answers for every name; owns its in-flight requests. Close it when done."""

    def __init__(
        self,
        *,
        local: Sequence[LocalNames],
        services: Sequence[NameService],
        ipns: IpnsLookup,
        denylist: NameDenylist,
        cache: Cache,
        policy: DirectoryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._local = tuple(local)
        self._services = tuple(services)
        self._ipns = ipns
        self._denylist = denylist
        self._cache = cache
        self._policy = policy or DirectoryPolicy()
        self._clock = clock
        self._in_flight = Lookups(
            at_once=self._policy.max_in_flight,
            waiting=self._policy.max_waiting,
            seconds=self._policy.lookup,
        )
        self._looked_anew_at: dict[str, float] = {}  # by domain, the oldest first

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        force_refresh: bool = False,
        requestor: str = "",
    ) -> Resolution:
        """What *name* points at, from the first place that knows; *force_refresh* demands a
        refresh.

        It takes of the share of *requestor*, the operator where that is empty. Raises
        NameNotFound when every service says that there is nothing, Blocked when the operator
        forbids it; and where no last known answer is young enough UpstreamError when we could not
        find out, Overloaded when that share is used up."""
        self._denylist.check_name(name)
        local = self._find_locally(name, coin)
        if local is not None:
            return await self._resolution(local, force_refresh, requestor)
        begun = self._clock()
        entry = await self._entry(name, (name.text, coin), force_refresh, requestor)
        if entry.records is None:
            raise InvalidCoinType(entry.unread) if entry.unread else _nothing_there(coin)
        resolution = await self._resolution(entry.records, force_refresh, requestor)
        stale = self._cache.staleness(entry, whatever=force_refresh and entry.stored_at < begun)
        return resolution if stale is None else resolution.but_stale(stale)

    def known(self, name: DomainName) -> tuple[Resolved, IpfsPath | None]:
        """What *name* was last known to point at, however old, and where IPNS content leads.

        Asks nobody. Raises NameNotFound when nothing is known, or the last answer was that
        nothing is there; Blocked."""
        self._denylist.check_name(name)
        local = self._find_locally(name, ETHEREUM)
        if local is not None:
            resolved: Resolved | None = Resolved(local, datetime.now(UTC))
        else:
            resolved = self._cache.last((name.text, ETHEREUM))
        if resolved is None:
            raise NameNotFound("Nothing is known of this domain, or nothing was there.")
        content, cached = resolved.records.content, None
        if isinstance(content, IpfsContent):
            self._denylist.check_cid(content.cid)
        elif isinstance(content, IpnsContent):
            cached = self._ipns.known(content.name)
        return resolved, cached

    async def close(self) -> None:
        """End every in-flight request and wait until it has ended."""
        await self._in_flight.close()

    def _find_locally(self, name: DomainName, coin: CoinType) -> Records | None:
        for zone in self._local:
            if (records := zone.find(name)) is not None:
                if coin == ETHEREUM:
                    return records
                # A zone holds Ethereum addresses only, and other coins never fall back on them.
                if records.content is None:
                    raise NameNotFound(f"The name has no address of the coin type {coin}.")
                return Records.content_alone(records.content)
        return None

    async def _entry(
        self, name: DomainName, question: Question, force_refresh: bool, requestor: str
    ) -> CachedName:
        """The entry that answers *question* now; raises UpstreamError and Overloaded if there is
        none."""
        entry = self._cache.get(question)
        now = self._clock()
        is_under_way = question in self._in_flight
        if entry is None or (
            force_refresh and (is_under_way or self._may_refresh(name, entry, now))
        ):
            return await self._learn(name, question, requestor)
        if now < entry.ask_again_at:
            return entry
        last_look_failed = entry.asked_at > entry.stored_at
        if self._cache.serves_while_revalidating(entry) or (
            last_look_failed and self._cache.serves_if_error(entry)
        ):
            with suppress(Overloaded):  # then the next one who asks begins it
                self._flight(name, question, requestor)
            return entry
        return await self._learn(name, question, requestor)

    def _may_refresh(self, name: DomainName, entry: CachedName, now: float) -> bool:
        """True when the name's turn for a refresh has come; it is then taken."""
        looks = self._looked_anew_at
        last = max(entry.asked_at, looks.pop(name.text, entry.asked_at))
        if now < last + self._policy.between_refreshes:
            looks[name.text] = last
            return False
        looks[name.text] = now
        if len(looks) > self._policy.max_fresh_looks:
            del looks[next(iter(looks))]
        return True

    async def _resolution(
        self, records: Records, force_refresh: bool, requestor: str
    ) -> Resolution:
        content = records.content
        if isinstance(content, IpfsContent):
            self._denylist.check_cid(content.cid)
        elif isinstance(content, IpnsContent):
            cid = await self._ipns.latest(
                content.name, force_refresh=force_refresh, requestor=requestor
            )
            return Resolution(records, cid)
        return Resolution(records)

    async def _learn(self, name: DomainName, question: Question, requestor: str) -> CachedName:
        """A new entry, or the known one if that may serve instead; raises UpstreamError and
        Overloaded."""
        try:
            return await asyncio.shield(self._flight(name, question, requestor))
        except (UpstreamError, Overloaded):
            known = self._cache.get(question)
            if known is None or not self._cache.serves_if_error(known):
                raise
            return known

    def _flight(
        self, name: DomainName, question: Question, requestor: str
    ) -> asyncio.Task[CachedName]:
        """The one in-flight request for *question*, begun if there is none; raises
        Overloaded."""
        return self._in_flight.join(question, requestor, partial(self._run, name, question))

    async def _run(
        self, name: DomainName, question: Question, end: float, requestor: str
    ) -> CachedName:
        begun = self._clock()
        try:
            async with asyncio.timeout_at(end):
                records = await self._ask_services(name, question[1], requestor)
        except TimeoutError as late:
            self._cache.record_failure(question, begun, self._policy.hold_back)
            raise UpstreamTimeout("The name service did not answer in time.") from late
        except UpstreamError:
            self._cache.record_failure(question, begun, self._policy.hold_back)
            raise
        except InvalidCoinType as unread:
            return self._cache.store(question, None, begun, unread=unread.detail)
        if records is not None and not records.is_whole:
            return self._cache.store_partial(question, records, begun, self._policy.hold_back)
        return self._cache.store(question, records, begun)

    async def _ask_services(
        self, name: DomainName, coin: CoinType, requestor: str
    ) -> Records | None:
        responsible = [service for service in self._services if service.covers(name)]
        if not responsible:
            raise UpstreamUnavailable("No name service is configured for this domain.")
        for service in responsible:
            try:
                return await service.resolve(name, coin, requestor=requestor)
            except NameNotFound:
                continue
        return None


def _nothing_there(coin: CoinType) -> NameNotFound:
    wallet = "wallet" if coin == ETHEREUM else f"an address of the coin type {coin}"
    return NameNotFound(f"No such name is registered, or it has neither {wallet} nor content.")
