"""The outbound client: every read is bounded, and every failure has its name."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import structlog

from content_gateway.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.net.http_client import Answer, HttpClient
from tests.limits import without_descriptors

OK = b"HTTP/1.1 200 OK\r\n"


class Peer:
    """A server that says the bytes it was given, whatever it is asked."""

    def __init__(self, says: bytes, *, forever: bytes = b"", hangs_up: bool = True) -> None:
        self.says, self.forever, self.hangs_up = says, forever, hangs_up
        self.heard: list[bytes] = []
        self.sent = 0
        self.url = ""
        self._ending = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heard.append(head)
            writer.write(self.says)
            await writer.drain()
            while self.forever and not self._ending.is_set():
                writer.write(self.forever)
                await writer.drain()
                self.sent += len(self.forever)
                await asyncio.sleep(0)
            if not self.hangs_up:
                await self._ending.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def end(self) -> None:
        """Close every connection."""
        self._ending.set()


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[Peer]:
    """*peer* on a free port of loopback."""
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path?query=1"
    try:
        yield peer
    finally:
        peer.end()
        server.close()
        await asyncio.sleep(0.01)


async def ask(outbound: HttpClient, peer: Peer, *, seconds: float = 5) -> Answer:
    """What *outbound* makes of the peer's words, with a cap of 1,000 bytes."""
    async with listening(peer):
        return await outbound.ask("GET", peer.url, seconds=seconds, max_bytes=1_000)


async def test_an_answer_is_status_type_and_body(outbound: HttpClient) -> None:
    """Whatever the status, the answer is handed over; its media type is bare and lower case."""
    head = b"HTTP/1.1 404 Nope\r\nContent-Type: Text/HTML; charset=utf-8\r\n"
    says = head + b"Content-Length: 2\r\n\r\nno"
    assert await ask(outbound, Peer(says)) == Answer(404, "text/html", b"no")


async def test_a_request_is_plain(outbound: HttpClient) -> None:
    """The path is sent as it is, compression is declined, and nothing tells who we are."""
    peer = Peer(OK + b"Content-Length: 0\r\n\r\n")
    await ask(outbound, peer)
    head = peer.heard[0].decode().lower()
    assert head.startswith("get /path?query=1 http/1.1\r\n")
    assert "accept-encoding: identity" in head
    assert "cookie" not in head
    assert "authorization" not in head


@pytest.mark.parametrize(
    "frame",
    [
        lambda body: b"Content-Length: %d\r\n\r\n%b" % (len(body), body),
        lambda body: b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        lambda body: b"Connection: close\r\n\r\n%b" % body,
    ],
    ids=["length", "chunked", "until the end"],
)
async def test_the_cap_is_exact(outbound: HttpClient, frame: Callable[[bytes], bytes]) -> None:
    """A body of just the cap is read; one byte more is refused, announced or not."""
    assert (await ask(outbound, Peer(OK + frame(bytes(1_000))))).body == bytes(1_000)
    with pytest.raises(InvalidUpstreamResponse, match=r"100[01] bytes|1000 is the cap"):
        await ask(outbound, Peer(OK + frame(bytes(1_001))))


@pytest.mark.parametrize(
    ("head", "forever"),
    [
        (b"Content-Length: 40000000\r\n\r\n", bytes(10_000)),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + bytes(10_000) + b"\r\n"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100),
        (b"Connection: close\r\n\r\n", bytes(10_000)),
    ],
    ids=["announced", "chunked", "tiny chunks", "until the end"],
)
async def test_a_flood_is_not_read(outbound: HttpClient, head: bytes, forever: bytes) -> None:
    """A server that would send for ever is left after the cap."""
    peer = Peer(OK + head, forever=forever)
    with pytest.raises(InvalidUpstreamResponse):
        await ask(outbound, peer)
    assert peer.sent < 16_000_000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(outbound: HttpClient, status: int) -> None:
    """The redirect itself is the answer."""
    async with listening(Peer(OK + b"Content-Length: 0\r\n\r\n")) as elsewhere:
        location = f"Location: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode()
        answer = await ask(outbound, Peer(b"HTTP/1.1 %d Go\r\n%b" % (status, location)))
        assert answer.status == status
        assert elsewhere.heard == []


async def test_no_cookie_is_kept(outbound: HttpClient) -> None:
    """Requests of different callers share a connection pool, and nothing else."""
    says = OK + b"Set-Cookie: who=me; Path=/\r\nContent-Length: 0\r\n\r\n"
    async with listening(Peer(says)) as peer:
        for _ in range(2):
            await outbound.ask("GET", peer.url, seconds=5, max_bytes=10)
    assert len(peer.heard) == 2
    assert b"who=me" not in peer.heard[1]


