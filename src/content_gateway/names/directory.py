"""The directory: which service answers for a name, and how long its answer serves.

Theory of operation. A name is looked up in three places, in this order.

1. The local zones. They are files of the operator, cheap to read and never cached here, so an edit
   shows within a second.
2. The cache (cache.py). An answer goes through four ages, in the words of RFC 9111 and RFC 5861:

       stored ─── fresh ─── 5 min ─── stale-while-revalidate ─── 10 min ─── stale-if-error ─── 1 h

   A *fresh* answer is given and nobody is asked. Then it is given as stale, while one look-up
   fetches the next answer in the background. Then the caller waits for that look-up, and gets the
   old answer only if the look-up fails. After an hour a failure is a failure. That a name does not
   exist is fresh for thirty seconds and never served stale. What is not in memory may be in the
   database, which holds every answer, with the same ages: a restart forgets nothing, not even
   during an outage.
3. The services that cover the name, one after the other. One that says "not found" lets the search
   go on. One that could not find out ends it: else an outage of the first and "not found" of the
   second would look like absence. An answer of which a record failed is fresh as long as absence
   is, and never replaces a whole one in the database. Where an outage was the cause, the last whole
   answer is given instead.

All callers with one question share one in-flight request, a task that the directory owns: a caller
who is cancelled does not take the others' answer away. Their number is bounded, with a fair share
for each requestor (lookups.py): an in-flight request is charged to whoever began it, and joining
one is never refused. Its result replaces the entry, absence included. When it fails and an entry
may be served instead, that entry is served at once from then on, and look-ups in the background, a
few seconds apart, find out when the outage is over. Without such an entry a request fails as fast
as the service does. A caller may demand a refresh. Each name gets one every five seconds, whoever
demands it; all others get the age of the answer. Where a chain is listened to (changes.py) an entry
is stale from the block on that changed its name, whatever the five minutes say: the next caller
waits for a look-up, as if the entry were ten minutes old.

What the denylist names is refused before anything is looked up, and again once the content is
known. Knows nothing of HTTP, chains or files; IPNS is started here and resolved by `ipns/`."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import structlog

from content_gateway.errors import (
    InvalidCoinType,
    NameNotFound,
    Overloaded,
    TooManyAtOnce,
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
from content_gateway.telemetry.numbers import Outcomes

log = structlog.get_logger(__name__)


class LocalNames(Protocol):
    """Names that are known without asking a server."""

    def find(self, name: DomainName, coin: CoinType) -> Records | None:
        """The records, the wallet being the address for *coin*; None if another service may know.

        Raises NameNotFound when this is the authority for the name and does not list it, or lists
        it with nothing to answer."""


class NameService(Protocol):
    """A name service, such as ENS: what names point at, by asking servers."""

    @property
    def kind(self) -> str:
        """The word for it in metrics."""

    def covers(self, name: DomainName) -> bool:
        """Whether the name is in this service's namespace."""

    async def resolve(self, name: DomainName, coin: CoinType, *, requestor: str = "") -> Records:
        """What *name* points at, its wallet being the address for *coin* (ENSIP-9).

        Requests to servers that the name's owner chose are charged to *requestor*. Raises
        NameNotFound when there are no records, InvalidCoinType when the service does not read
        addresses of *coin*, UpstreamError when it could not find out. Never returns a guess."""


