"""A miniature origin: a trustless gateway, a delegated router and Kubo's routing, over two dicts.

Speaks ipfs/specs `trustless-gateway.md` (raw blocks and IPNS records), Delegated Routing V1
(IPNS only) and `routing/get` of Kubo's RPC API, as Kubo 0.42 does. Checks nothing of what it
serves: that is what its clients are for."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from content_gateway.content.cid import Cid
from content_gateway.errors import InvalidCid
from tests.fakes.miniature import PAGE, Miniature, running

RAW = "application/vnd.ipld.raw"
IPNS_RECORD = "application/vnd.ipfs.ipns-record"
NOT_FOUND = "routing: not found"  # Kubo's words, on its gateway and in its RPC API


class Origin(Miniature):
    """Holds blocks by CID and IPNS records by the canonical text of their name.

    Blocks in *corrupt* are served with one bit flipped."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[Cid, bytes] = {}
        self.records: dict[str, bytes] = {}
        self.corrupt: set[Cid] = set()

    def asked_for(self, cid: Cid) -> int:
        """How often the block was asked for."""
        return sum(request.startswith(f"/ipfs/{cid}?") for request in self.requests)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path.strip("/").split("/"):
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
        data = self.blocks.get(cid)
        if data is None:
            return web.Response(status=404)
        if cid in self.corrupt:
            data = bytes([data[0] ^ 1]) + data[1:] if data else b"\0"
        return web.Response(body=data, content_type=RAW)

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
