"""The directory: what a name points at, from the first place that knows it.

The local zones come first. They are files of the operator, cheap to read and never cached here, so
that an edit shows within a second. Then come the cache, and the services behind it that cover the
name: when which is asked, and how long an answer serves, is told in cached_services.py.

What the denylist names is refused before anything is looked up, and again once the content, or the
name of an address, is known. Knows nothing of HTTP, chains or files; IPNS is started here and
resolved by `ipns/`."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from content_gateway.errors import InvalidCoinType, NameNotFound, PrimaryNameNotFound
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import (
    FreshRecords,
    IpfsContent,
    IpnsContent,
    Records,
    Resolution,
    Resolved,
)
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cache import Cache, CachedName
from content_gateway.names.cached_services import (
    CachedServices,
    LookupPolicy,
    NameService,
    PrimaryNames,
)
from content_gateway.names.local import LocalNames, find_locally


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
        primary: PrimaryNames | None = None,
        policy: LookupPolicy | None = None,
        limit_of: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*limit_of* a requestor is how many of its look-ups run at once; 0: its share."""
        self.answers: Counter[str] = Counter()
        self._local = tuple(local)
        self._ipns = ipns
        self._denylist = denylist
        self._cache = cache
        self._clock = clock
        self._services = CachedServices(
            services,
            cache,
            policy or LookupPolicy(),
            primary=primary,
            limit_of=limit_of,
            clock=clock,
        )
        self.lookups = self._services.lookups

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: tuple[RecordKey, ...] = (),
        force_refresh: bool = False,
        requestor: str = "",
    ) -> Resolution:
        """What *name* points at, with *more* of its records, from the first place that knows,
        refreshed with *force_refresh*.

        A look-up is charged to *requestor*, to the operator where that is empty. Raises
        NameNotFound when every service says that there is nothing, and Blocked when the denylist
        names it. Unless an answer may be served stale it also raises UpstreamError when we could
        not find out, and Overloaded or TooManyAtOnce when the requestor's share of look-ups, or
        its limit, is used up."""
        self._denylist.check_name(name)
        local = find_locally(self._local, name, coin, more)
        if local is not None:
            return self._resolution(local) or await self._through_ipns(
                local, force_refresh, requestor
            )
        begun = self._clock()
        entry = await self._services.entry(
            name, coin, more, force_refresh=force_refresh, requestor=requestor
        )
        resolution = await self._answer(entry, begun, force_refresh, requestor)
        if resolution is None:
            raise _no_such_name(coin, has_more=bool(more))
        return resolution

    async def primary_name(
        self,
        address: bytes,
        coin: CoinType = ETHEREUM,
        *,
        force_refresh: bool = False,
        requestor: str = "",
    ) -> Resolution:
        """The primary name of *address*, as resolvers keep it, on the chain of *coin* (ENSIP-19).

        Raises PrimaryNameNotFound where there is none, and else as resolve."""
        begun = self._clock()
        entry = await self._services.primary_entry(
            address, coin, force_refresh=force_refresh, requestor=requestor
        )
        resolution = await self._answer(entry, begun, force_refresh, requestor)
        if resolution is None:
            raise PrimaryNameNotFound(
                "No name is set for this address on that chain, or the name does not lead back to"
                " it."
            )
        primary = resolution.records.primary
        assert primary is not None  # noqa: S101 - PrimaryNames give no other records
        self._denylist.check_name(DomainName(primary))
        return resolution

    async def records(self, name: DomainName, *, requestor: str = "") -> FreshRecords:
        """As `resolve`, and for how long that is known; absence is a value here.

        IPNS content is not followed. Raises Blocked, UpstreamError, Overloaded, TooManyAtOnce."""
        self._denylist.check_name(name)
        try:
            local = find_locally(self._local, name, ETHEREUM)
        except NameNotFound:
            return FreshRecords(None, None)
        if local is not None:
            found = FreshRecords(local, None)
        else:
            begun = self._clock()
            entry = await self._services.entry(name, ETHEREUM, requestor=requestor)
            found = FreshRecords(entry.records, self._cache.fresh_for(entry))
            known = "absent" if found.records is None else "fresh" if found.fresh_for else "stale"
            self.answers["miss" if entry.stored_at >= begun else known] += 1
        if found.records is not None and isinstance(found.records.content, IpnsContent):
            await self._ipns.known(found.records.content.name)  # it raises Blocked
        elif found.records is not None:
            self._resolution(found.records)
        return found

    def lists(self, name: DomainName) -> bool:
        """Whether a local zone has the last word on *name*."""
        try:
            return find_locally(self._local, name, ETHEREUM) is not None
        except NameNotFound:
            return True

    async def known(self, name: DomainName) -> tuple[Resolved, IpfsPath | None]:
        """What *name* was last known to point at, however old, and what IPNS content resolves to.

        Asks no server. Raises NameNotFound when nothing is known or was found, and Blocked."""
        self._denylist.check_name(name)
        local = find_locally(self._local, name, ETHEREUM)
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

    def fresh_for(self, name: DomainName) -> timedelta | None:
        """How much longer what is in memory of *name* is fresh; None where it is stale, or nothing
        is, as of the names of local zones."""
        entry = self._cache.get((name.text, ETHEREUM))
        return None if entry is None else self._cache.fresh_for(entry)

    def knows(self, name: DomainName) -> bool:
        """Whether an answer for *name* is in memory, however old, or in a local zone."""
        return self._cache.get((name.text, ETHEREUM)) is not None or self.lists(name)

    async def close(self) -> None:
        """Cancel every in-flight request and wait until it has ended."""
        await self._services.close()

    async def _answer(
        self, entry: CachedName, begun: float, force_refresh: bool, requestor: str
    ) -> Resolution | None:
        """The answer that *entry* is to a question that came when it was *begun*, None where there
        is nothing; raises as resolve."""
        is_miss = entry.stored_at >= begun
        if entry.records is None:
            self.answers["miss" if is_miss else "absent"] += 1
            if entry.unread:
                raise InvalidCoinType(entry.unread)
            return None
        resolution = self._resolution(entry.records) or await self._through_ipns(
            entry.records, force_refresh, requestor
        )
        stale = self._cache.staleness(entry, even_fresh=force_refresh and entry.stored_at < begun)
        self.answers["miss" if is_miss else "fresh" if stale is None else "stale"] += 1
        return resolution if stale is None else resolution.but_stale(stale)

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


def _no_such_name(coin: CoinType, *, has_more: bool) -> NameNotFound:
    beside = ", nor any of the records asked for" if has_more else ""
    wallet = "wallet" if coin == ETHEREUM else f"an address of the coin type {coin}"
    return NameNotFound(
        f"No such name is registered, or it has neither {wallet} nor content{beside}."
    )
