"""A trustless gateway as a source of IPNS records (ipfs/specs `trustless-gateway.md`).

Knows how such a gateway is asked for the record instead of for what it points at; what an
answer means is told by http.py. Nothing it returns is believed here: verification is
the resolver's business."""

from content_gateway.ipns.sources.http import ask_for_record
from content_gateway.model.ipns_name import IpnsName
from content_gateway.net.http_client import HttpClient


class GatewaySource:
    """One gateway, by its base URL."""

    def __init__(self, outbound: HttpClient, url: str, *, seconds: float) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        self._seconds = seconds

    async def record(self, name: IpnsName) -> bytes | None:
        """The gateway's record of *name*, None if it has none; raises UpstreamError."""
        url = f"{self._url}/ipns/{name}?format=ipns-record"
        return await ask_for_record(
            self._outbound, url, seconds=self._seconds, who="The IPNS gateway"
        )
