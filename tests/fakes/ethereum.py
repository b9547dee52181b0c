"""A miniature Ethereum node: answers `eth_call` to the contracts of ENS from a dict of names.

Speaks JSON-RPC and encodes with eth-abi. Holds the Universal Resolver, the registry and the
NameWrapper at their mainnet addresses, and whatever contracts a test puts elsewhere; every other
address has no code and answers `0x`."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from Crypto.Hash import keccak
from eth_abi.abi import decode, encode

from tests.fakes.miniature import Miniature, running

UNIVERSAL_RESOLVER = "0xeEeEEEeE14D718C2B47D9923Deab1335E144EeEe"
REGISTRY = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e"
NAME_WRAPPER = "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401"
NOBODY = "0x" + "00" * 20
ENSIP_23 = bytes.fromhex("cd191b34")


@dataclass(frozen=True)
class Name:
    """What the chain holds for one name.

    A *wrapped* name belongs to the NameWrapper in the registry and to *owner* in the wrapper.
    *addresses* are those of other coins, by coin type, *texts* those of text records, by key: as
    `text` returns them, or else errors. *address_error* and *contenthash_error*
    stand in the multicall's result as they are: a revert's data, or nothing, as a resolver leaves
    it that has no such function or fails without a word. *address_alone* is what becomes of the
    address, record or error, where it is asked for alone. With *refusal* the Universal Resolver
    reverts, saying just that; with *multicall_refusal* only where it is asked for more than one.
    An old resolver *knows_coins* not at all."""

    address: str | None = None
    contenthash: bytes | None = None
    owner: str | None = None
    wrapped: bool = False
    address_error: bytes | None = None
    contenthash_error: bytes | None = None
    address_alone: bytes | None = None
    refusal: bytes | None = None
    multicall_refusal: bytes | None = None
    knows_coins: bool = True
    addresses: Mapping[int, bytes] = field(default_factory=dict)
    texts: Mapping[str, str | bytes] = field(default_factory=dict)


class Revert(Exception):
    """A contract refuses; *data* is what it says."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data.hex())
        self.data = data


