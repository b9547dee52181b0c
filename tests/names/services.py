"""Small working parts for tests of the directory: a clock, a name service, an IPNS lookup, a memory
and a denylist."""

import asyncio
from collections.abc import Sequence

from content_gateway.errors import Blocked, NameNotFound, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Records, Resolved
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cache import Cache, CachePolicy
from content_gateway.names.cached_services import LookupPolicy, NameService
from content_gateway.names.changes import Changes
from content_gateway.names.directory import Directory
from content_gateway.names.local import LocalNames
from tests.clock import Clock
from tests.samples import CONTENT

ALICE = Records("0x" + "aa" * 20)
BOB = Records("0x" + "bb" * 20, CONTENT)


class Service:
    """A name service over a dict. While `down` it cannot find out; `closed` holds answers back."""

    def __init__(self, **names: Records) -> None:
        self.names = {f"{label}.eth": records for label, records in names.items()}
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.coins: list[CoinType] = []
        self.more: list[tuple[RecordKey, ...]] = []
        self.charged: list[str] = []
        self.foreign: set[str] = set()
        self.down = False
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nobody until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Answer whoever waits."""
        self._open.set()

    kind = "test"

    def covers(self, name: DomainName) -> bool:
        """True, unless it is the name of somebody else."""
        return name.labels[-1] not in self.foreign

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """What *name* points at; raises NameNotFound or UpstreamUnavailable."""
        self.asked.append(name.text)
        self.more.append(tuple(more))
        self.coins.append(coin)
        self.charged.append(requestor)
        try:
            await self._open.wait()
            await asyncio.sleep(0)
        finally:
            self.ended.append(name.text)
        if self.down:
            raise UpstreamUnavailable("The service is down.")
        if name.text not in self.names:
            raise NameNotFound("The service does not know the name.")
        return self.names[name.text]


class Zone:
    """A local zone over a dict, with the last word on names below `.local`."""

    def __init__(self, **names: Records) -> None:
        self.names = {f"{label}.eth": records for label, records in names.items()}

    def find(self, name: DomainName, coin: CoinType = ETHEREUM) -> Records | None:
        """The records, None if another service may know; raises NameNotFound if none may."""
        if name.text.endswith(".local") and name.text not in self.names:
            raise NameNotFound("The zone does not list the name.")
        return self.names.get(name.text)


class Ipns:
    """An IPNS lookup over a dict."""

    def __init__(self) -> None:
        self.paths: dict[IpnsName, IpfsPath] = {}
        self.asked: list[IpnsName] = []
        self.refreshed: list[IpnsName] = []
        self.requestors: list[str] = []
        self.blocked = False

    async def latest(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> IpfsPath | None:
        """The last path, None if there is none yet; raises Blocked."""
        self._check()
        self.requestors.append(requestor)
        self.asked.append(name)
        if force_refresh:
            self.refreshed.append(name)
        return self.paths.get(name)

    async def known(self, name: IpnsName) -> IpfsPath | None:
        """The last path, without asking; raises Blocked."""
        self._check()
        return self.paths.get(name)

    def _check(self) -> None:
        if self.blocked:
            raise Blocked("This IPNS name is blocked.")


class Memory:
    """Answers that outlive a directory, in a dict."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, CoinType], Resolved] = {}

    async def load(self, domain: str, coin: CoinType) -> Resolved | None:
        """What is stored."""
        return self.kept.get((domain, coin))

    def store(self, domain: str, coin: CoinType, resolved: Resolved | None) -> None:
        """Store, or delete."""
        self.kept.pop((domain, coin), None)
        if resolved is not None:
            self.kept[domain, coin] = resolved


class Blocks:
    """A denylist of sets."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.ipns: set[IpnsName] = set()
        self.cids: set[Cid] = set()

    def check_name(self, name: DomainName) -> None:
        """Raises Blocked for a listed domain."""
        if name.text in self.names:
            raise Blocked("This domain is blocked.")

    def check_ipns(self, name: IpnsName) -> None:
        """Raises Blocked for a listed IPNS name."""
        if name in self.ipns:
            raise Blocked("This IPNS name is blocked.")

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked for a listed CID."""
        if cid in self.cids:
            raise Blocked("This content is blocked.")


def directory_of(
    *services: NameService,
    local: Sequence[LocalNames] = (),
    ipns: Ipns | None = None,
    memory: Memory | None = None,
    blocks: Blocks | None = None,
    clock: Clock | None = None,
    ages: CachePolicy | None = None,
    policy: LookupPolicy | None = None,
    changes: Changes | None = None,
) -> Directory:
    """A directory over *services*; parts that a test does not care about are new and empty."""
    clock = clock or Clock()
    return Directory(
        local=local,
        services=services,
        ipns=ipns or Ipns(),
        denylist=blocks or Blocks(),
        cache=Cache(memory or Memory(), ages=ages, changes=changes, clock=clock, today=clock.today),
        policy=policy,
        clock=clock,
    )
