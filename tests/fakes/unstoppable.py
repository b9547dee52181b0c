"""A miniature node of one chain that Unstoppable Domains are on: `getData` from a dict of names.

Speaks JSON-RPC and encodes with eth-abi. Holds a ProxyReader and nothing else; every other
address has no code and answers `0x`."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from Crypto.Hash import keccak
from eth_abi.abi import decode, encode

from tests.fakes.miniature import Miniature, running

PROXY_READER = "0x" + "0d" * 20
NOBODY = "0x" + "00" * 20
GET_DATA = bytes.fromhex("91015f6b")  # getData(string[],uint256)


@dataclass(frozen=True)
class Name:
    """What a chain holds for one name: whose it is, and its records, text or raw bytes."""

    owner: str
    records: Mapping[str, str | bytes] = field(default_factory=dict)


class UnstoppableChain(Miniature):
    """The node. Change `names` at any time; the next block is now.

    `eth_calls` counts what was asked, whatever became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, Name] = {}
        self.eth_calls = 0

    def heard(self, body: bytes) -> None:
        self.eth_calls += b'"eth_call"' in body

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = json.loads(await request.read())
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if self.mood == "error" or asked["method"] != "eth_call":
            said["error"] = {"code": -32000, "message": "header not found"}
        elif self.mood == "limited":
            said["error"] = {"code": -32005, "message": "limit exceeded"}
        elif self.mood == "revert":
            said["error"] = {"code": 3, "message": "execution reverted", "data": "0x08c379a0"}
        else:
            said["result"] = "0x" + self._result(asked["params"][0]).hex()
        return web.json_response(said)

    def _result(self, call: dict[str, str]) -> bytes:
        data = bytes.fromhex(call["data"][2:])
        if self.mood == "empty" or call["to"].lower() != PROXY_READER:
            return b""
        if self.mood == "lie" or data[:4] != GET_DATA:
            return b"\xff" * 160
        keys, node = decode(["string[]", "uint256"], data[4:])
        name = next((held for text, held in self.names.items() if namehash(text) == node), None)
        if name is None:
            return returned(NOBODY, [b""] * len(keys))
        return returned(name.owner, [_bytes(name.records.get(key, "")) for key in keys])


def returned(owner: str, values: list[bytes]) -> bytes:
    """What `getData` returns; a `string` is encoded as `bytes` are, UTF-8 or not."""
    resolver = "0x" + "ab" * 20 if int(owner, 16) else NOBODY
    return encode(["address", "address", "bytes[]"], [resolver, owner, values])


def namehash(name: str) -> int:
    """EIP-137, read off the standard, as the number that UNS takes it for."""
    node = bytes(32)
    for label in reversed(name.split(".")):
        node = _keccak256(node + _keccak256(label.encode()))
    return int.from_bytes(node, "big")


def _keccak256(data: bytes) -> bytes:
    return bytes(keccak.new(digest_bits=256, data=data).digest())


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@asynccontextmanager
async def running_chain() -> AsyncIterator[UnstoppableChain]:
    """A chain's node that listens on loopback and knows no name yet."""
    async with running(UnstoppableChain()) as chain:
        yield chain
