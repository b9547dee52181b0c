"""Retrieval: one block from the first trustless gateway that gives the right bytes.

Knows the trustless gateway's raw form (ipfs/specs `trustless-gateway.md`) and that no gateway
is believed: bytes count only if they hash to the CID. Which blocks are needed, and where they
are kept, is the store's business."""

from collections.abc import Sequence
from typing import Final

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.multiformats import HASHES, IDENTITY, digest_of
from content_gateway.errors import PinFailed, UpstreamError, UpstreamUnavailable
from content_gateway.ipfs.embedded.blockstore import MAX_BLOCK_BYTES, is_block_of
from content_gateway.outbound import Outbound, host_of

MEDIA_TYPE: Final = "application/vnd.ipld.raw"

log = structlog.get_logger(__name__)


class Retrieval:
    """The configured gateways, in order; *seconds* bounds one block from one of them."""

    def __init__(self, outbound: Outbound, gateways: Sequence[str], *, seconds: float) -> None:
        self._outbound = outbound
        # Named by host in what is said and logged: the rest of an address may be secret.
        self._gateways = {gateway.rstrip("/"): host_of(gateway) for gateway in gateways}
        self._seconds = seconds

    async def fetch(self, cid: Cid) -> bytes:
        """The verified bytes of the block *cid*.

        Raises PinFailed when gateways answered and none had it, UpstreamUnavailable when none
        could be asked."""
        if cid.hash_code == IDENTITY:
            return cid.digest
        if digest_of(cid.hash_code, b"") is None:
            raise PinFailed(
                f"Blocks hashed with {HASHES[cid.hash_code][0]} cannot be verified here."
            )
        reasons, answered = [], False
        for gateway, host in self._gateways.items():
            try:
                found = await self._ask(gateway, cid)
            except UpstreamError as failed:
                reasons.append(f"{host}: {failed.detail}")
                continue
            answered = True
            if isinstance(found, bytes):
                return found
            reasons.append(f"{host}: {found}")
        detail = f"No gateway gave the block {cid}. " + " ".join(reasons)
        raise PinFailed(detail) if answered else UpstreamUnavailable(detail)

    async def _ask(self, gateway: str, cid: Cid) -> bytes | str:
        """The block from one gateway, or why it did not give it; raises UpstreamError."""
        answer = await self._outbound.ask(
            "GET",
            f"{gateway}/ipfs/{cid}?format=raw",
            seconds=self._seconds,
            max_bytes=MAX_BLOCK_BYTES,
            headers={"Accept": MEDIA_TYPE},
        )
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"It answered {answer.status}.")
        if answer.status != 200:
            return f"It answered {answer.status}."
        if not is_block_of(cid, answer.body):
            log.warning("a gateway served wrong bytes", gateway=host_of(gateway), cid=str(cid))
            return "It served wrong bytes."
        return answer.body
