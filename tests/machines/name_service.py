"""A miniature node for Ethereum that knows every name, and counts who looks up which.

Each process asks it at a path of its own. What a look-up is made of is tests/fakes/ethereum.py's
business."""

import json
from collections import Counter

from aiohttp import web

from tests.fakes.ethereum import Ethereum, Name, Revert, arguments, dotted


class _AnyName(dict[str, Name]):
    """Every name is there, with a wallet."""

    def get(self, key: str, default: object = None) -> Name:
        return Name(address="0x" + "ab" * 20)


class CountingEthereum(Ethereum):
    """`lookups` counts by the path that is asked at, and by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names = _AnyName()
        self.lookups: Counter[tuple[str, str]] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = json.loads(await request.read())
        if asked["method"] == "eth_call":
            self._count(request.path, bytes.fromhex(asked["params"][0]["data"][2:]))
        # A run of many minutes needs none of it.
        for memory in (self.requests, self.calls, self.blocks):
            memory.clear()
        return await super().answer(request)

    def _count(self, path: str, data: bytes) -> None:
        try:
            wire, _ = arguments("resolve(bytes,bytes)", data)
        except Revert:
            return  # it asks something else
        self.lookups[path, dotted(wire)] += 1
