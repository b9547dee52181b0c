"""The outbound HTTP client: every call to somebody else's server goes through here.

Each call has a deadline and a byte cap, follows no redirect, keeps no cookie, reads no proxy from
the environment and asks for no compression (docs/facts/edge.md, Outbound). Knows HTTP only; what an
answer means is left to the adapter that asked."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from yarl import URL

from content_gateway.concurrency.loop_turns import Turns
from content_gateway.errors import (
    AnswerTooLarge,
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.files.descriptors import open_socket, own_lack
from content_gateway.net.byte_budget import ByteBudget
from content_gateway.net.connection_slots import ConnectionSlots, PoolLimits
from content_gateway.net.content_coding import decoder_of
from content_gateway.net.response_protocol import Wasteful, with_bounds
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.telemetry.tracing import Tracer

if TYPE_CHECKING:
    from aiohttp.connector import AddrInfoType

    from content_gateway.net.ssrf_guard import Guard

log = structlog.get_logger(__name__)

MAX_IN_FLIGHT = 4  # per off-chain gateway (docs/facts/edge.md, URLs chosen by others)
GUARDED = PoolLimits(
    in_all=256,
    per_server=MAX_IN_FLIGHT,
    waiting=256,
    seconds=2.0,
    large_bytes=48 * 1024 * 1024,
    reserves=True,
)
# Bytes of a body that wait for whoever reads it (twice as many, where they come at once): a stream
# is as long as it is, and one that stops at each read of the socket is a tenth slower.
_READ_AHEAD = 64 * 1024
_STREAM_AHEAD = 128 * 1024
_USER_AGENT = "content-gateway"


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer; *content_type* is the bare media type, in lower case."""

    status: int
    content_type: str
    body: bytes


class Download:
    """An HTTP answer whose body is read as it comes; made by `HttpClient.stream`."""

    def __init__(self, response: aiohttp.ClientResponse, end: float) -> None:
        self.status = response.status
        self.content_type = response.content_type.lower()
        self.retry_after = response.headers.get("Retry-After")  # as it was sent
        self._content = response.content
        self._decoder = decoder_of(response.headers.get("Content-Encoding"))
        self._end = end

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in the pieces it arrives in, a content coding undone."""
        now = asyncio.get_running_loop().time
        while True:
            # Around each read, and around no yield: a deadline ends whoever waits at that moment.
            async with asyncio.timeout_at(self._end):
                chunk = await self._content.readany()
            if now() > self._end:  # what has arrived already is read without waiting
                raise TimeoutError
            if not chunk:
                break
            if self._decoder is None:
                yield chunk
                continue
            for piece in self._decoder.decode(chunk):
                yield piece
                await asyncio.sleep(0)
        if self._decoder is not None:
            self._decoder.finish()

    async def lines(self, max_bytes: int) -> AsyncIterator[bytes]:
        """The body's lines that are not empty, without their ends.

        Raises InvalidUpstreamResponse for a line of more than *max_bytes*."""
        rest = b""
        async for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if line:
                    yield line
            if len(rest) > max_bytes:
                raise InvalidUpstreamResponse(
                    f"A line of the answer has more than {max_bytes} bytes."
                )
        if rest:
            yield rest


class HttpClient:
    """One connection pool with its *limits*; open it with `async with`.

    *kind* is the word for its servers in metrics and for *tracer*, *outcomes* is where requests are
    counted. Without a *guard* it is for the operator's own upstreams; with one, for URLs that
    others chose."""

    _session: aiohttp.ClientSession
    _turns: Turns

    def __init__(
        self,
        guard: "Guard | None" = None,
        *,
        limits: PoolLimits | None = None,
        kind: str = "upstream",
        outcomes: Outcomes | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._guard = guard
        self._tracer = tracer
        self._kind = kind
        self._outcomes = outcomes or Outcomes()
        limits = limits or (GUARDED if guard else PoolLimits())
        self._slots = ConnectionSlots(limits)
        self._room = ByteBudget(limits.large_bytes)

    async def __aenter__(self) -> Self:
        self._turns = Turns()
        self._session = aiohttp.ClientSession(
            connector=with_bounds(
                self._guard.connector()
                if self._guard
                # The slots are the limit.
                else aiohttp.TCPConnector(limit=0, socket_factory=_socket),
                self._turns,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"},
            # Every request is bounded by its own deadline in _exchange.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            trust_env=False,
            max_line_size=8190,
            max_field_size=8190,
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._session.close()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        begun: Callable[[], None] | None = None,
        requestor: str = "",
    ) -> Answer:
        """The whole answer to one request, whatever its status.

        Waits for a connection first, in the turn of *requestor*, which no server is blamed for, and
        calls *begun* then. Raises Overloaded where none was free, UpstreamTimeout after *seconds*,
        AnswerTooLarge above *max_bytes*, InvalidUpstreamResponse when it is not HTTP or the guard
        does not allow the URL, UpstreamUnavailable without a connection, or if it ends too
        early."""
        with self._room.hold() as hold:
            sent = len(body or b"")
            hold.resize(sent)
            async with self._exchange(
                method,
                url,
                seconds=seconds,
                headers=headers,
                body=body,
                begun=begun,
                requestor=requestor,
            ) as response:
                declared = response.content_length
                if declared is not None and declared > max_bytes:
                    raise AnswerTooLarge(
                        f"The answer has {declared} bytes; {max_bytes} is the cap."
                    )
                read = bytearray()
                async for piece in _decoded(response, max_bytes):
                    hold.resize(sent + 2 * (len(read) + len(piece)))  # as it is copied in the end
                    read += piece
                    if len(read) > max_bytes:
                        raise AnswerTooLarge(f"The answer has more than {max_bytes} bytes.")
                return Answer(response.status, response.content_type.lower(), bytes(read))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        idle_seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator["Download"]:
        """The answer to one request, to be read piece by piece: for what may be long.

        Raises as `ask` does, on entering, while reading and where the body ends too early; the
        caller caps the bytes. *seconds* bounds all of it, *idle_seconds* each wait for bytes."""
        end = asyncio.get_running_loop().time() + seconds
        async with self._exchange(
            method, url, seconds=seconds, headers=headers, idle_seconds=idle_seconds
        ) as response:
            yield Download(response, end)

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        headers: Mapping[str, str] | None,
        body: bytes | None = None,
        idle_seconds: float | None = None,
        begun: Callable[[], None] | None = None,
        requestor: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer's head, with everything that can go wrong until its end translated.

        With *idle_seconds* the deadline ends with the head, and whoever reads goes on with it."""
        target: str | URL = url
        server = host_of(url)
        if self._guard:
            target = allowed = self._guard.check_url(url)
            server = f"{allowed.host}:{allowed.port}"
        async with self._slots.one(server, requestor):
            await self._turns.begin_one()
            if begun is not None:
                begun()
            try:
                with (
                    self._outcomes.counted(self._kind) as counted,
                    self._tracer.upstream(self._kind, server) if self._tracer else nullcontext(),
                    _translated(url, seconds),
                ):
                    async with (
                        asyncio.timeout(seconds) as deadline,
                        self._session.request(
                            method,
                            target,
                            headers=headers,
                            data=body,
                            allow_redirects=False,
                            timeout=aiohttp.ClientTimeout(total=None, sock_read=idle_seconds),
                            read_bufsize=_READ_AHEAD if idle_seconds is None else _STREAM_AHEAD,
                        ) as response,
                    ):
                        if response.status == 429 or response.status >= 500:
                            counted.outcome = "refused"
                        if idle_seconds is not None:
                            deadline.reschedule(None)
                        yield response
            finally:
                log.debug("a server was asked", host=server, outcome=counted.outcome)


