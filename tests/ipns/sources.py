"""Small working parts for tests of the resolver: sources of records, a DNS, a memory, a clock."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import UpstreamUnavailable
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.link_cache import LinkCache, RecordSource
from content_gateway.ipns.resolver import IpnsDenylist, IpnsResolver
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import StoredEntry
from tests.clock import Clock, let_tasks_run


class Source:
    """Holds records by name. While `down` it fails; between `hold` and `release` it is silent."""

    kind = "test"

    def __init__(self) -> None:
        self.records: dict[IpnsName, bytes] = {}
        self.asked: list[IpnsName] = []
        self.waiting = 0
        self.down = False
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nobody until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Answer whoever waits."""
        self._open.set()

    async def record(self, name: IpnsName) -> bytes | None:
        """The record, None if there is none; raises UpstreamUnavailable."""
        self.asked.append(name)
        self.waiting += 1
        try:
            await self._open.wait()
            await asyncio.sleep(0)
        finally:
            self.waiting -= 1
        if self.down:
            raise UpstreamUnavailable("The source is down.")
        return self.records.get(name)


@dataclass(frozen=True)
class Txt:
    """What a domain's TXT record says."""

    path: str
    ttl: timedelta = timedelta(seconds=300)


class Dns:
    """DNSLink records by domain. While `down` it fails."""

    def __init__(self) -> None:
        self.links: dict[str, Txt] = {}
        self.asked: list[str] = []
        self.down = False

    async def lookup(self, domain: str) -> Txt | None:
        """The link, None if there is none; raises UpstreamUnavailable."""
        self.asked.append(domain)
        await asyncio.sleep(0)
        if self.down:
            raise UpstreamUnavailable("DNS is down.")
        return self.links.get(domain)


class Memory:
    """Cache entries that outlive a resolver, in a dict."""

    def __init__(self) -> None:
        self.kept: dict[IpnsName, StoredEntry] = {}

    async def load_ipns(self, name: IpnsName) -> StoredEntry | None:
        """What is stored."""
        return self.kept.get(name)

    def store_ipns(self, name: IpnsName, link: StoredEntry | None) -> None:
        """Store, or delete."""
        self.kept.pop(name, None)
        if link is not None:
            self.kept[name] = link


async def later(clock: Clock, seconds: float) -> None:
    """Finish what is under way, then let *seconds* go by."""
    await let_tasks_run()
    clock.pass_(seconds)


def resolver_of(
    *sources: RecordSource,
    dns: Dns | None = None,
    memory: Memory | None = None,
    clock: Clock | None = None,
    policy: IpnsPolicy | None = None,
    denylist: IpnsDenylist | None = None,
) -> IpnsResolver:
    """A resolver over *sources*; parts that a test does not care about are new and empty."""
    clock = clock or Clock()
    links = LinkCache(
        sources,
        dns or Dns(),
        memory or Memory(),
        policy=policy,
        clock=clock,
        today=clock.today,
    )
    return IpnsResolver(links, denylist or Denylist(None, None))
