"""A delegated router: IPNS records over HTTP (Delegated Routing V1, `/routing/v1/ipns`).

Knows that API's media type and which answers mean "none". Nothing it returns is believed here:
verification is the resolver's business."""

from typing import Final

from content_gateway.content.ipns_name import MAX_RECORD_BYTES, IpnsName
from content_gateway.errors import UpstreamUnavailable
from content_gateway.outbound import Outbound

MEDIA_TYPE: Final = "application/vnd.ipfs.ipns-record"


class DelegatedRouter:
    """One router, by its base URL."""

    def __init__(self, outbound: Outbound, url: str, *, seconds: float) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        self._seconds = seconds

    async def record(self, name: IpnsName) -> bytes | None:
        """The router's record of *name*, None if it has none; raises UpstreamError."""
        answer = await self._outbound.ask(
            "GET",
            f"{self._url}/routing/v1/ipns/{name}",
            seconds=self._seconds,
            max_bytes=MAX_RECORD_BYTES,
            headers={"Accept": MEDIA_TYPE},
        )
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"The IPNS router answered {answer.status}.")
        if answer.status != 200 or answer.content_type != MEDIA_TYPE:
            return None
        return answer.body
