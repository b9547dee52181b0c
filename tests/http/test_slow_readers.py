"""Clients that do not read what they asked for: nobody else waits, and little is kept for them.

In this process with its loop watched, and in one of its own whose memory is measured, the
kernel's part included; and on both event loops, what becomes of such a client."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path

import aiohttp
import pytest
import structlog

from content_gateway.api_keys import OpenKeys
from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.http.asgi import Api
from content_gateway.http.limits import ClientLimits
from content_gateway.http.messages import Handler, Request, Response, length_of
from content_gateway.http.openapi import Operation
from content_gateway.http.streams import LARGE_ANSWERS, large_answers
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.model.cid import RAW, Cid
from tests.fakes.origin import Origin
from tests.http.raw import LOOPS, Edge, eventually, get, running_edge
from tests.lag import MOST_LAG, loop_lag
from tests.process import running
from tests.service import running_service
from tests.waiting import eventually as becomes

READERS = 300
MEGABYTE = 2**20
BLOCK = os.urandom(MAX_BLOCK_BYTES)
CID = Cid(RAW, SHA2_256, sha256(BLOCK).digest())
SLOW = ClientLimits(idle=20, linger=0.1, drain=0.1, stop=2, slow_seconds=0.4, slow_rate=1_000_000)
BODY = bytes(4 * MEGABYTE)


def unread_answer(port: int, request: bytes) -> socket.socket:
    """A client that asks and does not read; its own kernel takes next to nothing for it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.settimeout(30)
    client.connect(("127.0.0.1", port))
    client.sendall(request)
    return client


def read_on(client: socket.socket) -> int:
    """Read until the server ends; how many bytes came."""
    received = 0
    while chunk := client.recv(65_536):
        received += len(chunk)
    return received


