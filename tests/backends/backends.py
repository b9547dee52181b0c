"""Short calls that the tests of all pin backends share, and the ways in which a server can fail."""

import pytest

from content_gateway.errors import PinFailed
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.pins.backend import PinBackend
from tests.fakes.miniature import Mood

ABSENT = BackendStatus(TrackerStatus.ABSENT)
FAILED = BackendStatus(TrackerStatus.FAILED)
PEER = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
V0 = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"
OUTAGES: list[Mood] = [
    *("dark", "html", "huge", "garbage", "cut"),
    *("404", "429", "500", "503", "redirect"),
]


def origin(number: int) -> Multiaddr:
    return Multiaddr.parse(f"/ip4/8.8.8.{number}/tcp/4001/p2p/{PEER}")


def silent(blocks: int, size: int) -> None:
    """Progress that nobody watches."""


async def status_of(backend: PinBackend, cid: Cid) -> BackendStatus:
    """What a status check at *cid* shows."""
    return (await backend.status([cid]))[cid]


async def status(backend: PinBackend, cid: Cid) -> TrackerStatus:
    """Whether *cid* is pinned, as a status check shows it."""
    return (await status_of(backend, cid)).status


async def pin(backend: PinBackend, cid: Cid, seen: BackendStatus = ABSENT) -> BackendStatus:
    """What a pin of *cid* leads to."""
    return await backend.pin(cid, seen, silent)


async def refused(backend: PinBackend, cid: Cid) -> str:
    with pytest.raises(PinFailed) as failed:
        await pin(backend, cid)
    return failed.value.detail


async def pinset(backend: PinBackend) -> set[Cid]:
    return {listed.cid async for listed in backend.pinset()}
