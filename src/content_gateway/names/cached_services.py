"""Name services behind a cache: the entry that answers a question now.

Theory of operation. An entry of the cache (cache.py) goes through four ages, in the words of RFC
9111 and RFC 5861:

    stored ─── fresh ─── 5 min ─── stale-while-revalidate ─── 10 min ─── stale-if-error ─── 1 h

A *fresh* answer is given and nobody is asked. Then it is given as stale, while one look-up fetches
the next answer in the background. Then the caller waits for that look-up, and gets the old answer
only if the look-up fails. After an hour a failure is a failure. That a name does not exist is fresh
for thirty seconds and never served stale. What is not in memory may be in the database, which holds
every answer, with the same ages: a restart forgets nothing, not even during an outage.

The services that cover the name are asked one after the other. One that says "not found" lets the
search go on. One that could not find out ends it: else an outage of the first and "not found" of
the second would look like absence. An answer of which a record failed is fresh as long as absence
is, and never replaces a whole one in the database. Where an outage was the cause, the last whole
answer is given instead.

All callers with one question share one in-flight request, a task that is owned here: a caller who
is cancelled does not take the others' answer away. Their number is bounded, with a fair share for
each requestor (lookups.py): an in-flight request is charged to whoever began it, and joining one is
never refused. Its result replaces the entry, absence included. When it fails and an entry may be
served instead, that entry is served at once from then on, and look-ups in the background, a few
seconds apart, find out when the outage is over. Without such an entry a request fails as fast as
the service does. A caller may demand a refresh. Each name gets one every five seconds, whoever
demands it; all others get the age of the answer. Where a chain is listened to (changes.py) an entry
is stale from the block on that changed its name, whatever the five minutes say: the next caller
waits for a look-up, as if the entry were ten minutes old.

A question is a name, the coin of its wallet, and what is wanted more than wallet and content, if
anything. The primary name of an address is asked for in the same ways: its question has the address
in the place of a name.

Knows nothing of HTTP, chains, files or IPNS."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import structlog

from content_gateway.errors import (
    InvalidCoinType,
    NameNotFound,
    NotFound,
    Overloaded,
    TooManyAtOnce,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Records
from content_gateway.model.wallet import CoinType, address_text
from content_gateway.names.cache import Cache, CachedName, PrimaryQuestion, Question, WideQuestion
from content_gateway.names.lookups import Lookups
from content_gateway.telemetry.numbers import Outcomes

log = structlog.get_logger(__name__)

# Asks whoever can know, at a requestor's expense: the records, None where there is nothing.
_Ask: TypeAlias = Callable[[str], Awaitable[Records | None]]


class NameService(Protocol):
    """A name service, such as ENS: what names point at, by asking servers."""

    @property
    def kind(self) -> str:
        """The word for it in metrics."""

    def covers(self, name: DomainName) -> bool:
        """Whether the name is in this service's namespace."""

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """What *name* points at, its wallet being the address for *coin* (ENSIP-9), and the records
        *more* that it holds: each is a value, absent, or failed by itself.

        Requests to servers that the name's owner chose are charged to *requestor*. Raises
        NameNotFound when there are no records, InvalidCoinType when the service does not read
        addresses of *coin*, UpstreamError when it could not find out. Never returns a guess."""


class PrimaryNames(Protocol):
    """Whoever knows the names of addresses, by asking servers."""

    @property
    def kind(self) -> str:
        """The word for it in metrics."""

    async def primary_name(self, address: bytes, coin: CoinType, *, requestor: str = "") -> Records:
        """The primary name of *address* for *coin*, verified forward (ENSIP-19); never a guess.

        Raises NotFound when there is none, UpstreamError when it could not find out."""


@dataclass(frozen=True, slots=True)
class LookupPolicy:
    """Seconds and bounds. *hold_back* passes after a failed look-up before the next one in the
    background; *between_refreshes* of one name, of which *max_refreshes* are remembered; *lookup*
    is the deadline of one look-up. *max_in_flight* and *max_waiting* bound all look-ups."""

    hold_back: float = 3.0
    between_refreshes: float = 5.0
    max_refreshes: int = 10_000
    lookup: float = 10.0
    max_in_flight: int = 1_000
    max_waiting: int = 1_000


