"""What tests of the cluster adapter share: a miniature cluster, and adapters that talk to it."""

from hashlib import sha256
from typing import Any

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.fakes.cluster_rest import MiniRest
from tests.fakes.cluster_wire import MiniServer


class World:
    """A miniature cluster of three peers, its servers, and adapters that talk to it."""

    def __init__(self, outbound: HttpClient, rest: MiniRest, servers: list[MiniServer]) -> None:
        self.rest, self.cluster, self.servers = rest, rest.cluster, servers
        self.clock = Clock()
        self.urls = [server.url for server in servers]
        self._outbound = outbound

    def backend(self, urls: list[str] | None = None, **options: Any) -> IpfsCluster:
        options = {"seconds": 5.0, "clock": self.clock, **options}
        return IpfsCluster(self._outbound, urls or self.urls, **options)

    def content(self, number: int = 0) -> Cid:
        data = b"content %d" % number
        cid = Cid(RAW, SHA2_256, sha256(data).digest())
        self.cluster.provide(cid, data)
        return cid

    def server_of(self, peer_name: str) -> MiniServer:
        return next(server for server in self.servers if server.peer.name == peer_name)
