"""Contracts that want something looked up off the chain, and a world in which to call them.

The chain is a function that reverts as a contract would; the gateways are real servers on
loopback. Encodes with eth-abi, none of it with our own codec."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from eth_abi.abi import decode, encode

from content_gateway.codecs.abi import Reverted
from content_gateway.ethereum.ccip import LOCAL_BATCH, CcipRead
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.ethereum import selector
from tests.fakes.gateway import Gateway, running_gateway

CONTRACT = "0x" + "Ab" * 20
OTHER = "0x" + "cd" * 20
CALL = b"call"
CALLBACK = b"back"
T = TypeVar("T")


def lookup(
    urls: Sequence[str], data: bytes, *, sender: str = CONTRACT, extra: bytes = b"extra"
) -> Reverted:
    """A contract's revert with OffchainLookup."""
    types = ["address", "string[]", "bytes", "bytes4", "bytes"]
    name = selector("OffchainLookup(address,string[],bytes,bytes4,bytes)")
    return Reverted(name + encode(types, [sender, urls, data, CALLBACK, extra]))


def query(*requests: tuple[Sequence[str], bytes]) -> bytes:
    """A call of the batch gateway, of whom it is asked for *requests*."""
    tuples = [(OTHER, urls, data) for urls, data in requests]
    types = ["(address,string[],bytes)[]"]
    return selector("query((address,string[],bytes)[])") + encode(types, [tuples])


def returned(data: bytes) -> tuple[bytes, bytes]:
    """The response and extra data with which the callback was called."""
    assert data[:4] == CALLBACK
    response, extra = decode(["bytes", "bytes"], data[4:])
    return response, extra


class Chain:
    """A chain with one contract, which is a function; it remembers how it was called."""

    def __init__(self, contract: Callable[[bytes], bytes]) -> None:
        self.contract = contract
        self.calls: list[bytes] = []

    async def call(self, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
        assert to == CONTRACT
        self.calls.append(data)
        return read(self.contract(data))


class World:
    """A gateway and the means to call contracts that name it."""

    def __init__(self, gateway: Gateway, other: Gateway, outbound: HttpClient) -> None:
        self.gateway, self.other = gateway, other
        self.gateways = OffchainGateways(outbound)
        self.chain = Chain(lambda _: b"")

    async def call(
        self,
        contract: Callable[[bytes], bytes],
        *,
        seconds: float = 5,
        read: Callable[[bytes], Any] = bytes,
    ) -> Any:
        """What a call of *contract* comes to in the end."""
        self.chain = Chain(contract)
        reader = CcipRead(self.chain, self.gateways, seconds=seconds)
        return await reader.call(CONTRACT, CALL, read)

    async def batch(self, *requests: tuple[Sequence[str], bytes], seconds: float = 5) -> Any:
        """What a contract is told that has a batch of *requests* looked up: failures, responses."""

        def contract(data: bytes) -> bytes:
            if data == CALL:
                raise lookup(["https://batch.example/{data}", LOCAL_BATCH], query(*requests))
            return returned(data)[0]

        answer = await self.call(contract, seconds=seconds)
        return decode(["bool[]", "bytes[]"], answer)


@asynccontextmanager
async def running_world() -> AsyncIterator[World]:
    """Two gateways that hold nothing yet, before a chain without a contract."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway())
        other = await stack.enter_async_context(running_gateway())
        guard = Guard(local_gateways=[gateway.url, other.url])
        yield World(gateway, other, await stack.enter_async_context(HttpClient(guard)))
