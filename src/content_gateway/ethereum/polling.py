"""A source of blocks that asks for them: `eth_getBlockByNumber`, once in each interval.

Knows JSON-RPC over HTTP, and the endpoints that names are looked up through; what a block means is
left to chain_listener.py."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamUnavailable
from content_gateway.ethereum.blocks import (
    BlockHeader,
    BlockLog,
    hex_hash,
    read_header,
    read_logs,
)
from content_gateway.ethereum.chain_listener import ChainListener
from content_gateway.ethereum.endpoint import Endpoint, encode, read_result

T = TypeVar("T")

_LATEST: Final = "latest"


class Polling:
    """One chain, asked through the first of *endpoints* that is well, every *interval* seconds, for
    new blocks and for the logs in them whose first topic is one of *topics*.

    It gives way to better sources after *spell* seconds."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        topics: Sequence[bytes],
        interval: float,
        spell: float = float("inf"),
    ) -> None:
        self.name = "rpc_urls"
        self._endpoints = tuple(endpoints)
        self._filter = {"topics": [list(map(hex_hash, topics))]}
        self._interval = interval
        self._spell = spell

    async def follow(self, listener: ChainListener) -> None:
        """Bring each new block to *listener*, until no endpoint answers; raises UpstreamError."""
        now = asyncio.get_running_loop().time
        end = now() + self._spell
        while now() < end:
            await listener.block(await self.header(None), self)
            listener.follows()
            await asyncio.sleep(self._interval)

    async def header(self, number: int | None) -> BlockHeader:
        """The block with that number, None: the newest one; raises UpstreamError."""
        which = _LATEST if number is None else hex(number)
        return await self._ask("eth_getBlockByNumber", [which, False], read_header)

    async def logs(self, block: bytes) -> list[BlockLog]:
        """The events in the block with this hash; raises UpstreamError."""
        return await self._logs({"blockHash": hex_hash(block)})

    async def logs_between(self, first: int, last: int) -> list[BlockLog]:
        """The events in these blocks, both included; raises UpstreamError."""
        return await self._logs({"fromBlock": hex(first), "toBlock": hex(last)})

    async def _logs(self, where: dict[str, Any]) -> list[BlockLog]:
        return await self._ask("eth_getLogs", [where | self._filter], read_logs)

    async def _ask(self, method: str, params: list[Any], read: Callable[[object], T]) -> T:
        """What *read* makes of the first good answer; raises the UpstreamError of the last node."""
        failure: UpstreamError = UpstreamUnavailable("No endpoint may be asked.")
        for endpoint in self._endpoints:
            # Whether a node is well is judged by look-ups alone: one may refuse to tell of logs,
            # and answer names as well as before.
            if endpoint.breaker.is_open:
                continue
            try:
                return understood_result(
                    await endpoint.ask(encode(method, *params), lambda: None), read
                )
            except UpstreamError as failed:
                failure = failed
        raise failure


def understood_result(body: bytes, read: Callable[[object], T]) -> T:
    """*read* of the result in a JSON-RPC answer; raises UpstreamError."""
    try:
        return read(read_result(body))
    except ValueError as wrong:
        raise InvalidUpstreamResponse(f"The answer cannot be read: {wrong}.") from wrong