class CachedServices:
    """Asks *services*, and *primary* about addresses, and keeps what they say in *cache*; owns the
    requests in flight. Close it when done. *lookups* counts what was asked."""

    def __init__(
        self,
        services: Sequence[NameService],
        cache: Cache,
        policy: LookupPolicy,
        *,
        primary: PrimaryNames | None = None,
        limit_of: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*limit_of* a requestor is how many of its look-ups run at once; 0: its share."""
        self.lookups = Outcomes()
        self._services = tuple(services)
        self._primary = primary
        self._cache = cache
        self._policy = policy
        self._clock = clock
        self._in_flight = Lookups(
            at_once=policy.max_in_flight,
            waiting=policy.max_waiting,
            seconds=policy.lookup,
            limit_of=limit_of,
        )
        self._refreshed_at: dict[str, float] = {}  # by domain, the oldest first

    async def entry(
        self,
        name: DomainName,
        coin: CoinType,
        more: tuple[RecordKey, ...] = (),
        *,
        force_refresh: bool = False,
        requestor: str,
    ) -> CachedName:
        """The entry that answers for *name* now, its wallet being the address for *coin*, with
        *more* of its records.

        Raises UpstreamError, Overloaded or TooManyAtOnce where there is none."""
        question = WideQuestion(name.text, coin, more) if more else (name.text, coin)
        ask = partial(self._ask_services, name, coin, more)
        return await self._entry(question, ask, force_refresh, requestor)

    async def primary_entry(
        self, address: bytes, coin: CoinType, *, force_refresh: bool = False, requestor: str
    ) -> CachedName:
        """The entry that has the primary name of *address* for *coin* now; raises as `entry`."""
        question = PrimaryQuestion(address_text(coin, address), coin)
        ask = partial(self._ask_for_primary, address, coin)
        return await self._entry(question, ask, force_refresh, requestor)

    async def close(self) -> None:
        """Cancel every in-flight request and wait until it has ended."""
        await self._in_flight.close()

    async def _entry(
        self, question: Question, ask: _Ask, force_refresh: bool, requestor: str
    ) -> CachedName:
        entry = self._cache.get(question) or await self._cache.load(question)
        now = self._clock()
        is_under_way = question in self._in_flight
        if entry is None or (
            force_refresh and (is_under_way or self._may_refresh(question[0], entry, now))
        ):
            return await self._look_up(question, ask, requestor)
        if now < entry.ask_again_at:
            return entry
        last_lookup_failed = entry.asked_at > entry.stored_at
        if self._cache.serves_while_revalidating(entry) or (
            last_lookup_failed and self._cache.serves_if_error(entry)
        ):
            with suppress(Overloaded, TooManyAtOnce):  # the next caller will begin it
                self._in_flight_request(question, ask, requestor)
            return entry
        return await self._look_up(question, ask, requestor)

    def _may_refresh(self, name: str, entry: CachedName, now: float) -> bool:
        """Whether *name* may be refreshed now; if so, this counts as its refresh."""
        refreshed = self._refreshed_at
        last = max(entry.asked_at, refreshed.pop(name, entry.asked_at))
        if now < last + self._policy.between_refreshes:
            refreshed[name] = last
            return False
        refreshed[name] = now
        if len(refreshed) > self._policy.max_refreshes:
            del refreshed[next(iter(refreshed))]  # the oldest: dictionaries keep their order
        return True

    async def _look_up(self, question: Question, ask: _Ask, requestor: str) -> CachedName:
        """A new entry, or the known one if that may be served when the look-up fails.

        Raises UpstreamError, Overloaded and TooManyAtOnce."""
        try:
            # Shielded: other callers wait for the same task.
            entry = await asyncio.shield(self._in_flight_request(question, ask, requestor))
            if self._cache.has_changed(question, entry):  # while it was looked up
                entry = await asyncio.shield(self._in_flight_request(question, ask, requestor))
            return entry
        except (UpstreamError, Overloaded, TooManyAtOnce):
            known = await self._cache.load(question)
            if known is None or not self._cache.serves_if_error(known):
                raise
            return known

    def _in_flight_request(
        self, question: Question, ask: _Ask, requestor: str
    ) -> asyncio.Task[CachedName]:
        """The in-flight request for *question*, begun if there is none; raises Overloaded
        and TooManyAtOnce."""
        return self._in_flight.join(question, requestor, partial(self._run, question, ask))

    async def _run(self, question: Question, ask: _Ask, end: float, requestor: str) -> CachedName:
        begun = self._clock()
        try:
            async with asyncio.timeout_at(end):
                records = await ask(requestor)
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
        self, name: DomainName, coin: CoinType, more: tuple[RecordKey, ...], requestor: str
    ) -> Records | None:
        responsible = [service for service in self._services if service.covers(name)]
        if not responsible:
            raise UpstreamUnavailable("No name service is configured for this domain.")
        for service in responsible:
            try:
                with self.lookups.counted(service.kind) as asked:
                    return await service.resolve(name, coin, more=more, requestor=requestor)
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

    async def _ask_for_primary(
        self, address: bytes, coin: CoinType, requestor: str
    ) -> Records | None:
        primary = self._primary
        if primary is None:
            raise UpstreamUnavailable("No name service is configured for addresses.")
        try:
            with self.lookups.counted(primary.kind):
                return await primary.primary_name(address, coin, requestor=requestor)
        except NotFound:
            return None
