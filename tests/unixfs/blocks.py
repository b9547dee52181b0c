"""Blocks for tests of the reader: those of a dict, each read counted, and none of them checked."""

import asyncio
from collections.abc import Callable, Mapping

from content_gateway.errors import Blocked, ContentUnavailable
from content_gateway.model.cid import Cid
from content_gateway.unixfs.reader import UnixFs, UnixFsEntry


class Blocks:
    """Gives *held* blocks; those in *blocked* are on the denylist. *most_at_once* were read."""

    def __init__(self, held: Mapping[Cid, bytes]) -> None:
        self.held = held
        self.blocked: set[Cid] = set()
        self.asked: list[Cid] = []
        self.at_once = self.most_at_once = 0

    def check(self) -> Callable[[Cid], None]:
        def check(cid: Cid) -> None:
            if cid in self.blocked:
                raise Blocked(f"The block {cid} is blocked by the operator.")

        return check

    async def block(self, cid: Cid, requestor: str) -> bytes:
        self.check()(cid)
        if cid.hash_code == 0:
            return cid.digest
        self.asked.append(cid)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if cid not in self.held:
                raise ContentUnavailable(f"The block {cid} is not here.")
            return self.held[cid]
        finally:
            self.at_once -= 1


async def read(files: UnixFs, entry: UnixFsEntry, start: int = 0, stop: int | None = None) -> bytes:
    """The bytes of *entry* from *start* to before *stop*, or its end."""
    pieces = files.read(entry, start, entry.size if stop is None else stop, "me")
    return b"".join([piece async for piece in pieces])
