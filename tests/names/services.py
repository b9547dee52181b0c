"""Small working parts for tests of the directory: a clock, a name service, an IPNS lookup."""

import asyncio

from content_gateway.content.cid import Cid
from content_gateway.content.domain import DomainName
from content_gateway.content.ipns_name import IpnsName
from content_gateway.content.records import Records
from content_gateway.errors import NameNotFound, UpstreamUnavailable


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        """Let *seconds* go by."""
        self.now += seconds


class Service:
    """A name service over a dict. While `down` it cannot find out; `closed` holds answers back."""

    def __init__(self, **names: Records) -> None:
        self.names = {f"{label}.eth": records for label, records in names.items()}
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.down = False
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Answer nobody until `let_go`."""
        self._open.clear()

    def let_go(self) -> None:
        """Answer whoever waits."""
        self._open.set()

    async def resolve(self, name: DomainName) -> Records:
        """What *name* points at; raises NameNotFound or UpstreamUnavailable."""
        self.asked.append(name.text)
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

    def find(self, name: DomainName) -> Records | None:
        """The records, None if another service may know; raises NameNotFound if none may."""
        if name.text.endswith(".local") and name.text not in self.names:
            raise NameNotFound("The zone does not list the name.")
        return self.names.get(name.text)


class Ipns:
    """An IPNS lookup over a dict."""

    def __init__(self) -> None:
        self.cids: dict[IpnsName, Cid] = {}
        self.asked: list[IpnsName] = []

    async def latest(self, name: IpnsName) -> Cid | None:
        """The last CID, None if there is none yet."""
        self.asked.append(name)
        return self.cids.get(name)
