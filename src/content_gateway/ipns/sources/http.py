"""IPNS records over HTTP: from a delegated router, or from a trustless gateway.

Knows the URL that each of them has for a record (Delegated Routing V1, `/routing/v1/ipns`;
ipfs/specs `trustless-gateway.md`), the record's media type and size (`ipns-record.md`), and which
answers mean "none". Verification is the resolver's business."""

from typing import Final, Self

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.model.ipns_name import MAX_RECORD_BYTES, IpnsName
from content_gateway.net.http_client import HttpClient

MEDIA_TYPE: Final = "application/vnd.ipfs.ipns-record"
# What Kubo says, with status 500, on its RPC API and on its gateway, when it looked and there is
# nothing (go-libp2p `routing.ErrNotFound`; seen on Kubo 0.42).
NOT_FOUND: Final = "routing: not found"


class HttpSource:
    """Where the URL of a record is *before*, the name, and *behind*; *kind* of server is blamed."""

    def __init__(
        self, client: HttpClient, before: str, behind: str = "", *, seconds: float, kind: str
    ) -> None:
        self.kind: Final = kind
        self._client = client
        self._before, self._behind = before, behind
        self._seconds = seconds
        self._who = f"The IPNS {kind}"

    @classmethod
    def router(cls, client: HttpClient, url: str, *, seconds: float) -> Self:
        """A delegated router, by its base URL."""
        before = url.rstrip("/") + "/routing/v1/ipns/"
        return cls(client, before, seconds=seconds, kind="router")

    @classmethod
    def gateway(cls, client: HttpClient, url: str, *, seconds: float) -> Self:
        """A trustless gateway, by its base URL: asked for the record, not for what it points at."""
        before = url.rstrip("/") + "/ipns/"
        return cls(client, before, "?format=ipns-record", seconds=seconds, kind="gateway")

    async def record(self, name: IpnsName) -> bytes | None:
        """The record of *name*, None if it has none; raises UpstreamError."""
        answer = await self._client.ask(
            "GET",
            f"{self._before}{name}{self._behind}",
            seconds=self._seconds,
            max_bytes=MAX_RECORD_BYTES,
            headers={"Accept": MEDIA_TYPE},
        )
        if answer.status == 500 and answer.body.strip() == NOT_FOUND.encode():
            return None
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"{self._who} answered {answer.status}.")
        if answer.status not in (200, 404):
            # A redirect, or credentials that do not fit: nobody has looked for the record.
            raise InvalidUpstreamResponse(f"{self._who} answered {answer.status}.")
        return answer.body if answer.status == 200 and answer.content_type == MEDIA_TYPE else None
