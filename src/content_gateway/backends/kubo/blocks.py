"""Whether a Kubo has the blocks of what it has pinned, and how those that it lacks are brought in.

Kubo says that a content is pinned as long as the pin is in its index, whatever became of its
blocks. `refs` walks them: without the network it says what is missing, with it that is fetched, and
the pin stays where it is, which adding it again would not promise (docs/facts/pins.md, trap 2).
Knows `refs` and nothing of pins; who is checked when is left to kubo.py."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

from content_gateway.backends.kubo.answers import read_ref
from content_gateway.errors import UpstreamError, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import Download

Open = Callable[[str, float, float], AbstractAsyncContextManager[Download]]

MAX_LINE_BYTES: Final = 64 * 1024
_MOST_BLOCKS: Final = 10_000
_CHECK_SECONDS: Final = 20.0
_SAMPLE: Final = 50
_SAMPLE_SECONDS: Final = 60.0


class KuboBlocks:
    """The blocks of one node; *stream* sends a command to it, with its seconds in all and idle."""

    def __init__(self, stream: Open) -> None:
        self._stream = stream

    async def lack(self, cid: Cid) -> str | None:
        """Why not all of what is below *cid* is on the node's disk, as far as its first ten
        thousand blocks show; None where nothing lacks, or where the node could not say."""
        call = f"refs?arg={cid}&recursive=true&unique=true&offline=true"
        number = 0
        try:
            async with aclosing(self._refs(call, _CHECK_SECONDS)) as refs:
                async for error in refs:
                    number += 1
                    if error is not None or number == _MOST_BLOCKS:
                        return error
        except UpstreamError:
            return None
        return None

    async def bring_in(self, cid: Cid, progress: Callable[[int], None], seconds: float) -> None:
        """Fetch what lacks of what is below *cid*; *progress* is told the blocks that are there.

        That it ends says nothing: `lack` says whether all is there. Raises UpstreamError."""
        number = 0
        async with aclosing(
            self._refs(f"refs?arg={cid}&recursive=true&unique=true", seconds)
        ) as refs:
            async for error in refs:
                if error is not None:
                    return
                number += 1
                progress(number)

    async def _refs(self, call: str, seconds: float) -> AsyncGenerator[str | None, None]:
        """For each block that was read None, or what is wrong."""
        async with self._stream(call, seconds, seconds) as stream:
            if stream.status != 200:
                raise UpstreamUnavailable(f"Kubo answered {stream.status} to refs.")
            async for line in stream.lines(MAX_LINE_BYTES):
                yield read_ref(line)


class Sample:
    """Some of a listing, at random: about fifty of as many as the last one had, for a minute."""

    def __init__(self) -> None:
        self._size = 0
        self._left = 0
        self._number = 0
        self._end = 0.0

    def begin(self) -> None:
        """A listing begins."""
        self._size, self._number, self._left = self._number, 0, _SAMPLE
        self._end = asyncio.get_running_loop().time() + _SAMPLE_SECONDS

    def takes(self) -> bool:
        """Whether the next of the listing is one of them."""
        self._number += 1
        is_in = self._size <= _SAMPLE or secrets.randbelow(self._size) < _SAMPLE
        if not is_in or not self._left or asyncio.get_running_loop().time() > self._end:
            return False
        self._left -= 1
        return True
