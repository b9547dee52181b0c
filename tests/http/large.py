"""Pins whose labels are as large as earlier versions took them, and how they are asked for."""

import asyncio

import aiohttp
import msgspec

from content_gateway.model.pins import Label
from content_gateway.pins.pinning import PinLedger
from tests.ledgers import cid

MIB = 1024 * 1024
# 4,096 control characters, each of them six times as long in JSON, and twenty long origins.
LARGE = Label(
    "\x01" * 255,
    tuple(f"/dns4/{number:0>2}{'a' * 1000}.example/tcp/1" for number in range(20)),
    {"meta": "\x02" * 4_092},
)


async def hold_large(ledger: PinLedger, requestor: str, number: int) -> None:
    """Let *requestor* hold so many pins with such labels; the last one is the newest."""
    for start in range(0, number, 200):
        part = range(start, min(start + 200, number))
        await asyncio.gather(*(ledger.add(requestor, cid(n), str(cid(n)), LARGE) for n in part))


async def sizes_of_lists(url: str, at_once: int) -> list[int]:
    """The sizes of pages of a thousand pins, so many asked for at once; 0 where one was refused."""
    headers = {"Authorization": "Bearer me"}
    query = "limit=1000&status=queued,pinning,pinned,failed"

    async def size(session: aiohttp.ClientSession) -> int:
        async with session.get(f"{url}/psa/pins?{query}", headers=headers) as response:
            assert response.status in (200, 503)
            length = 0
            async for piece in response.content.iter_any():
                length += len(piece)
            return length if response.status == 200 else 0

    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=timeout
    ) as session:
        return await asyncio.gather(*(size(session) for _ in range(at_once)))


def encoded(value: object) -> int:
    """How many bytes *value* has as JSON."""
    return len(msgspec.json.encode(value))
