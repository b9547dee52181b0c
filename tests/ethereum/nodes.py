"""What the tests of several nodes share: a call, nodes that are held back, and who still works."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import content_gateway
from content_gateway.codecs.abi import Reverted
from content_gateway.errors import UpstreamError
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.fakes.ethereum import REGISTRY, Ethereum, selector
from tests.waiting import until

ROOT_OWNER = selector("owner(bytes32)") + bytes(32)
LONG = 30.0  # a quarter of it is patience enough for the slowest machine


def rpc_of(
    outbound: HttpClient, clock: Clock, *nodes: Ethereum, seconds: float = LONG
) -> EthereumRpc:
    """The chain through *nodes*."""
    return EthereumRpc(outbound, [node.url for node in nodes], seconds=seconds, clock=clock)


def quorum_of(
    outbound: HttpClient, clock: Clock, *nodes: Ethereum, quorum: int = 2, seconds: float = LONG
) -> EthereumQuorum:
    """The chain through *nodes*, of which *quorum* must agree."""
    urls = [f"{node.url}/v3/s3cr3t-{number}" for number, node in enumerate(nodes)]
    return EthereumQuorum(outbound, urls, seconds=seconds, quorum=quorum, clock=clock)


async def ask(chain: EthereumRpc | EthereumQuorum) -> bytes:
    """One call that every node can answer."""
    return await chain.call(REGISTRY, ROOT_OWNER, bytes)


async def fails(rpc: EthereumRpc, times: int = 1) -> None:
    """So many calls in a row that nobody answers."""
    for _ in range(times):
        with pytest.raises(UpstreamError):
            await ask(rpc)


@asynccontextmanager
async def held(node: Ethereum) -> AsyncIterator[None]:
    """While this lasts *node* takes requests and answers none."""
    node.hold()
    try:
        yield
    finally:
        node.release()


async def until_asked(node: Ethereum, times: int) -> None:
    """Wait until *node* has been called so many times; fails when that takes too long."""
    await until(lambda: node.eth_calls >= times)


async def answered(call: Awaitable[Any]) -> str:
    """How *call* ends: with a result, a revert or a failure."""
    try:
        await call
    except Reverted:
        return "revert"
    except UpstreamError:
        return "failure"
    return "result"


def work_of_ours() -> list[str]:
    """The tasks of this loop whose code is the service's own."""
    (package,) = content_gateway.__path__
    return [
        task.get_name()
        for task in asyncio.all_tasks()
        if not task.done() and _file_of(task.get_coro()).startswith(package)
    ]


def _file_of(coroutine: Any) -> str:
    code = getattr(coroutine, "cr_code", None)
    return code.co_filename if code is not None else ""
