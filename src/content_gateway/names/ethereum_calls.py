"""Calls of contracts on one chain: the port of every name service that is kept on one.

Knows what a call returns and how it fails. Nodes, their agreement and what contracts keep off the
chain are left to `ethereum/`, contracts to the name services."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class EthereumCalls(Protocol):
    """Reads of one chain."""

    async def call(self, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
        """What *read* makes of the contract's answer, which is never empty.

        *read* raises ValueError for what cannot be right: then another endpoint is asked. Raises
        Reverted when the contract refuses, UpstreamError when nobody gave a good answer."""
