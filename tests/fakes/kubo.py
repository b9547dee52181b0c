"""A miniature Kubo: the RPC calls about pins over real HTTP, and blocks it can or cannot find.

Answers in the words of Kubo 0.42 and has its trap: adding what is pinned already drops the pin
first, and loses it when the fetch fails. Which of its troubles happen is for the tests to say."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

from aiohttp import web

from content_gateway.ipld.links import links
from content_gateway.model.cid import Cid
from tests.fakes.miniature import Miniature, running

Trouble = Literal[
    "dies",  # the connection ends in the middle, without a word
    "silent",  # no more lines, and no end
    "error line",  # an error as one more line, as older nodes wrote it
    "trailer",  # a clean end, and the error in the trailer X-Stream-Error
    "garbage",  # a line that is no JSON
    "long line",  # a line without end
    "somebody else's",  # the last line names another CID
    "unsaid",  # it is pinned, and the connection ends before the last line
]
Pin = Literal["recursive", "direct"]
NAME = "12D3KooWMiniature"


class Kubo(Miniature):
    """Holds `pins` by the CID's text as Kubo spells it, and `blocks` that it keeps on its disk."""

    def __init__(self) -> None:
        super().__init__()
        self.findable: dict[Cid, bytes] = {}  # what somebody in the network has
        self.blocks: dict[Cid, bytes] = {}
        self.pins: dict[str, Pin] = {}
        self.patient: set[Cid] = set()  # blocks it waits for, rather than say that there are none
        self.pause = 0.0  # seconds between two blocks
        self.trouble: Trouble | None = None  # of the next pin/add, in the middle
        self.last_words = ""  # its message for what is no good
        self.lists: bytes | None = None  # the answer to pin/ls of everything, if not the truth
        self.broken: dict[str, str] = {}  # its error when asked about a CID
        self.addresses: list[str] = []  # its own
        self.nodes: dict[str, dict[Cid, bytes]] = {}  # what others have, once they are connected to
        self.silent_nodes: set[str] = set()
        self.refuses: dict[str, tuple[int, bytes]] = {}  # by command
        self.fetching: set[Cid] = set()
        self.most_at_once = 0
        self._at_once = 0
        self.found = asyncio.Event()  # set whenever a block has come in

    def pin(self, cid: Cid, kind: Pin = "recursive") -> None:
        """Hold *cid* pinned, as its owner would from the command line."""
        self.pins[str(cid)] = kind

    def asked(self, command: str) -> int:
        """How often *command* was asked."""
        return sum(path.partition("?")[0] == f"/api/v0/{command}" for path in self.requests)

    def kept(self) -> set[Cid]:
        """The blocks that would be there after a garbage collection."""
        kept: set[Cid] = set()
        left = [Cid.parse(text) for text, kind in self.pins.items() if kind == "recursive"]
        while left:
            cid = left.pop()
            if cid not in kept and cid in self.blocks:
                kept.add(cid)
                left += links(cid, self.blocks[cid])
        return kept | {Cid.parse(text) for text, kind in self.pins.items() if kind == "direct"}

    def collect_garbage(self) -> None:
        """Drop every block that no pin keeps."""
        kept = self.kept()
        self.blocks = {cid: data for cid, data in self.blocks.items() if cid in kept}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._answer(request)
        finally:
            self._at_once -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        command = request.path.removeprefix("/api/v0/")
        if request.method != "POST":
            return web.Response(status=405, text="405 - Method Not Allowed\n")
        if command in self.refuses:
            status, body = self.refuses[command]
            return web.Response(status=status, body=body)
        if command == "id":
            known = {"ID": NAME, "Addresses": self.addresses or None, "AgentVersion": "kubo/0.42.0"}
            return web.json_response(known)
        argument = request.query.get("arg")
        if command == "swarm/connect":
            return await self._connect(str(argument))
        if command == "pin/ls":
            assert request.query["type"] == "recursive"
            return self._list(argument)
        assert argument is not None
        cid = Cid.parse(argument)
        if command == "pin/rm":
            if self.pins.pop(argument, None) is None:
                return _error("not pinned or pinned indirectly")
            return web.json_response({"Pins": [argument]})
        if command == "refs":
            return self._refs(cid, is_offline="offline" in request.query)
        if command == "pin/add":
            assert request.query["recursive"] == request.query["progress"] == "true"
            return await self._add(request, argument, cid)
        return web.Response(status=404, text="404 page not found\n")

    async def _connect(self, address: str) -> web.Response:
        if address in self.silent_nodes:
            await self._ending.wait()
        if address not in self.nodes:
            return _error("connect 12D3KooW failure: failed to dial: all dials failed")
        self.findable |= self.nodes[address]
        return web.json_response({"Strings": ["connect 12D3KooW success"]})

    def _list(self, argument: str | None) -> web.Response:
        if argument is not None:
            if argument in self.broken:
                return _error(self.broken[argument])
            if self.pins.get(argument) != "recursive":
                return _error(f"path '{argument}' is not pinned")
            return web.json_response(_keys([argument]))
        if self.lists is not None:
            return web.Response(body=self.lists, content_type="application/json")
        pins = sorted(text for text, kind in self.pins.items() if kind == "recursive")
        return web.Response(body=_line(_keys(pins)), content_type="application/json")

    def _refs(self, root: Cid, *, is_offline: bool) -> web.Response:
        """What is below *root*, a line each, or what is missing; with the network that is fetched.

        Nothing is said of the pin, and nothing happens to it."""
        left, met, lines = [root], {root}, []
        while left:
            cid = left.pop()
            data = self.blocks.get(cid, None if is_offline else self.findable.get(cid))
            if data is None:
                error = f"block was not found locally (offline): ipld: could not find {cid}"
                return web.Response(body=_line({"Ref": "", "Err": error}))
            self.blocks[cid] = data
            new = [link for link in links(cid, data) if link not in met]
            lines += [_line({"Ref": str(link), "Err": ""}) for link in new]
            met.update(new)
            left += new
        return web.Response(body=b"".join(lines))

    async def _add(self, request: web.BaseRequest, text: str, cid: Cid) -> web.StreamResponse:
        if self.pins.get(text) == "recursive":
            del self.pins[text]  # the trap
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.force_close()  # a trailer is written by hand, and then the server hangs up
        self.fetching.add(cid)
        try:
            blocks = size = 0
            async for data in self._fetch(cid):
                blocks, size = blocks + (data is not None), size + len(data or b"")
                if not response.prepared:
                    await response.prepare(request)
                await response.write(_line(_progress(blocks, size)))
                if self.trouble and blocks:
                    return await self._fail(request, response, text)
        except LookupError as wrong:
            if not response.prepared:
                return _error(f"pin: {wrong.args[0]}")
            return self._trailer(request, str(wrong.args[0]))
        finally:
            self.fetching.discard(cid)
        self.pins[text] = "recursive"
        await response.write(_line({"Pins": [text]}))
        return response

    async def _fetch(self, root: Cid) -> AsyncIterator[bytes | None]:
        """The blocks of a DAG, which are then on the disk; None twice a second while it waits.

        LookupError when there is no such block, or none that its CID describes."""
        left, met = [root], {root}
        while left:
            cid = left.pop()
            while cid not in self.blocks and cid not in self.findable and cid in self.patient:
                yield None
                await asyncio.sleep(0.05)  # 0.5 in life
            data = self.blocks.get(cid, self.findable.get(cid))
            if data is None:
                raise LookupError(
                    f"block was not found locally (offline): ipld: could not find {cid}"
                )
            try:
                new = [link for link in links(cid, data) if link not in met]
            except ValueError:
                raise LookupError(
                    "protobuf: (PBNode) invalid fieldNumber, expected 1 or 2, got 14"
                ) from None
            self.blocks[cid] = data
            self.found.set()
            met.update(new)
            left += new
            await asyncio.sleep(self.pause)
            yield data

    async def _fail(
        self, request: web.BaseRequest, response: web.StreamResponse, text: str
    ) -> web.StreamResponse:
        trouble, self.trouble = self.trouble, None
        if trouble == "unsaid":
            self.pins[text] = "recursive"
        if trouble in ("dies", "unsaid"):
            return self._drop(request, b"")
        if trouble == "trailer":
            return self._trailer(request, self.last_words)
        if trouble == "silent":
            await self._ending.wait()
            return self._drop(request, b"")
        if trouble == "long line":
            with suppress(ConnectionError):
                for _ in range(100):
                    await response.write(b"x" * 100_000)
            return self._drop(request, b"")
        error = {"Message": self.last_words, "Code": 0, "Type": "error"}
        other = {"Pins": ["bafkqablimvwgy3y"]}
        words = {
            "error line": _line(error),
            "garbage": b"<html>\n",
            "somebody else's": _line(other),
        }
        await response.write(words[trouble or ""])
        return response

    def _trailer(self, request: web.BaseRequest, message: str) -> web.Response:
        """The end of a stream as Go writes it: the last chunk, then the trailer."""
        if request.transport is not None:
            request.transport.write(f"0\r\nX-Stream-Error: {message}\r\n\r\n".encode())
            request.transport.close()
        return web.Response()


def _progress(blocks: int, size: int) -> dict[str, int]:
    """What Go leaves of zeros: nothing."""
    return {key: number for key, number in (("Progress", blocks), ("Bytes", size)) if number}


def _keys(pins: list[str]) -> dict[str, Any]:
    keys = {text: {"Type": "recursive", "Name": ""} for text in pins}
    return {"Keys": keys} if keys else {}


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _error(message: str) -> web.Response:
    return web.json_response({"Message": message, "Code": 0, "Type": "error"}, status=500)


@asynccontextmanager
async def running_kubo() -> AsyncIterator[Kubo]:
    """A node on loopback that holds nothing yet."""
    async with running(Kubo()) as kubo:
        yield kubo
