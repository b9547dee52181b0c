"""Blocks of content for whoever reads it now, from the trustless gateways that pins come from too.

Knows what the words of a pin mean to a reader: that no gateway has a block, that they are too slow
or busy to say. Which gateway is asked next is left to gateways.py, what a block is for to
unixfs/."""

from typing import Final

from content_gateway.backends.embedded.gateways import PeerScore, TrustlessGateways
from content_gateway.errors import (
    ContentUnavailable,
    PinDeferred,
    PinFailed,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ipld.block import refusal
from content_gateway.model.cid import Cid

_SCORED: Final = 10_000  # requests until the gateways begin again: one that failed may be mended


class GatewayBlocks:
    """The blocks that *gateways* give. They are asked in the order in which they served all."""

    def __init__(self, gateways: TrustlessGateways) -> None:
        self._gateways = gateways
        self._score = PeerScore()
        self._asked = 0

    async def block(self, cid: Cid) -> bytes:
        """The verified block *cid*.

        Raises ContentUnavailable when none of them has it, or nobody could verify it,
        UpstreamTimeout when they are too slow or busy to say, and UpstreamUnavailable."""
        reason = refusal(cid)
        if reason is not None:
            raise ContentUnavailable(f"The block {cid} cannot be read: {reason}.")
        self._asked += 1
        if self._asked % _SCORED == 0:
            self._score = PeerScore()
        try:
            return await self._gateways.block(cid, self._score)
        except PinFailed as nobody:
            raise ContentUnavailable(nobody.detail) from nobody
        except PinDeferred as late:
            raise UpstreamTimeout(late.detail) from late
        except UpstreamUnavailable as gone:
            raise UpstreamUnavailable(f"No gateway can be reached for the block {cid}.") from gone
