"""A miniature origin: a trustless gateway, a delegated router and Kubo's routing, over two dicts.

Speaks ipfs/specs `trustless-gateway.md` (raw blocks, CARs and IPNS records), Delegated Routing V1
(IPNS only) and `routing/get` of Kubo's RPC API, as Kubo 0.42 does. Checks nothing of what it
serves: that is what its clients are for."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from aiohttp import web

from content_gateway.errors import InvalidCid
from content_gateway.ipld import car
from content_gateway.ipld.links import links
from content_gateway.model.cid import Cid
from tests.fakes.miniature import PAGE, Miniature, running

RAW = "application/vnd.ipld.raw"
IPNS_RECORD = "application/vnd.ipfs.ipns-record"
NOT_FOUND = "routing: not found"  # Kubo's words, on its gateway and in its RPC API


class Origin(Miniature):
    """Holds blocks by CID and IPNS records by the canonical text of their name.

    Blocks in *corrupt* are served with one bit flipped, those in *hidden* not at all. While *cars*
    is off it knows raw blocks only. A CAR ends with the connection after *cut_after* blocks; with
    *backwards* children come before their parents; *litter* is sent in front of what was asked
    for, and *pause* seconds pass between two blocks. With a *rate* it answers so many requests a
    second, and *burst* at once; others get 429 with *retry_after*, where there is one. With
    *files_only* it serves what it was told to as a path gateway does: a page or 406 for blocks. The
    *quick_cars* of a DAG are its blocks in the order in which they were put here, root first."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[Cid, bytes] = {}
        self.records: dict[str, bytes] = {}
        self.corrupt: set[Cid] = set()
        self.hidden: set[Cid] = set()
        self.cars = True
        self.cut_after: int | None = None
        self.backwards = False
        self.litter: list[bytes] = []
        self.pause = 0.0
        self.car_blocks = 0  # sent in CARs so far
        self.rate: float | None = None
        self.burst = 1.0
        self.retry_after: str | None = "1"
        self.refused = 0
        self.quick_cars = False
        self.files_only: int | None = None  # the status of its answers
        self._tokens = (0.0, 0.0)  # how many there were, and when

    def asked_for(self, cid: Cid) -> int:
        """How often the block was asked for."""
        return sum(request.startswith(f"/ipfs/{cid}?") for request in self.requests)

    def asked_for_blocks(self) -> int:
        """How many raw blocks were asked for."""
        return sum("format=raw" in request for request in self.requests)

    def asked_for_cars(self) -> int:
        """How many CARs were asked for."""
        return sum("format=car" in request for request in self.requests)

    def _is_refused(self) -> bool:
        """Whether this request is one too many, by a token bucket as proxies have it."""
        if self.rate is None:
            return False
        now, (left, since) = time.monotonic(), self._tokens
        left = min(self.burst, left + (now - since) * self.rate)
        self._tokens = (left - 1 if left >= 1 else left), now
        return left < 1

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._is_refused():
            self.refused += 1
            fields = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return web.Response(status=429, headers=fields)
        if self.files_only is not None:
            return web.Response(body=PAGE, content_type="text/html", status=self.files_only)
        match request.path.strip("/").split("/"):
            case ["ipfs", cid] if request.query.get("format") == "car":
                return await self._car(request, cid)
            case ["ipfs", cid]:
                return self._block(request, cid)
            case ["routing", "v1", "ipns", name]:
                return self._record(request, name, absent=web.Response(status=404))
            case ["ipns", name] if request.query.get("format") == "ipns-record":
                return self._record(request, name, absent=web.Response(status=500, text=NOT_FOUND))
            case ["ipns", _]:
                return web.Response(body=PAGE, content_type="text/html")
            case ["api", "v0", "routing", "get"] if request.method == "POST":
                return self._event(request.query.get("arg", ""))
        return web.Response(status=404)

    def _block(self, request: web.BaseRequest, text: str) -> web.Response:
        if request.query.get("format") != "raw" and request.headers.get("Accept") != RAW:
            return web.Response(body=PAGE, content_type="text/html")
        try:
            cid = Cid.parse(text)
        except InvalidCid:
            return web.Response(status=400)
        data = self._served(cid)
        if data is None:
            return web.Response(status=404)
        return web.Response(body=data, content_type=RAW)

    def _served(self, cid: Cid) -> bytes | None:
        data = None if cid in self.hidden else self.blocks.get(cid)
        if data is not None and cid in self.corrupt:
            return bytes([data[0] ^ 1]) + data[1:] if data else b"\0"
        return data

    async def _car(self, request: web.BaseRequest, text: str) -> web.StreamResponse:
        if not self.cars:
            return web.Response(status=406)
        root = Cid.parse(text)
        if self._served(root) is None:
            return web.Response(status=404)
        response = web.StreamResponse(headers={"Content-Type": f"{car.MEDIA_TYPE}; version=1"})
        await response.prepare(request)
        await response.write(car.header(root))
        for section in self.litter:
            await response.write(section)
        cids = list(self._below(root))
        for number, cid in enumerate(reversed(cids) if self.backwards else cids):
            data = self._served(cid)
            if data is None or number == self.cut_after:
                return self._drop(request, b"")
            await response.write(car.section(cid, data))
            self.car_blocks += 1
            await asyncio.sleep(self.pause)
        return response

    def _below(self, root: Cid) -> Iterator[Cid]:
        """Every CID below *root*, depth first, each once; inside of CIDs there is nothing."""
        if self.quick_cars:
            yield root
            yield from (cid for cid in self.blocks if cid != root)
            return
        ahead, seen = [root], set[Cid]()
        while ahead:
            cid = ahead.pop()
            if cid in seen:
                continue
            seen.add(cid)
            if cid.hash_code == 0:
                ahead += reversed(links(cid, cid.digest))
                continue
            yield cid
            if cid in self.blocks and cid not in self.hidden:
                ahead += reversed(links(cid, self.blocks[cid]))

    def _record(self, request: web.BaseRequest, name: str, *, absent: web.Response) -> web.Response:
        if request.headers.get("Accept") != IPNS_RECORD:
            return web.Response(status=406)
        data = self.records.get(name)
        if data is None:
            return absent
        return web.Response(body=data, content_type=IPNS_RECORD)

    def _event(self, key: str) -> web.Response:
        data = self.records.get(key.removeprefix("/ipns/"))
        if data is None:
            error = {"Message": NOT_FOUND, "Code": 0, "Type": "error"}
            return web.json_response(error, status=500)
        extra = b64encode(data).decode()
        return web.json_response({"ID": "", "Type": 5, "Responses": None, "Extra": extra})


@asynccontextmanager
async def running_origin() -> AsyncIterator[Origin]:
    """An origin that listens on loopback and holds nothing yet."""
    async with running(Origin()) as origin:
        yield origin
