"""A listener on one chain: tells in which names something has changed, block by block.

Theory of operation. A source (subscription.py, polling.py) brings the newest block, and logs where
the node pushes those. A block upon the last one costs nothing where its logs are pushed with it,
else one `eth_getLogs` for that block, by its hash. It names the events and no names: the node's
answer has the few events of all names, which are matched here, so that ten thousand names cost what
one does. Blocks that were missed, up to 64, cost one `eth_getLogs` for all of them.

A block upon an older one orphans what was above that, and one whose parent is not known may orphan
all that is remembered: names that changed there are told again, as are those that a node takes
back. What is told only ever has names looked up again, so that too much is harmless, and whoever
lies can do no more. After a longer gap everything is forgotten: names keep their clocks, as they do
while no source can be heard, which is then tried again, or the next one, with backoff. Of the first
block the 64 before it are asked for, once: answers that outlived a restart may be older than they.

Knows blocks and their order; which events there are, and what is done about a change, is left to
whoever starts it."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol

import structlog

from content_gateway.errors import InvalidUpstreamResponse, Overloaded, UpstreamError
from content_gateway.ethereum.blocks import MOST_LOGS, BlockHeader, BlockLog
from content_gateway.ethereum.endpoint import NodeRefused
from content_gateway.ethereum.recent_blocks import MOST_BLOCKS, Place, RecentBlocks

_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 30.0

log = structlog.get_logger(__name__)


class ChainReader(Protocol):
    """A node that is heard. Each raises UpstreamError."""

    async def header(self, number: int | None) -> BlockHeader:
        """The block with that number; None: the newest one."""

    async def logs(self, block: bytes) -> list[BlockLog]:
        """The events in the block with this hash."""

    async def logs_between(self, first: int, last: int) -> list[BlockLog]:
        """The events in these blocks, both included."""


class BlockSource(Protocol):
    """Where blocks come from."""

    @property
    def name(self) -> str:
        """What it is called in the log."""

    async def follow(self, listener: "ChainListener") -> None:
        """Bring each new block to *listener*, until that fails, or somebody else is to try.

        Raises UpstreamError and Overloaded."""


class ChainListener:
    """Listens to the chain *kind* through the first of *sources* that works; owns its task.

    *node_of* the topics of a log is the name's node that it is about, and *heard* gets the number
    of a block and the nodes that changed in it, or that may have been changed back."""

    def __init__(
        self,
        kind: str,
        sources: Sequence[BlockSource],
        *,
        node_of: Callable[[Sequence[bytes]], bytes | None],
        heard: Callable[[int, list[bytes]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.is_up = False
        self.events: Counter[str] = Counter()  # blocks, changes, reorganisations, missed, failed
        self.heard_at: float | None = None  # when the last new block was
        self._sources = tuple(sources)
        self._node_of = node_of
        self._heard = heard
        self._clock = clock
        self._recent = RecentBlocks()
        self._pushed = 0  # logs since the last block
        self._wants_past = True
        self._task: asyncio.Task[None] | None = None

    @property
    def is_started(self) -> bool:
        """Whether it is to listen in this process."""
        return self._task is not None

    def start(self) -> None:
        """Begin to listen, in the background; once."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"listen to {self.kind}")

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def silent_seconds(self) -> float | None:
        """Since when no new block was heard of; None where none ever was."""
        return None if self.heard_at is None else self._clock() - self.heard_at

    def follows(self) -> None:
        """The source works."""
        if not self.is_up:
            log.info("a chain is listened to", chain=self.kind)
        self.is_up = True

    def pushed(self, told: BlockLog) -> None:
        """Take a log that a node has sent; raises InvalidUpstreamResponse for a flood of them."""
        self._pushed += 1
        if self._pushed > MOST_LOGS:
            raise InvalidUpstreamResponse(f"More than {MOST_LOGS} logs came without a block.")
        node = self._node_of(told.topics)
        if node is not None and told.is_removed:
            self._recent.unnote(told.block, node)
            self._tell(told.number, [node])
        elif node is not None:
            self._note(told.number, [told])

    async def block(
        self, block: BlockHeader, reader: ChainReader, *, pushes_logs: bool = False
    ) -> None:
        """Take a block that a node says is its newest; raises UpstreamError.

        With *pushes_logs* its logs come by themselves. Where it raises, nothing of that block is
        taken: it is heard of again."""
        place = self._recent.place(block)
        if place is Place.KNOWN:
            return
        if place in (Place.FIRST, Place.FAR):
            await self._begin_at(block, reader)
        elif place in (Place.NEXT, Place.BRANCH):
            logs = [] if pushes_logs else await self._logs(block, reader.logs(block.hash))
            if place is Place.BRANCH:
                self._orphan(block, self._recent.cut(block.parent))
            self._note(block.number, logs)
        else:
            await self._catch_up(block, place, reader)
        self._recent.add(block)
        self._pushed = 0
        self.events["blocks"] += 1
        self.heard_at = self._clock()

    async def _begin_at(self, block: BlockHeader, reader: ChainReader) -> None:
        last = self._recent.last
        if last is not None:
            self._miss(block, f"the last one was {last.number}")
        self._recent.forget()
        if self._wants_past:
            self._wants_past = False
            first = max(0, block.number - MOST_BLOCKS + 1)
            self._note(block.number, await self._logs_since(first, block, reader))

    async def _catch_up(self, block: BlockHeader, place: Place, reader: ChainReader) -> None:
        """Take the blocks below *block* that are not known, with it; raises UpstreamError."""
        first, last = self._recent.first, self._recent.last
        assert first is not None  # noqa: S101 - else it is the first one
        assert last is not None  # noqa: S101
        if place is Place.AHEAD and (await reader.header(last.number + 1)).parent == last.hash:
            self._note(block.number, await self._logs_since(last.number + 1, block, reader))
            return
        begin = min(block.number, max(first.number, block.number - MOST_BLOCKS + 1))
        logs = await self._logs_since(begin, block, reader)
        self._orphan(block, self._recent.cut())
        self._note(block.number, logs)

    async def _logs_since(
        self, first: int, block: BlockHeader, reader: ChainReader
    ) -> list[BlockLog]:
        """The logs from the block *first* to *block*; none where the node refuses so many blocks,
        as some do more than ten. Raises as _logs."""
        try:
            return await self._logs(block, reader.logs_between(first, block.number))
        except NodeRefused as refused:
            self._miss(block, refused.detail)
            return []

    async def _logs(
        self, block: BlockHeader, asked: Coroutine[Any, Any, list[BlockLog]]
    ) -> list[BlockLog]:
        """The logs that are *asked* for; none where they cannot be read, as too many may be for
        whoever wants to be in the way. Raises UpstreamError where there was no answer."""
        try:
            return await asked
        except InvalidUpstreamResponse as wrong:
            self._miss(block, wrong.detail)
            return []

    def _miss(self, block: BlockHeader, reason: str) -> None:
        self.events["missed"] += 1
        log.warning(
            "blocks were missed, names keep their clocks",
            chain=self.kind,
            block=block.number,
            reason=reason,
        )

    def _orphan(self, block: BlockHeader, nodes: Iterable[bytes]) -> None:
        self.events["reorganisations"] += 1
        log.info("a chain was reorganised", chain=self.kind, block=block.number)
        self._tell(block.number, list(nodes))

    def _note(self, number: int, logs: Iterable[BlockLog]) -> None:
        """Tell what is new in *logs*, of blocks up to *number*."""
        changed: dict[bytes, None] = {}
        for one in logs:
            node = None if one.is_removed else self._node_of(one.topics)
            if node is not None and self._recent.note(one.number, one.block, node):
                changed[node] = None
        self._tell(number, list(changed))

    def _tell(self, number: int, nodes: list[bytes]) -> None:
        if nodes:
            self.events["changes"] += len(nodes)
            self._heard(number, nodes)

    async def _run(self) -> None:
        backoff, turn = _FIRST_BACKOFF, 0
        while True:
            source = self._sources[turn % len(self._sources)]
            blocks = self.events["blocks"]
            try:
                await source.follow(self)
            except (UpstreamError, Overloaded) as failed:
                self._lose(source, failed.detail)
            except Exception as wrong:  # names keep their clocks
                self._lose(source, "a bug")
                log.error("listening to a chain failed", chain=self.kind, exc_info=wrong)
            if self.events["blocks"] > blocks:
                backoff = _FIRST_BACKOFF
            # Not all at once, when a provider comes back.
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))  # noqa: S311
            backoff = min(_LONGEST_BACKOFF, 2 * backoff)
            turn += 1

    def _lose(self, source: BlockSource, reason: str) -> None:
        is_news = self.is_up or not self.events["failed"]
        self.is_up = False
        self.events["failed"] += 1
        facts = {"chain": self.kind, "endpoint": source.name, "reason": reason}
        if is_news:
            log.warning("a chain is not listened to", **facts)
        else:
            log.info("a chain is not listened to", **facts)
