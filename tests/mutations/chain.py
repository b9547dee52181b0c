"""Miniatures with what the ordinary one lacks: off-chain names, and the chain of Basenames.

Encode with eth-abi, as those do. An off-chain name is *sealed* or not: a sealed one's contract
checks that a gateway's answer is the record asked for, as contracts in use check a signature; the
other believes its gateway, whatever that says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError

from tests.fakes.ethereum import (
    NOBODY,
    UNIVERSAL_RESOLVER,
    Ethereum,
    Revert,
    alone,
    arguments,
    keccak256,
    namehash,
    result_of,
    selector,
)
from tests.fakes.gateway import Gateway

LOCAL_BATCH: Final = "x-batch-gateway:true"
CALLBACK: Final = "resolveCallback(bytes,bytes)"
BASE_REGISTRY: Final = "0xB94704422c2a1E396835A571837Aa5AE53285a95"
BASE_RESOLVER: Final = "0x" + "b5" * 20
_SECRET: Final = b"of the gateway and the contract"


@dataclass(frozen=True)
class Offchain:
    """A name whose records are with the gateways at *urls*."""

    urls: tuple[str, ...]
    sealed: bool


class Chain(Ethereum):
    """Holds off-chain names besides what every Ethereum has."""

    def __init__(self) -> None:
        super().__init__()
        self.offchain: dict[str, Offchain] = {}

    def _result(self, asked: dict[str, Any]) -> bytes:
        if asked["method"] == "eth_call":
            call = asked["params"][0]
            data = bytes.fromhex(call["data"][2:])
            if call["to"].lower() == UNIVERSAL_RESOLVER.lower() and data[:4] == selector(CALLBACK):
                return self._called_back(data)
        return super()._result(asked)

    def _resolve(self, asked: Sequence[Any]) -> bytes:
        name = b".".join(_labels(asked[0])).decode()
        held = self.offchain.get(name)
        if held is None:
            return super()._resolve(asked)
        is_one = asked[1][:4] != selector("multicall(bytes[])")
        (calls,) = [[asked[1]]] if is_one else arguments("multicall(bytes[])", asked[1])
        resolver = "0x" + ("5e" if held.sealed else "cc") * 20
        requests = [(resolver, held.urls, call) for call in calls]
        query = "query((address,string[],bytes)[])"
        types = ["address", "string[]", "bytes", "bytes4", "bytes"]
        values = [
            UNIVERSAL_RESOLVER,
            [LOCAL_BATCH],
            selector(query) + encode(["(address,string[],bytes)[]"], [requests]),
            selector(CALLBACK),
            encode(["string", "bytes[]"], [name, calls]),
        ]
        raise Revert(
            selector("OffchainLookup(address,string[],bytes,bytes4,bytes)") + encode(types, values)
        )

    def _called_back(self, data: bytes) -> bytes:
        try:
            response, extra = arguments(CALLBACK, data)
            name, calls = decode(["string", "bytes[]"], extra)
            failures, responses = decode(["bool[]", "bytes[]"], response)
        except (DecodingError, OverflowError, UnicodeDecodeError) as wrong:
            raise Revert(b"") from wrong
        held = self.offchain.get(name)
        # What the client was told to bring back is what it must bring: half an answer is none.
        if (
            held is None
            or not 1 <= len(calls) <= 2
            or not (len(calls) == len(failures) == len(responses))
        ):
            raise Revert(b"")
        results = []
        for call, failed, answer in zip(calls, failures, responses, strict=True):
            results.append(opened(call, answer) if held.sealed and not failed else answer)
        if len(calls) == 1:
            return result_of(alone(results[0]))
        return result_of(encode(["bytes[]"], [results]))


def sealed(call: bytes, record: bytes) -> bytes:
    """What an honest gateway answers to *call* for a sealed name."""
    return keccak256(_SECRET + call + record) + record


def opened(call: bytes, answer: bytes) -> bytes:
    """The record in *answer*; Error(string) where it is not what was asked for."""
    seal, record = answer[:32], answer[32:]
    if seal != keccak256(_SECRET + call + record):
        return selector("Error(string)") + encode(["string"], ["the seal is broken"])
    return record


def give(gateway: Gateway, name: str, address: str, contenthash: bytes, *, seal: bool) -> None:
    """Let *gateway* hold the records of the off-chain *name*."""
    node = namehash(name)
    records = {
        selector("addr(bytes32)") + node: encode(["address"], [address]),
        selector("contenthash(bytes32)") + node: encode(["bytes"], [contenthash]),
    }
    for call, record in records.items():
        gateway.answers[call] = sealed(call, record) if seal else record


class Base(Ethereum):
    """The chain that Basenames are on: their registry, and one resolver."""

    def __init__(self) -> None:
        super().__init__()
        self.contracts[BASE_REGISTRY.lower()] = self._registered
        self.contracts[BASE_RESOLVER] = self._content

    def _registered(self, data: bytes) -> bytes:
        held = self._by_node(data[4:])
        account = held.owner if held else None
        if data[:4] == selector("resolver(bytes32)"):
            account = BASE_RESOLVER if held else None
        return encode(["address"], [account or NOBODY])

    def _content(self, data: bytes) -> bytes:
        held = self._by_node(data[4:])
        return encode(["bytes"], [(held.contenthash if held else None) or b""])


def _labels(wire: bytes) -> list[bytes]:
    labels, at = [], 0
    while at < len(wire) and wire[at]:
        labels.append(wire[at + 1 : at + 1 + wire[at]])
        at += 1 + wire[at]
    return labels
