"""The blocks that are held here and nowhere else: what is not held is not found.

Knows that the denylist is asked about each, and that the disk is read in turn by requestor. Blocks
that others are asked for too are those of block_reader.py."""

from collections.abc import Callable

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import NotFound
from content_gateway.model.cid import Cid
from content_gateway.unixfs.block_reader import Check, HeldBlocks, allow


class LocalBlocks:
    """Blocks from *held*, each by a permit of *reads*."""

    def __init__(
        self,
        held: HeldBlocks,
        reads: FairSemaphore,
        checker: Callable[[], Check | None] = lambda: None,
    ) -> None:
        """*checker* gives what each block is asked about, by the list of the moment."""
        self._held = held
        self._reads = reads
        self._checker = checker

    def check(self) -> Check:
        """What raises Blocked for a block, by the list as it is now; in any thread."""
        return self._checker() or allow

    async def block(self, cid: Cid, requestor: str) -> bytes:
        """The verified bytes of the block *cid*, read in *requestor*'s turn.

        Raises Blocked, NotFound, Overloaded, StorageUnavailable."""
        self.check()(cid)
        if cid.hash_code == IDENTITY:
            return cid.digest
        async with self._reads.request(requestor):
            data = await self._held.block(cid)
        if data is None:
            raise NotFound(f"The block {cid} is not held here.")
        return data
