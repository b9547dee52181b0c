"""A miniature CCIP-Read gateway: answers a contract's questions from a dict of call data.

Speaks EIP-3668 over GET (`/{sender}/{data}`) and POST, with eth-abi for whole multicalls. Who may
ask, and whether an answer is good, is for the contract to know."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from eth_abi.abi import decode, encode

from tests.fakes.miniature import Miniature, running

MULTICALL = bytes.fromhex("ac9650d8")


@dataclass(frozen=True)
class Asked:
    """One request that the gateway understood."""

    method: str
    sender: str
    data: bytes


class Gateway(Miniature):
    """Holds `answers` by call data; what it does not hold is 404. With `says`, that is its body.

    What is in `refused` is answered with that status and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[bytes, bytes] = {}
        self.says: bytes | None = None
        self.refused: dict[bytes, int] = {}
        self.is_compressing = False  # with gzip, whatever was asked for
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self._at_once = 0

    @property
    def by_get(self) -> str:
        """The URL template for contracts that ask with GET."""
        return self.url + "/{sender}/{data}.json"

    @property
    def by_post(self) -> str:
        """The URL template for contracts that ask with POST."""
        return self.url + "/{sender}"

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await super().serve(request)
        finally:
            self._at_once -= 1

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        _, sender, *rest = request.path.removesuffix(".json").split("/")
        if request.method == "POST":
            body = json.loads(await request.read())
            assert body["sender"].lower() == sender.lower()  # EIP-3668 leaves it to the client
            assert request.content_type == "application/json"
            rest = [body["data"]]
        data = bytes.fromhex(rest[0].removeprefix("0x"))
        self.asked.append(Asked(request.method, sender, data))
        if data in self.refused:
            return web.Response(status=self.refused[data])
        if self.says is not None:
            return web.Response(body=self.says, content_type="application/json")
        response = self._response(data)
        if response is None:
            return web.json_response({"message": "I do not hold that."}, status=404)
        answer = web.json_response({"data": "0x" + response.hex()})
        if self.is_compressing:
            answer.enable_compression(web.ContentCoding.gzip)
        return answer

    def _response(self, data: bytes) -> bytes | None:
        if data[:4] != MULTICALL or data in self.answers:
            return self.answers.get(data)
        (calls,) = decode(["bytes[]"], data[4:])
        return encode(["bytes[]"], [[self.answers.get(call, b"") for call in calls]])


@asynccontextmanager
async def running_gateway() -> AsyncIterator[Gateway]:
    """A gateway that listens on loopback and holds nothing yet."""
    async with running(Gateway()) as gateway:
        yield gateway
