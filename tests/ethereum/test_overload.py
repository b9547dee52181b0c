"""A node that could not be asked for want of a connection has not failed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from content_gateway.errors import Overloaded
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import ask, held, quorum_of, rpc_of
from tests.fakes.ethereum import Ethereum, running_ethereum
from tests.waiting import until


@pytest.fixture
async def narrow() -> AsyncIterator[HttpClient]:
    """A client with one connection a server, that waits for it only shortly."""
    async with HttpClient(limits=PoolLimits(per_server=1, seconds=0.05)) as outbound:
        yield outbound


async def test_no_node_is_blamed_for_our_queue(narrow: HttpClient) -> None:
    """Whoever waited in vain hears that we are overloaded; the node's breaker hears nothing."""
    async with running_ethereum() as node:
        rpc = rpc_of(narrow, Clock(), node)
        async with held(node):
            first = asyncio.create_task(ask(rpc))
            await until(lambda: node.requests)
            for _ in range(5):
                with pytest.raises(Overloaded):
                    await ask(rpc)
        await first
        assert await ask(rpc)


async def test_another_node_is_asked_instead(narrow: HttpClient, ethereum: Ethereum) -> None:
    """A call that gets no connection to a busy node goes to the next node."""
    async with running_ethereum() as busy:
        rpc = rpc_of(narrow, Clock(), busy, ethereum)
        async with held(busy):
            first = asyncio.create_task(ask(rpc))
            await until(lambda: busy.requests)
            assert await ask(rpc)
        await first


async def test_a_quorum_that_cannot_be_asked_is_our_overload(
    narrow: HttpClient, ethereum: Ethereum
) -> None:
    """It is Overloaded, not a lack of agreement."""
    async with running_ethereum() as other:
        quorum = quorum_of(narrow, Clock(), ethereum, other)
        assert await ask(quorum)
        async with held(ethereum):
            first = asyncio.create_task(ask(quorum))
            before = len(ethereum.requests)
            await until(lambda: len(ethereum.requests) > before)
            with pytest.raises(Overloaded):
                await ask(quorum)
        assert await first
        assert await ask(quorum)
