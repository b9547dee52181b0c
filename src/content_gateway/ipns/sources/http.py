"""IPNS records over HTTP: the one exchange that delegated routers and gateways have in common.

Knows the record's media type (ipfs/specs `ipns-record.md`), its size, and which answers mean
"none". Where to ask is left to the adapter, whether to believe the record to `ipns/`."""

from typing import Final

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.model.ipns_name import MAX_RECORD_BYTES
from content_gateway.net.http_client import HttpClient

MEDIA_TYPE: Final = "application/vnd.ipfs.ipns-record"
# What Kubo says, with status 500, on its RPC API and on its gateway, when it looked and there is
# nothing (go-libp2p `routing.ErrNotFound`; seen on Kubo 0.42).
NOT_FOUND: Final = "routing: not found"


async def ask_for_record(
    outbound: HttpClient, url: str, *, seconds: float, who: str
) -> bytes | None:
    """The record that *url* gives, None if there is none; raises UpstreamError, blaming *who*."""
    answer = await outbound.ask(
        "GET",
        url,
        seconds=seconds,
        max_bytes=MAX_RECORD_BYTES,
        headers={"Accept": MEDIA_TYPE},
    )
    if answer.status == 500 and answer.body.strip() == NOT_FOUND.encode():
        return None
    if answer.status == 429 or answer.status >= 500:
        raise UpstreamUnavailable(f"{who} answered {answer.status}.")
    if answer.status not in (200, 404):
        # A redirect, or credentials that do not fit: nobody has looked for the record.
        raise InvalidUpstreamResponse(f"{who} answered {answer.status}.")
    return answer.body if answer.status == 200 and answer.content_type == MEDIA_TYPE else None