class Ethereum(Miniature):
    """The node. Change `names` at any time: every block holds what is there now.

    *contracts* are functions of the call data, by lower-case address; they go before ENS's. Calls
    of those in *endless* are never answered."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, Name] = {}
        # By address and coin type: the name in its reverse record, or how `reverse` reverts.
        self.primary: dict[tuple[bytes, int], str | bytes] = {}
        self.contracts: dict[str, Callable[[bytes], bytes]] = {}
        self.endless: set[str] = set()
        self.block = 20_000_000
        self.blocks: list[str] = []  # the block of every eth_call, as it was sent
        self.calls: list[tuple[str, bytes]] = []  # (contract, data) of every eth_call
        self.is_of_today = True  # the Universal Resolver has the interface of ENSIP-23
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Take requests and answer none until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Answer whoever waits."""
        self._open.set()

    @property
    def eth_calls(self) -> int:
        """How many `eth_call` were asked, whatever became of them."""
        return len(self.calls)

    @property
    def posts(self) -> int:
        """How many HTTP requests came in."""
        return len(self.requests)

    def heard(self, body: bytes) -> None:
        asked = json.loads(body) if body else {}
        if asked.get("method") == "eth_call":
            call = asked["params"][0]
            self.calls.append((call["to"], bytes.fromhex(call["data"][2:])))
            self.blocks.append(asked["params"][1])

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = json.loads(await request.read())
        await self._open.wait()
        if asked["method"] == "eth_call" and asked["params"][0]["to"].lower() in self.endless:
            await asyncio.Event().wait()
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            if asked["method"] == "eth_blockNumber" and self.mood == "well":
                said["result"] = hex(self.block)
            else:
                said["result"] = "0x" + self._result(asked).hex()
        except Revert as revert:
            data = "0x" + revert.data.hex()
            said["error"] = {"code": 3, "message": "execution reverted", "data": data}
        except LookupError as unknown:
            code = -32005 if self.mood == "limited" else -32000
            said["error"] = {"code": code, "message": str(unknown)}
        return web.json_response(said)

    def _result(self, asked: dict[str, Any]) -> bytes:
        if self.mood == "empty":
            return b""
        if self.mood == "revert":
            raise Revert(selector("NobodyKnowsThis()"))
        if self.mood == "lie":
            return b"\xff" * 160
        if self.mood == "limited":
            raise LookupError("limit exceeded")
        if self.mood == "error":
            raise LookupError("header not found")
        if asked["method"] != "eth_call":
            raise LookupError("the method does not exist")
        call = asked["params"][0]
        to, data = call["to"].lower(), bytes.fromhex(call["data"][2:])
        if asked["params"][1] != "latest" and int(asked["params"][1], 16) > self.block:
            raise LookupError("header not found")
        if to in self.contracts:
            return self.contracts[to](data)
        if to == UNIVERSAL_RESOLVER.lower():
            if data[:4] == selector("supportsInterface(bytes4)"):
                return encode(["bool"], [self.is_of_today and data[4:8] == ENSIP_23])
            if data[:4] == selector("reverse(bytes,uint256)"):
                return self._reverse(*arguments("reverse(bytes,uint256)", data))
            return self._resolve(arguments("resolve(bytes,bytes)", data))
        if to == REGISTRY.lower():
            return self._owner(*arguments("owner(bytes32)", data))
        if to == NAME_WRAPPER.lower():
            return self._owner_of(*arguments("ownerOf(uint256)", data))
        return b""

    def _resolve(self, asked: Sequence[Any]) -> bytes:
        wire, data = asked
        text = dotted(wire)
        name = self.names.get(text)
        if name is None:
            raise Revert(selector("ResolverNotFound(bytes)") + encode(["bytes"], [wire]))
        if name.refusal is not None:
            raise Revert(name.refusal)
        if data[:4] != selector("multicall(bytes[])"):
            return result_of(self._alone(name, namehash(text), data))
        if name.multicall_refusal is not None:
            raise Revert(name.multicall_refusal)
        (calls,) = arguments("multicall(bytes[])", data)
        results = [self._record(name, namehash(text), call) for call in calls]
        return result_of(encode(["bytes[]"], [results]))

    def _reverse(self, address: bytes, coin: int) -> bytes:
        """ENSIP-19, in the order of ENS's own contract."""
        primary = self.primary.get((address, coin))
        if primary is None:
            raise Revert(selector("ResolverNotFound(bytes)") + encode(["bytes"], [b"\0"]))
        if isinstance(primary, bytes):
            raise Revert(primary)
        types, resolver = ["string", "address", "address"], "0x" + "ab" * 20
        if not primary:
            return encode(types, ["", NOBODY, resolver])
        if not all(0 < len(label.encode()) < 256 for label in primary.split(".")):
            raise Revert(selector("DNSEncodingFailed(string)") + encode(["string"], [primary]))
        name = self.names.get(primary)
        if name is None:
            raise Revert(selector("ResolverNotFound(bytes)") + encode(["bytes"], [b"\0"]))
        if name.refusal is not None:
            raise Revert(name.refusal)
        call = selector("addr(bytes32)") + namehash(primary)
        if coin != 60:
            call = selector("addr(bytes32,uint256)") + namehash(primary) + coin.to_bytes(32)
        (back,) = decode(
            ["address" if coin == 60 else "bytes"], self._alone(name, namehash(primary), call)
        )
        found = bytes.fromhex(back[2:]) if coin == 60 else back
        if found != address:
            mismatch = selector("ReverseAddressMismatch(string,bytes)")
            raise Revert(mismatch + encode(["string", "bytes"], [primary, found]))
        return encode(types, [primary, resolver, resolver])

    def _alone(self, name: Name, node: bytes, call: bytes) -> bytes:
        record = self._record(name, node, call)
        if name.address_alone is not None and call[:4] in ADDRESSES:
            record = name.address_alone
        return alone(record)

    def _record(self, name: Name, node: bytes, call: bytes) -> bytes:
        if call == selector("addr(bytes32)") + node:
            if name.address_error is not None:
                return name.address_error
            return encode(["address"], [name.address or NOBODY])
        if call == selector("contenthash(bytes32)") + node:
            if name.contenthash_error is not None:
                return name.contenthash_error
            return encode(["bytes"], [name.contenthash or b""])
        if call[:36] == selector("addr(bytes32,uint256)") + node:
            if not name.knows_coins:
                return b""
            return encode(["bytes"], [name.addresses.get(int.from_bytes(call[36:]), b"")])
        if call[:36] == selector("text(bytes32,string)") + node:
            text = name.texts.get(decode(["bytes32", "string"], call[4:])[1], "")
            return encode(["string"], [text]) if isinstance(text, str) else text
        unsupported = selector("UnsupportedResolverProfile(bytes4)")
        return unsupported + encode(["bytes4"], [call[:4]])

    def _owner(self, node: bytes) -> bytes:
        name = self._by_node(node)
        if name is not None and name.wrapped:
            return encode(["address"], [NAME_WRAPPER])
        return encode(["address"], [name.owner if name and name.owner else NOBODY])

    def _owner_of(self, token: int) -> bytes:
        name = self._by_node(token.to_bytes(32, "big"))
        owned = name is not None and name.wrapped and name.owner
        return encode(["address"], [name.owner if name and owned else NOBODY])

    def _by_node(self, node: bytes) -> Name | None:
        return next((name for text, name in self.names.items() if namehash(text) == node), None)


