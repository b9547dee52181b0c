"""The part of the composition root that talks to another pinning service: a client of its own.

Knows which URLs an access token may be sent to. What is done with the pins is left to the
commands."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from content_gateway.errors import GatewayError
from content_gateway.net.http_client import HttpClient
from content_gateway.pinning_services.client import PinningService


@asynccontextmanager
async def opened_service(
    url: str, token: str, waiting: Callable[[str | None], None]
) -> AsyncIterator[PinningService]:
    """The pinning service at *url*, open; *waiting* as of PinningService."""
    async with HttpClient() as client:
        yield PinningService(client, url, token, waiting)


def check_url(url: str, *, plain: bool) -> str:
    """*url*, if an access token may be sent there; http beyond this machine only where *plain*.

    Raises GatewayError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as wrong:
        raise GatewayError("The URL of the pinning service cannot be read.") from wrong
    if parts.scheme not in ("http", "https") or not host:
        raise GatewayError("The URL of the pinning service begins with https:// and has a host.")
    if parts.username is not None or parts.query or parts.fragment:
        raise GatewayError(
            "The URL of the pinning service has no user, password, query or fragment; the access"
            " token comes from the environment."
        )
    if parts.scheme == "http" and not plain and not _is_loopback(host):
        raise GatewayError(
            "Over http:// everybody on the way can read the access token: use https://, or say"
            " --plain-http if that network is yours."
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