class IpnsLookup(Protocol):
    """What IPNS names point at."""

    async def latest(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> IpfsPath | None:
        """The path that *name* was last verified to resolve to, None if unknown.

        Starts a resolution, charged to *requestor*, of an expired one or with *force_refresh*."""

    async def known(self, name: IpnsName) -> IpfsPath | None:
        """The last verified path that is still valid, without asking anybody; raises Blocked."""


class NameDenylist(Protocol):
    """What the operator does not serve."""

    def check_name(self, name: DomainName) -> None:
        """Raises Blocked if the domain is listed."""

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if the content is listed."""


@dataclass(frozen=True, slots=True)
class DirectoryPolicy:
    """Seconds and bounds. *hold_back* passes after a failed look-up before the next one in the
    background; *between_refreshes* of one name, of which *max_refreshes* are remembered; *lookup*
    is the deadline of one look-up. *max_in_flight* and *max_waiting* bound all look-ups."""

    hold_back: float = 3.0
    between_refreshes: float = 5.0
    max_refreshes: int = 10_000
    lookup: float = 10.0
    max_in_flight: int = 1_000
    max_waiting: int = 1_000


class Directory:
    """Answers for every name; owns its in-flight requests. Close it when done.

    *lookups* counts what services were asked; *answers* what callers got: a miss, for which they
    waited for a look-up, or what was known: fresh, stale, or absent, that there is no such name."""

    def __init__(
        self,
        *,
        local: Sequence[LocalNames],
        services: Sequence[NameService],
        ipns: IpnsLookup,
        denylist: NameDenylist,
        cache: Cache,
        policy: DirectoryPolicy | None = None,
        limit_of: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*limit_of* a requestor is how many of its look-ups run at once; 0: its share."""
        self.lookups = Outcomes()
        self.answers: Counter[str] = Counter()
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
            limit_of=limit_of,
        )
        self._refreshed_at: dict[str, float] = {}  # by domain, the oldest first

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        force_refresh: bool = False,
        requestor: str = "",
    ) -> Resolution:
        """What *name* points at, from the first place that knows, refreshed with *force_refresh*.

        A look-up is charged to *requestor*, to the operator where that is empty. Raises
        NameNotFound when every service says that there is nothing, and Blocked when the denylist
        names it. Unless an answer may be served stale it also raises UpstreamError when we could
        not find out, and Overloaded or TooManyAtOnce when the requestor's share of look-ups, or
        its limit, is used up."""
        self._denylist.check_name(name)
        local = self._find_locally(name, coin)
        if local is not None:
            return self._resolution(local) or await self._through_ipns(
                local, force_refresh, requestor
            )
        begun = self._clock()
        entry = await self._entry(name, (name.text, coin), force_refresh, requestor)
        is_miss = entry.stored_at >= begun
        if entry.records is None:
            self.answers["miss" if is_miss else "absent"] += 1
            raise InvalidCoinType(entry.unread) if entry.unread else _nothing_there(coin)
        resolution = self._resolution(entry.records) or await self._through_ipns(
            entry.records, force_refresh, requestor
        )
        stale = self._cache.staleness(entry, even_fresh=force_refresh and entry.stored_at < begun)
        self.answers["miss" if is_miss else "fresh" if stale is None else "stale"] += 1
        return resolution if stale is None else resolution.but_stale(stale)

    async def known(self, name: DomainName) -> tuple[Resolved, IpfsPath | None]:
        """What *name* was last known to point at, however old, and what IPNS content resolves to.

        Asks no server. Raises NameNotFound when nothing is known or was found, and Blocked."""
        self._denylist.check_name(name)
        local = self._find_locally(name, ETHEREUM)
        if local is not None:
            resolved: Resolved | None = Resolved(local, datetime.now(UTC))
        else:
            resolved = await self._cache.last((name.text, ETHEREUM))
        if resolved is None:
            raise NameNotFound("Nothing is known of this domain, or nothing was there.")
        content, cached = resolved.records.content, None
        if isinstance(content, IpfsContent):
            self._denylist.check_cid(content.cid)
        elif isinstance(content, IpnsContent):
            cached = await self._ipns.known(content.name)
        return resolved, cached

    async def close(self) -> None:
        """Cancel every in-flight request and wait until it has ended."""
        await self._in_flight.close()

    def _find_locally(self, name: DomainName, coin: CoinType) -> Records | None:
        for zone in self._local:
            if (records := zone.find(name, coin)) is not None:
                return records
        return None

    async def _entry(
        self, name: DomainName, question: Question, force_refresh: bool, requestor: str
    ) -> CachedName:
        """The entry that answers *question* now; without one UpstreamError, Overloaded or
        TooManyAtOnce."""
        entry = self._cache.get(question) or await self._cache.load(question)
        now = self._clock()
        is_under_way = question in self._in_flight
        if entry is None or (
            force_refresh and (is_under_way or self._may_refresh(name, entry, now))
        ):
            return await self._look_up(name, question, requestor)
        if now < entry.ask_again_at:
            return entry
        last_lookup_failed = entry.asked_at > entry.stored_at
        if self._cache.serves_while_revalidating(entry) or (
            last_lookup_failed and self._cache.serves_if_error(entry)
        ):
            with suppress(Overloaded, TooManyAtOnce):  # the next caller will begin it
                self._in_flight_request(name, question, requestor)
            return entry
        return await self._look_up(name, question, requestor)

    def _may_refresh(self, name: DomainName, entry: CachedName, now: float) -> bool:
        """Whether *name* may be refreshed now; if so, this counts as its refresh."""
        refreshed = self._refreshed_at
        last = max(entry.asked_at, refreshed.pop(name.text, entry.asked_at))
        if now < last + self._policy.between_refreshes:
            refreshed[name.text] = last
            return False
        refreshed[name.text] = now
        if len(refreshed) > self._policy.max_refreshes:
            del refreshed[next(iter(refreshed))]  # the oldest: dictionaries keep their order
        return True

    def _resolution(self, records: Records) -> Resolution | None:
        """The resolution of *records*; None where IPNS has to say what they point at."""
        content = records.content
        if isinstance(content, IpnsContent):
            return None
        if isinstance(content, IpfsContent):
            self._denylist.check_cid(content.cid)
        return Resolution(records)

    async def _through_ipns(
        self, records: Records, force_refresh: bool, requestor: str
    ) -> Resolution:
        """The resolution of *records* whose content is an IPNS name."""
        content = records.content
        assert isinstance(content, IpnsContent)  # noqa: S101 - else _resolution has one
        cid = await self._ipns.latest(
            content.name, force_refresh=force_refresh, requestor=requestor
        )
        return Resolution(records, cid)

    async def _look_up(self, name: DomainName, question: Question, requestor: str) -> CachedName:
        """A new entry, or the known one if that may be served when the look-up fails.

        Raises UpstreamError, Overloaded and TooManyAtOnce."""
        try:
            # Shielded: other callers wait for the same task.
            entry = await asyncio.shield(self._in_flight_request(name, question, requestor))
            if self._cache.has_changed(question, entry):  # while it was looked up
                entry = await asyncio.shield(self._in_flight_request(name, question, requestor))
            return entry
        except (UpstreamError, Overloaded, TooManyAtOnce):
            known = await self._cache.load(question)
            if known is None or not self._cache.serves_if_error(known):
                raise
            return known

    def _in_flight_request(
        self, name: DomainName, question: Question, requestor: str
    ) -> asyncio.Task[CachedName]:
        """The in-flight request for *question*, begun if there is none; raises Overloaded
        and TooManyAtOnce."""
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
            return await self._cache.store_partial(question, records, begun, self._policy.hold_back)
        return self._cache.store(question, records, begun)

    async def _ask_services(
        self, name: DomainName, coin: CoinType, requestor: str
    ) -> Records | None:
        responsible = [service for service in self._services if service.covers(name)]
        if not responsible:
            raise UpstreamUnavailable("No name service is configured for this domain.")
        for service in responsible:
            try:
                with self.lookups.counted(service.kind) as asked:
                    return await service.resolve(name, coin, requestor=requestor)
            except NameNotFound:
                continue
            finally:
                log.debug(
                    "a name service was asked",
                    domain=name.text,
                    service=service.kind,
                    outcome=asked.outcome,
                )
        return None


def _nothing_there(coin: CoinType) -> NameNotFound:
    wallet = "wallet" if coin == ETHEREUM else f"an address of the coin type {coin}"
    return NameNotFound(f"No such name is registered, or it has neither {wallet} nor content.")
