"""The outbound client without sockets: miniatures answer in this process, and some are spoilt.

An honest answer is asked for once and remembered; what is spoilt, and how, is said again for each
case. Remembers what was served, so that the oracle reads the very bytes that the service read."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from content_gateway.concurrency.loop_turns import Turns
from content_gateway.net.http_client import Answer, HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.ethereum import selector
from tests.fakes.miniature import Miniature

# What is asked of a contract, by its selector.
FUNCTIONS: Final = {
    selector(signature): signature.partition("(")[0]
    for signature in (
        "resolve(bytes,bytes)",
        "owner(bytes32)",
        "ownerOf(uint256)",
        "resolver(bytes32)",
        "contenthash(bytes32)",
        "addr(bytes32)",
        "addr(bytes32,uint256)",
        "getData(string[],uint256)",
        "resolveCallback(bytes,bytes)",
    )
}


@dataclass(frozen=True)
class Role:
    """Which server was asked, and what for."""

    server: str
    what: str


@dataclass(frozen=True)
class Exchange:
    """One question in its role, and what was answered to it."""

    role: Role
    answer: Answer


Spoil = Callable[[Role, Answer], Answer]


@dataclass
class Request:
    """As much of a request as the miniatures look at."""

    method: str
    url: str
    sent: bytes | None
    headers: Mapping[str, str]
    content_type: str = "application/json"

    @property
    def path(self) -> str:
        """Without the query."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """The last value of each name."""
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.url).query).items()}

    async def read(self) -> bytes:
        """The body."""
        return self.sent or b""


@dataclass
class _Known:
    """Honest answers by question; they never change while a world stands."""

    answers: dict[tuple[str, str, bytes | None], Exchange] = field(default_factory=dict)


class _Content:
    """A body that comes in one piece, of a length that nobody declared."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._body


class _Response:
    """As much of aiohttp's response as the client reads."""

    headers: Final[Mapping[str, str]] = {}
    content_length: Final = None

    def __init__(self, answer: Answer) -> None:
        self.status, self.content_type = answer.status, answer.content_type
        self.content = _Content(answer.body)


class _Session:
    """In place of aiohttp's session: hands each request to *served* instead of a socket."""

    def __init__(self, served: Callable[[Request], Awaitable[Answer]]) -> None:
        self._served = served

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: object,
        *,
        headers: Mapping[str, str] | None,
        data: bytes | None,
        **_: object,
    ) -> AsyncIterator[_Response]:
        yield _Response(await self._served(Request(method, str(url), data, headers or {})))


class StandIn(HttpClient):
    """The real client over *servers*, by name; their URLs are `http://127.0.0.1:PORT` of ports that
    nobody listens on. Guard, turns, deadlines and caps are the client's own."""

    def __init__(self, servers: Mapping[str, Miniature], guard: Guard | None = None) -> None:
        super().__init__(guard)
        self._turns = Turns()
        session: Any = _Session(self._serve)
        self._session = session
        self._servers = dict(servers)
        self._known = _Known()
        self.spoil: Spoil | None = None
        self.served: list[Exchange] = []

    async def _serve(self, request: Request) -> Answer:
        """The answer of the server, spoilt where the case says so."""
        question = (request.method, request.url, request.sent)
        honest = self._known.answers.get(question)
        if honest is None:
            honest = await self._honest(request)
            if len(self._known.answers) < 50_000:
                self._known.answers[question] = honest
        exchange = honest
        if self.spoil is not None:
            exchange = replace(honest, answer=self.spoil(honest.role, honest.answer))
        self.served.append(exchange)
        return exchange.answer

    async def _honest(self, request: Request) -> Exchange:
        name = next((n for n, s in self._servers.items() if request.url.startswith(s.url)), None)
        if name is None:
            raise aiohttp.ClientConnectionError
        server: Any = self._servers[name]
        try:
            response = await server.answer(request)
        except Exception:  # as a real server would answer to a question that it cannot read
            response = web.Response(status=500)
        answer = Answer(response.status, response.content_type, bytes(response.body or b""))
        return Exchange(Role(name, what_is_asked(request.url, request.sent or b"")), answer)

    def heard(self) -> dict[Role, Answer]:
        """What was served last in each role."""
        return {exchange.role: exchange.answer for exchange in self.served}


def what_is_asked(url: str, sent: bytes) -> str:
    """What a question is about: a contract's function, a method, or the kind of record."""
    if not sent:
        return _gateway_question(urlsplit(url).path)
    asked = json.loads(sent)
    if "params" not in asked:
        return _gateway_question(asked["data"])
    if asked["method"] != "eth_call":
        return str(asked["method"])
    data = bytes.fromhex(asked["params"][0]["data"][2:])
    function = FUNCTIONS.get(data[:4], "something else")
    return " ".join([function, *_asked_alone(function, data[4:])])


def _asked_alone(function: str, arguments: bytes) -> list[str]:
    """The one record that the Universal Resolver is asked for, or how many a ProxyReader, nothing
    where it is all of them; or that an address is the one under a coin's number."""
    try:
        if function == "resolve":
            calls = [decode(["bytes", "bytes"], arguments)[1]]
        elif function == "resolveCallback":  # the miniature's own extra data
            calls = list(decode(["string", "bytes[]"], decode(["bytes", "bytes"], arguments)[1])[1])
        elif function == "getData":
            keys = decode(["string[]", "uint256"], arguments)[0]
            return [] if len(keys) == 6 else [str(len(keys))]
        else:
            return ["by number"] if function == "addr" and len(arguments) > 32 else []
    except (DecodingError, OverflowError, UnicodeDecodeError):
        return []
    return (
        [FUNCTIONS[call[:4]] for call in calls if call[:4] in FUNCTIONS] if len(calls) == 1 else []
    )


def _gateway_question(text: str) -> str:
    """What a gateway is asked: the call data is the last thing that begins with 0x."""
    digits = text.rpartition("0x")[2][:8]
    try:
        return FUNCTIONS.get(bytes.fromhex(digits), "something else")
    except ValueError:
        return text
