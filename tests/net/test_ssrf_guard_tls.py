"""https through the guard: the name in the URL is the name in the certificate, or nothing is said.

The server has certificates of a certificate authority made here, and listens on loopback, which
plays the public internet."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from content_gateway.errors import UpstreamUnavailable
from content_gateway.model.addresses import Address
from content_gateway.net.http_client import Answer, HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.authority import Authority
from tests.fakes.dns import Zone


class Server:
    """An https server that remembers the names it was called by and the heads it was sent."""

    def __init__(self) -> None:
        self.port = 0
        self.names: list[str | None] = []
        self.heads: list[str] = []

    def called(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self.names.append(name)

    async def heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\nhello")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[Server]:
    """A server with the certificate of *context*, on a free port of loopback."""
    server = Server()
    context.sni_callback = server.called
    listening = await asyncio.start_server(server.heard, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def is_loopback(address: Address) -> bool:
    """Loopback counts as public here."""
    return address.is_loopback


async def ask(server: Server, trusts: ssl.SSLContext, host: str = "gateway.example") -> Answer:
    """The answer to `GET /a?b` at *host*, asked through a guard."""
    zone = Zone({"gateway.example": ["127.0.0.1"]})
    guard = Guard(port=server.port, permits=is_loopback, resolver=zone, tls=trusts)
    url = f"https://{host}:{server.port}/a?b"
    async with HttpClient(guard) as outbound:
        await outbound.ask("GET", url, seconds=10, max_bytes=100)
        return await outbound.ask("GET", url, seconds=10, max_bytes=100)


async def test_a_good_certificate_is_a_round_trip(authority: Authority) -> None:
    """The server hears the name of the URL, in TLS and in HTTP, and nothing about us."""
    async with serving(authority.server("gateway.example")) as server:
        answer = await ask(server, authority.client(), "Gateway.Example")
    assert (answer.status, answer.body) == (200, b"hello")
    assert set(server.names) == {"gateway.example"}
    assert len(server.heads) == 2
    for head in server.heads:
        lines = head.lower().split("\r\n")
        assert lines[0] == "get /a?b http/1.1"
        assert f"host: gateway.example:{server.port}" in lines
        assert not any(line.startswith(("cookie:", "authorization:")) for line in lines)


async def test_an_address_needs_a_certificate_of_its_own(authority: Authority) -> None:
    """A literal is verified against the addresses of the certificate."""
    async with serving(authority.server("127.0.0.1")) as server:
        assert (await ask(server, authority.client(), "127.0.0.1")).status == 200
    async with serving(authority.server("gateway.example")) as server:
        with pytest.raises(UpstreamUnavailable):
            await ask(server, authority.client(), "127.0.0.1")


async def test_another_name_is_not_spoken_to(authority: Authority) -> None:
    """A certificate for somebody else ends the call before the question is asked."""
    async with serving(authority.server("another.example")) as server:
        with pytest.raises(UpstreamUnavailable):
            await ask(server, authority.client())
    assert server.names == ["gateway.example"]
    assert server.heads == []


async def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    """An expired certificate is refused."""
    expired = authority.server("gateway.example", ended=timedelta(days=1))
    async with serving(expired) as server:
        with pytest.raises(UpstreamUnavailable):
            await ask(server, authority.client())
    assert server.heads == []


async def test_an_unknown_authority_is_refused(authority: Authority) -> None:
    """Without a context of its own the guard trusts the system's authorities, not this one."""
    async with serving(authority.server("gateway.example")) as server:
        zone = Zone({"gateway.example": ["127.0.0.1"]})
        guard = Guard(port=server.port, permits=is_loopback, resolver=zone)
        url = f"https://gateway.example:{server.port}/"
        async with HttpClient(guard) as outbound:
            with pytest.raises(UpstreamUnavailable):
                await outbound.ask("GET", url, seconds=10, max_bytes=100)
    assert server.heads == []


async def test_a_server_without_tls_is_unavailable(authority: Authority) -> None:
    """Plain HTTP on the port of https is no answer."""

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = Server()
    listening = await asyncio.start_server(plain, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    with pytest.raises(UpstreamUnavailable):
        await ask(server, authority.client())
    listening.close()


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", [*range(255_000, 285_000, 2_500), 2 << 20])
async def test_what_comes_before_the_end_is_read(
    authority: Authority, size: int, is_chunked: bool
) -> None:
    """A server that hangs up behind a long answer has answered, though TLS tells its end early.

    The shorter answers end where the body's reader has enough in the midst of the last read."""
    body = bytes(range(250)) * (size // 250)
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
    sent = head + b"\r\n" + body
    if is_chunked:
        pieces = [body[begun : begun + 1000] for begun in range(0, len(body), 1000)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    async def generous(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    context = authority.server("gateway.example")
    listening = await asyncio.start_server(generous, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    zone = Zone({"gateway.example": ["127.0.0.1"]})
    guard = Guard(port=port, permits=is_loopback, resolver=zone, tls=authority.client())
    url = f"https://gateway.example:{port}/"
    async with HttpClient(guard) as outbound:
        answer = await outbound.ask("GET", url, seconds=30, max_bytes=len(body))
        assert answer.body == body
        async with outbound.stream("GET", url, seconds=30, idle_seconds=30) as stream:
            read = b""
            await asyncio.sleep(0.05)  # until there is enough of it
            async for chunk in stream.chunks():
                read += chunk
                await asyncio.sleep(0.001)
        assert read == body
    listening.close()