async def _decoded(response: aiohttp.ClientResponse, max_bytes: int) -> AsyncIterator[bytes]:
    """The body's decoded pieces; raises InvalidUpstreamResponse or AnswerTooLarge.

    Of a body that is coded, *max_bytes* are read as they are sent, too."""
    decoder = decoder_of(response.headers.get("Content-Encoding"))
    received = 0
    async for chunk in response.content.iter_any():
        if decoder is None:
            yield chunk
            continue
        received += len(chunk)
        if received > max_bytes:
            raise AnswerTooLarge(f"The answer has more than {max_bytes} bytes.")
        for piece in decoder.decode(chunk):
            yield piece
            await asyncio.sleep(0)  # a bomb of gzip takes turns like everybody else
    if decoder is not None:
        decoder.finish()


def _socket(target: "AddrInfoType") -> socket.socket:
    """A socket for *target*, to which aiohttp connects it next."""
    family, kind, protocol, _, _ = target
    return open_socket(family, kind, protocol)


@contextmanager
def _translated(url: str, seconds: float) -> Iterator[None]:
    """Whatever goes wrong with the request for *url*, in our words."""
    try:
        yield
    except TimeoutError as late:
        raise UpstreamTimeout(f"No complete answer within {seconds:g} s.") from late
    except Wasteful as wrong:
        raise InvalidUpstreamResponse(str(wrong)) from wrong
    except (aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError) as wrong:
        raise InvalidUpstreamResponse("The answer is not HTTP.") from wrong
    except (aiohttp.ClientError, OSError, UnicodeError) as gone:
        lack = own_lack(gone)
        if lack is not None:
            log.warning("no connection can be opened here", reason=os.strerror(lack.errno or 0))
            raise Overloaded("No more connections can be opened here now.") from gone
        # Where the operator's servers are is for the log, not for the caller; and not even
        # the log gets the error's own words, which may repeat an address or an answer.
        reason = f"{type(gone).__name__} {getattr(gone, 'errno', None) or ''}".rstrip()
        log.info("server cannot be reached", host=host_of(url), reason=reason)
        raise UpstreamUnavailable("The server cannot be reached.") from gone


def host_of(url: str) -> str:
    """Host and port in *url*, without user, path and query, which may be secret."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if len(host) > 253 or not (host.isascii() and host.isprintable()):
            return "none"  # chosen by somebody who would rather write into the log
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    except ValueError:
        return "none"


def json_object(body: bytes, *, who: str) -> dict[str, Any]:
    """The JSON object in *body*; raises InvalidUpstreamResponse, which blames *who*."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidUpstreamResponse(f"{who} did not answer in JSON.") from wrong
    if not isinstance(value, dict):
        raise InvalidUpstreamResponse(f"{who} did not answer with a JSON object.")
    return value