@asynccontextmanager
async def running_ethereum() -> AsyncIterator[Ethereum]:
    """A node that listens on loopback and knows no name yet."""
    async with running(Ethereum()) as ethereum:
        yield ethereum


def keccak256(data: bytes) -> bytes:
    """Ethereum's hash."""
    return bytes(keccak.new(digest_bits=256, data=data).digest())


def selector(signature: str) -> bytes:
    """The four bytes that name a function or an error."""
    return keccak256(signature.encode())[:4]


def arguments(signature: str, data: bytes) -> Sequence[Any]:
    """The arguments in *data*; reverts without a word when it calls another function."""
    if data[:4] != selector(signature):
        raise Revert(b"")
    types = signature.partition("(")[2].removesuffix(")").split(",")
    return decode(types, data[4:])


def namehash(name: str) -> bytes:
    """EIP-137, read off the standard."""
    node = bytes(32)
    for label in reversed(name.split(".") if name else []):
        node = keccak256(node + keccak256(label.encode()))
    return node


ADDRESSES = (selector("addr(bytes32)"), selector("addr(bytes32,uint256)"))
# What the Universal Resolver passes on as it is (ENSIP-23); the rest it calls a ResolverError.
UNWRAPPED = (selector("UnsupportedResolverProfile(bytes4)"), selector("HttpError(uint16,string)"))


def result_of(record: bytes) -> bytes:
    """What `resolve` returns: the record, or the multicall's, and who answered."""
    return encode(["bytes", "address"], [record, "0x" + "ab" * 20])


def alone(record: bytes) -> bytes:
    """The *record* that is asked for alone; where there is none, as the Universal Resolver
    reverts: an error of the resolver is wrapped."""
    if record and len(record) % 32 == 0:
        return record
    if record[:4] not in UNWRAPPED:
        record = selector("ResolverError(bytes)") + encode(["bytes"], [record])
    raise Revert(record)


def dotted(wire: bytes) -> str:
    """The name behind a DNS wire form; reverts as the Universal Resolver does."""
    labels, at = [], 0
    while at < len(wire) and wire[at]:
        labels.append(wire[at + 1 : at + 1 + wire[at]])
        at += 1 + wire[at]
    if at != len(wire) - 1:
        raise Revert(selector("DNSDecodingFailed(bytes)") + encode(["bytes"], [wire]))
    return b".".join(labels).decode()
