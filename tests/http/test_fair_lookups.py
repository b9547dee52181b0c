"""Fair look-ups through the whole service, to a node that does not answer for some names."""

import asyncio
from pathlib import Path

import msgspec
from aiohttp import web

from tests.fakes.miniature import Miniature, running
from tests.service import running_service
from tests.waiting import eventually

FLOOD = 300  # more than the connections that one node had from us, and than one key's share
HANGING = b"hang".hex().encode()  # as it stands in the data of a call


class Node(Miniature):
    """An Ethereum node that never answers a call about a name with "hang" in it."""

    def __init__(self) -> None:
        super().__init__()
        self.hanging = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        if HANGING in body:
            self.hanging += 1
            await self._ending.wait()
        error = {"code": 3, "message": "execution reverted", "data": "0x77209fe8" + "0" * 64}
        request = msgspec.json.decode(body)
        return web.json_response({"jsonrpc": "2.0", "id": request["id"], "error": error})


async def test_a_flood_of_names_that_hang_leaves_room_for_another(tmp_path: Path) -> None:
    """One key's 300 names hold no connection that another's names need: 8 of 8 reach the node."""

    async def has_its_share() -> bool:
        return node.hanging >= 170

    async with (
        running(Node()) as node,
        running_service(
            tmp_path, ens__rpc_urls=[node.url], ens__timeout=40, names__deadline=60
        ) as service,
    ):
        flood = [
            asyncio.create_task(service.resolve(f"hang{number}.eth", key="hog"))
            for number in range(FLOOD)
        ]
        await eventually(has_its_share)
        for number in range(8):
            answer = await service.resolve(f"name{number}.eth", key="quiet")
            assert answer.status in (404, 502), answer.body  # the node's word, whatever it is
        assert not any(task.done() for task in flood)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        node.end()  # or the service waits for its look-ups when it stops


async def test_a_keys_own_limit_of_lookups_is_no_overload(tmp_path: Path) -> None:
    """As many run and wait as it may have at once, what is more is 429 at once, and nothing of it
    counts as an overload; another key's names are asked for."""

    async def both_hang() -> bool:
        return node.hanging == 2

    async with (
        running(Node()) as node,
        running_service(
            tmp_path,
            ens__rpc_urls=[node.url],
            ens__timeout=40,
            names__deadline=60,
            limits__lookups=2,
        ) as service,
    ):
        flood = [
            asyncio.create_task(service.resolve(f"hang{number}.eth", key="hog"))
            for number in range(9)
        ]
        refused, waiting = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < 5:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused |= more
        for task in refused:
            answer = task.result()
            assert (answer.status, answer.json["code"]) == (429, "too-many-at-once")
            assert answer.headers["retry-after"] == "1"
        await eventually(both_hang)
        assert service.gateway.traffic.problems == {"too-many-at-once": 5}
        assert (await service.resolve("name.eth", key="quiet")).status in (404, 502)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        node.end()