async def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where requests go is said in the settings and nowhere else."""
    async with listening(Peer(OK + b"Content-Length: 0\r\n\r\n")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        async with HttpClient() as outbound:
            await ask(outbound, Peer(OK + b"Content-Length: 0\r\n\r\n"))
        assert proxy.heard == []


@pytest.mark.parametrize(
    "says",
    [b"", OK, OK + b"Content-Length: 5\r\n\r\nab", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["silence", "half a head", "half a body", "a promise"],
)
async def test_the_deadline_covers_everything(outbound: HttpClient, says: bytes) -> None:
    """Whatever the server is slow with, the whole answer has its seconds and no more."""
    with pytest.raises(UpstreamTimeout):
        await ask(outbound, Peer(says, hangs_up=False), seconds=0.2)


async def test_a_dripping_body_meets_the_deadline(outbound: HttpClient) -> None:
    """The deadline is for the whole body, not for each read."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 900\r\n\r\n")
        try:
            for _ in range(900):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(UpstreamTimeout):
        await outbound.ask("GET", url, seconds=0.2, max_bytes=1_000)
    server.close()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "says",
    [
        b"hello there\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 ninety OK\r\n\r\n",
        OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        OK + b"X: 1\r\n" * 20_000 + b"\r\n",
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=lambda says: says[:40].decode("latin-1").encode("unicode_escape").decode(),
)
async def test_what_is_not_http_is_garbage(outbound: HttpClient, says: bytes) -> None:
    """Other protocols, broken heads, endless heads and two lengths are no answer."""
    with pytest.raises(InvalidUpstreamResponse):
        await ask(outbound, Peer(says))


@pytest.mark.parametrize(
    "says", [b"", OK[:9], OK + b"Content-Length: 5\r\n\r\nab", OK + b"Content-Le"]
)
async def test_a_server_that_hangs_up_is_unavailable(outbound: HttpClient, says: bytes) -> None:
    """A connection that ends early is UpstreamUnavailable: the server may have been restarted."""
    with pytest.raises(UpstreamUnavailable):
        await ask(outbound, Peer(says))


@pytest.fixture
def refused() -> str:
    """The URL of a port on which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{closed.getsockname()[1]}/v3/s3cr3t"


async def test_a_refused_connection_is_unavailable(outbound: HttpClient, refused: str) -> None:
    """Nobody listens there, and we know at once."""
    with pytest.raises(UpstreamUnavailable):
        await outbound.ask("GET", refused, seconds=60, max_bytes=10)


@pytest.mark.parametrize(
    "url", ["http://", "http://127.0.0.1:99999", "ftp://127.0.0.1", "http://[::1", "http://a..b/"]
)
async def test_an_impossible_address_is_unavailable(outbound: HttpClient, url: str) -> None:
    """A URL that is none is UpstreamUnavailable."""
    with pytest.raises(UpstreamUnavailable):
        await outbound.ask("GET", url, seconds=1, max_bytes=10)


@pytest.mark.parametrize("port", [None, 99_999])
async def test_the_reason_does_not_tell_where(
    outbound: HttpClient, refused: str, port: int | None
) -> None:
    """A caller reads no host of the operator's, and nobody a path: that may hold a secret."""
    url = f"http://127.0.0.1:{port}/v3/s3cr3t" if port else refused
    with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamError) as failed:
        await outbound.ask("GET", url, seconds=5, max_bytes=10)
    assert "127.0.0.1" not in failed.value.detail
    assert "s3cr3t" not in failed.value.detail + str(logs)


@pytest.mark.parametrize("says", [OK + b"X-Internal: s3cr3t\r\nContent-Le", b"HTTP/1.1 s3cr3t\r\n"])
async def test_the_reason_does_not_repeat_the_answer(outbound: HttpClient, says: bytes) -> None:
    """What a broken server said, headers and all, is not passed on to callers."""
    with pytest.raises(UpstreamError) as failed:
        await ask(outbound, Peer(says))
    assert "s3cr3t" not in failed.value.detail


async def test_a_caller_who_gives_up_frees_the_connection(outbound: HttpClient) -> None:
    """A cancelled request ends at once, and the client goes on working."""
    async with listening(Peer(b"", hangs_up=False)) as silent:
        asking = asyncio.create_task(outbound.ask("GET", silent.url, seconds=30, max_bytes=10))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert (await ask(outbound, Peer(OK + b"Content-Length: 0\r\n\r\n"))).status == 200


async def test_our_own_lack_of_files_is_no_upstreams_fault(outbound: HttpClient) -> None:
    """Without a descriptor nothing can be asked: that says nothing about the server, and no breaker
    or outage may take it for an answer."""
    async with listening(Peer(OK + b"content-length: 0\r\n\r\n")) as peer:
        with without_descriptors(), pytest.raises(Overloaded):
            await outbound.ask("GET", peer.url, seconds=10, max_bytes=100)
        assert (await outbound.ask("GET", peer.url, seconds=10, max_bytes=100)).status == 200