def kept_by_kernel(port: int) -> int:
    """Bytes that were sent from the sockets of *port* and are not read (proc(5), net/tcp)."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    return sum(
        int(queues.split(":")[0], 16)
        for _, local, _, _, queues, *_ in fields
        if int(local.split(":")[1], 16) == port
    )


async def asked(url: str, path: str) -> bytes:
    """What another client is told, from an address of its own."""
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.9", 0))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url + path) as response,
    ):
        assert response.status == 200
        return await response.read()


async def pinned(url: str) -> None:
    """Return once the service at *url* holds the block."""
    async with aiohttp.ClientSession(headers={"x-api-key": "me"}) as session:
        async with session.post(f"{url}/ipfs/pin/add/{CID}") as response:
            assert response.status == 200

        async def is_pinned() -> bool:
            async with session.get(f"{url}/ipfs/pin/status/{CID}") as response:
                return bool((await response.json())["result"]["status"] == "pinned")

        await becomes(is_pinned)


@asynccontextmanager
async def readers(url: str, number: int) -> AsyncIterator[None]:
    """So many clients that have asked for the block, as raw bytes and as a CAR by turns."""
    port = int(url.rsplit(":", 1)[1])
    with ExitStack() as stack:
        for index in range(number):
            form = "car" if index % 2 else "raw"
            request = get(f"/ipfs/{CID}?format={form}")
            stack.enter_context(unread_answer(port, request))
            await asyncio.sleep(0.002)
        yield


async def test_unread_answers_keep_nobody_waiting(tmp_path: Path, origin: Origin) -> None:
    origin.blocks[CID] = BLOCK
    async with running_service(
        tmp_path, embedded__gateways=[origin.url], embedded__serve=True
    ) as service:
        await pinned(service.url)
        async with loop_lag() as lag, readers(service.url, READERS):
            for _ in range(5):
                assert await asked(service.url, "/version")
        assert lag.worst < MOST_LAG
        async with readers(service.url, READERS):
            assert await asked(service.url, f"/ipfs/{CID}?format=raw") == BLOCK
            assert BLOCK in await asked(service.url, f"/ipfs/{CID}?format=car")


async def test_little_is_kept_for_who_does_not_read(tmp_path: Path, origin: Origin) -> None:
    """Megabytes in the kernel and in the process, where it was a gigabyte."""
    origin.blocks[CID] = BLOCK
    settings = {
        "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": f'["{origin.url}"]',
        "CONTENT_GATEWAY_EMBEDDED__SERVE": "true",
        "CONTENT_GATEWAY_KEYS__MODE": "open",
    }
    async with running("serve", tmp_path / "data", settings) as service:
        await pinned(service.url)
        port = int(service.url.rsplit(":", 1)[1])
        async with readers(service.url, 2 * READERS):
            kept = 0
            for _ in range(20):
                assert await asked(service.url, "/version")
                kept = max(kept, kept_by_kernel(port))
                await asyncio.sleep(0.05)
            assert await asked(service.url, f"/ipfs/{CID}?format=raw") == BLOCK
        status = Path(f"/proc/{service.child.pid}/status").read_text()
        resident = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024
    assert 0 < kept < 64 * MEGABYTE
    assert resident < 400 * MEGABYTE


async def whole(request: Request) -> Response:
    return Response(BODY, [(b"content-type", b"text/plain"), length_of(BODY)])


@pytest.fixture(params=LOOPS)
def edge(request: pytest.FixtureRequest) -> Iterator[Edge]:
    """A server of one large answer, which is quiet again in the end."""
    answers = large_answers()
    operations = [Operation("whole", "GET", "/whole", None)]
    api = Api(operations, {"whole": Handler(whole, None)}, OpenKeys(), answers=answers)
    with running_edge(request.param, SLOW, api) as edge:
        yield edge
        assert eventually(edge.is_quiet)
        assert answers.free == LARGE_ANSWERS


def test_a_large_answer_arrives_whole(edge: Edge) -> None:
    """In pieces for us, in one for its client; the connection stays. HTTP/1.0 gets it too."""
    with edge.connect() as wire:
        for _ in range(2):
            answer = wire.ask(get("/whole"))
            assert (answer.status, answer.body) == (200, BODY)
        assert wire.ask(b"GET /whole HTTP/1.0\r\n\r\n").body == BODY


@pytest.mark.parametrize("fields", [(), ("Connection: close",)])
def test_who_does_not_read_is_cut_off(edge: Edge, fields: tuple[str, ...]) -> None:
    """By a reset, with a line in the log; what was kept for it is gone."""
    with (
        structlog.testing.capture_logs() as logs,
        unread_answer(edge.port, get("/whole", *fields)) as client,
    ):
        assert eventually(lambda: not edge.is_quiet())
        assert eventually(edge.is_quiet)
        with pytest.raises(ConnectionResetError):
            read_on(client)
    assert {entry["event"] for entry in logs} == {"a slow reader was cut off"}
    assert logs[0]["address"] == "127.0.0.1"


def test_the_end_of_an_answer_is_not_kept_for_ever(edge: Edge) -> None:
    """A client that reads all but the last bytes is cut off like the others."""
    with (
        structlog.testing.capture_logs() as logs,
        unread_answer(edge.port, get("/whole", "Connection: close")) as client,
    ):
        assert eventually(lambda: not edge.is_quiet())
        left = len(BODY) - 200_000  # more than that is in its kernel and ours
        while left > 0:
            left -= len(client.recv(min(left, 65_536)))
        assert eventually(edge.is_quiet)
    assert {entry["event"] for entry in logs} == {"a slow reader was cut off"}


def test_who_reads_steadily_is_waited_for(edge: Edge) -> None:
    """Longer than the idle time-out: bytes that it takes extend its time."""
    with unread_answer(edge.port, get("/whole", "Connection: close")) as client:
        assert read_on(client) > len(BODY)


def test_small_answers_are_kept_by_the_kernel_alone(edge: Edge) -> None:
    """Many in a row that nobody reads: the next is made when the one before has gone out."""
    with unread_answer(edge.port, get("/nowhere") * 200) as client:
        made: Callable[[], int] = lambda: edge.server.server_state.total_requests  # noqa: E731
        assert eventually(lambda: made() > 10)
        assert kept_by_kernel(edge.port) < 256 * 1024
        client.close()
