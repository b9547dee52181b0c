"""kill -9 at any moment: no acknowledged pin is lost, and no half of one is kept."""

import asyncio
import random
import sqlite3
from hashlib import sha256
from pathlib import Path

import aiohttp

from content_gateway.content.cid import RAW, Cid
from content_gateway.content.multiformats import SHA2_256
from tests.fakes.origin import running_origin
from tests.process import running
from tests.service import eventually

ROUNDS = 12
CLIENTS = 16


def content(number: int) -> tuple[Cid, bytes]:
    data = f"content {number}".encode()
    return Cid(RAW, SHA2_256, sha256(data).digest()), data


async def stream(url: str, numbers: asyncio.Queue[int], acknowledged: set[Cid]) -> None:
    """POST one pin after the other until the service is gone; note what it acknowledged."""
    async with aiohttp.ClientSession(headers={"x-api-key": "me"}) as session:
        try:
            while True:
                cid, _ = content(numbers.get_nowait())
                async with session.post(f"{url}/ipfs/pin/add/{cid}") as response:
                    if (await response.json())["message"] == "Pin added":
                        acknowledged.add(cid)
        except aiohttp.ClientError:
            return


def kept(data: Path) -> tuple[set[str], set[str]]:
    """The CIDs of all pins, and of all contents, in the ledger."""
    with sqlite3.connect(data / "ledger.sqlite") as ledger:
        pins = {cid for (cid,) in ledger.execute("SELECT cid FROM pins")}
        contents = {cid for (cid,) in ledger.execute("SELECT cid FROM contents")}
    return pins, contents


async def test_a_killed_service_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """Killed again and again during a stream of POSTs, it loses nothing, and pins all of it."""
    data = tmp_path / "data"
    numbers: asyncio.Queue[int] = asyncio.Queue()
    for number in range(100_000):
        numbers.put_nowait(number)
    acknowledged: set[Cid] = set()
    async with running_origin() as origin:
        origin.blocks.update(content(number) for number in range(20_000))
        gateways = {"CONTENT_GATEWAY_EMBEDDED__GATEWAYS": f'["{origin.url}"]'}
        for _ in range(ROUNDS):
            async with running("dev", data, gateways) as service:
                clients = [
                    asyncio.create_task(stream(service.url, numbers, acknowledged))
                    for _ in range(CLIENTS)
                ]
                await asyncio.sleep(random.uniform(0.05, 0.6))
                service.kill()
                await asyncio.gather(*clients)
            pins, contents = kept(data)
            assert {str(cid) for cid in acknowledged} <= pins
            assert pins == contents
        assert len(acknowledged) > ROUNDS * CLIENTS

        async def all_are_pinned() -> bool:
            marks = {path.name for path in (data / "pins").iterdir()}
            return {str(cid) for cid in acknowledged} <= marks

        async with running("dev", data, gateways):
            await eventually(all_are_pinned, seconds=90)


async def test_a_stop_cuts_off_no_request(tmp_path: Path) -> None:
    """SIGTERM during a stream of POSTs: every request that was begun is answered; exit status 0."""
    data = tmp_path / "data"
    answered: list[int] = []
    stopping = asyncio.Event()

    async def post(url: str, client: int) -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(
            connector=connector, headers={"x-api-key": "me"}
        ) as session:
            for number in range(10_000):
                cid, _ = content(client * 10_000 + number)
                try:
                    async with session.post(f"{url}/ipfs/pin/add/{cid}") as response:
                        await response.read()
                        answered.append(response.status)
                except aiohttp.ClientConnectorError:
                    assert stopping.is_set()
                    return

    async with running("dev", data) as service:
        clients = [asyncio.create_task(post(service.url, client)) for client in range(8)]
        await asyncio.sleep(0.5)
        stopping.set()
        assert await service.stop() == 0
        results = await asyncio.gather(*clients, return_exceptions=True)
    assert [result for result in results if result is not None] == []
    assert set(answered) == {200}
    assert len(kept(data)[0]) >= len(answered)
