"""Limits of keys over several machines: each tells a store whom it let in, and hears of the others.

Theory of operation. Nobody waits for the store: what was let through is handed over (`tell`), and
one task of its own writes it and reads the news, four times a second, or after 10 ms where there is
something to tell: near a limit. One round is one exchange on one connection. What is new goes into
a stream, as a batch with a number, so that a batch that may have arrived is told again and counted
once. This service's totals of the steps that have changed go into hashes, one a step, whose fields
only it writes, so that writing them again changes nothing. And the others' news are read from the
stream.

Whoever connects, at the start or after an outage of any kind, does the same: it tells what it has
to tell, writes all totals that still count, reads those of everybody, hears all news, and then
raises its own counts to what the totals have more. As no total has what was not told before it,
nothing counts twice. So a store that was emptied is filled again by those who are there, and nobody
has to know what happened. While the store is unreachable everybody counts by itself, and tries
again with backoff.

Knows the order of things; commands and replies are left to rows.py, all totals at once to
totals.py, the connection to connection.py, what is counted to own_counts.py, what counts do to
http/shared_counts.py."""

import asyncio
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from content_gateway.errors import WrongSettings
from content_gateway.valkey import totals
from content_gateway.valkey.connection import SECONDS, Link, StoreUnreachable, connected, shown
from content_gateway.valkey.own_counts import OwnCounts, Taken
from content_gateway.valkey.rows import (
    START,
    Command,
    Counts,
    Invalid,
    Names,
    News,
    Row,
    Steps,
    is_behind,
    last_id,
    news_in,
    time_in,
)

_LATEST: Final = 0.25  # seconds between two rounds where there is nothing to tell
_SOONEST: Final = 0.01  # the same where there is
_START_SECONDS: Final = 2.0  # that a start waits for the store
_FIRST_BACKOFF: Final = 0.25
_LONGEST_BACKOFF: Final = 5.0
# Both of these bound how long one turn of the event loop takes.
_MOST_ROWS: Final = 500  # in a batch
_MOST_NEWS: Final = 16
_MOST_SENDERS: Final = 10_000  # whose last numbers are known
_QUICK: Final = 0.1  # a reply that took longer says less about the store's clock

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The store at *url*; deployments that share one have different *prefixes*."""

    url: str
    prefix: str


class CountExchange:
    """The exchange of one service, also where that has several processes."""

    def __init__(
        self, options: StoreOptions, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """*clock* is the one by whose steps it is counted."""
        self.is_up = False
        self.rounds: Counter[str] = Counter()  # ok, failed
        self._options = options
        self._heard: Callable[[Counts], None]
        self._totals: Callable[[Counts], None]
        self._clock = clock
        self._sender = secrets.token_hex(8)
        self._names = Names(options.prefix, self._sender)
        self._own = OwnCounts()
        self._steps = Steps()
        self._position = START
        self._numbers: dict[str, int] = {}  # of the last batch of each that was heard
        self._wakes = asyncio.Event()
        self._is_over = False
        self._is_told_away = False
        self._running: asyncio.Task[None] | None = None

    def tell(self, taken: Taken) -> None:
        """Take what was let through just now, to be told soon."""
        self._own.take(taken, self._clock())
        self._wakes.set()

    async def open(self, heard: Callable[[Counts], None], totals: Callable[[Counts], None]) -> None:
        """Begin; returns once all is known that the others have counted, or soon without it.

        *heard* gets what others let through from now on, and *totals* what everybody did, each
        time that it was read. Raises WrongSettings where the store answers that `limits.url` cannot
        be right."""
        self._heard, self._totals = heard, totals
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(first), name="share limits")
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.shield(first)
        except TimeoutError:
            first.cancel()
        except StoreUnreachable as wrong:
            if wrong.is_lasting:
                await self._end()
                raise WrongSettings(f"limits.url: {wrong.reason}") from wrong

    async def close(self) -> None:
        """Tell what was not told yet, if the store is there, and end."""
        if self._running is None:
            return
        self._is_over = True
        self._wakes.set()
        if self.is_up:
            await asyncio.wait((self._running,), timeout=SECONDS)
        await self._end()

    async def _end(self) -> None:
        self._is_over = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    async def _run(self, first: "asyncio.Future[None]") -> None:
        backoff = _FIRST_BACKOFF
        while not self._is_over:
            before = self.rounds["ok"]
            try:
                await self._follow(first)
                return
            except StoreUnreachable as lost:
                if not first.done():
                    first.set_exception(lost)
                    if lost.is_lasting:  # the start fails
                        return
                self._lose(lost)
            except Exception as wrong:  # limits go on without
                self._lose(StoreUnreachable("a bug"))
                log.error("sharing limits failed", exc_info=wrong)
            if self.rounds["ok"] > before:
                backoff = _FIRST_BACKOFF
            # Not all at once, when a store comes back.
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))  # noqa: S311
            backoff = min(_LONGEST_BACKOFF, 2 * backoff)

    async def _follow(self, first: "asyncio.Future[None]") -> None:
        """Connect, and exchange for as long as that goes well; raises StoreUnreachable."""
        async with connected(self._options.url) as link:
            try:
                await self._find_place(link)
                await self._catch_up(link)
                own = map(self._steps.theirs, self._own.totals())
                await totals.write(link, self._names, own)
                live = self._steps.live(self._clock())
                rows = [row async for row in totals.read(link, self._names, live)]
                await self._catch_up(link)
                self._totals(self._steps.counts(rows, self._clock()))
                del rows
                self._is_up_again()
                if not first.done():
                    first.set_result(None)
                while not self._is_over or self._own.has_untold:
                    await self._pause()
                    await self._catch_up(link)
            except Invalid as wrong:
                raise StoreUnreachable(
                    f"it is no Valkey, and no Redis: {wrong} has an answer of another form",
                    is_lasting=True,
                ) from wrong

    async def _pause(self) -> None:
        """Until there is something to tell, or news may have come."""
        if not self._is_over:
            await asyncio.sleep(_SOONEST)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LATEST - _SOONEST):
                    await self._wakes.wait()
        self._wakes.clear()

    async def _find_place(self, link: Link) -> None:
        """What the store's clock says, and where to go on with the news."""
        await self._ask(link, [])
        (last,) = await self._ask(link, [("XREVRANGE", self._names.news, "+", "-", "COUNT", 1)])
        newest = last_id(last)
        # A store that has forgotten its news may begin before that. At the start all that are there
        # are heard too: they are in the totals, and one of them may be told again.
        if is_behind(newest, self._position):
            self._position = START

    async def _catch_up(self, link: Link) -> None:
        has_more = True
        while has_more:
            has_more = await self._round(link)
            await asyncio.sleep(0)

    async def _round(self, link: Link) -> bool:
        """Tell a batch, and hear news; whether there is more of either. Raises StoreUnreachable."""
        batch = self._own.batch(_MOST_ROWS)
        commands: list[Command] = []
        if batch is not None:
            rows = tuple(map(self._steps.theirs, batch.rows))
            commands += self._names.tell(batch.number, rows, self._steps.time(self._clock()))
            totals = map(self._own.total, batch.rows)
            commands += self._names.write(map(self._steps.theirs, totals))
        commands.append(("XREAD", "COUNT", _MOST_NEWS, "STREAMS", self._names.news, self._position))
        replies = await self._ask(link, commands)
        if batch is not None:
            self._own.arrived()
        news = news_in(replies[-1])
        self._hear(news)
        self.rounds["ok"] += 1
        return len(news) >= _MOST_NEWS or (batch is not None and self._own.has_untold)

    async def _ask(self, link: Link, commands: list[Command]) -> list[Any]:
        """The replies to *commands*; what the store's clock says is asked with them."""
        before = self._clock()
        now, *replies = await link.ask([("TIME",), *commands])
        after = self._clock()
        if after - before < _QUICK or not self._steps.are_known:
            self._steps.hear(time_in(now), (before + after) / 2)
        return replies

    def _hear(self, news: Sequence[News]) -> None:
        rows: list[Row] = []
        for one in news:
            self._position = one.id
            # Told twice, after its sender did not know whether it had arrived.
            if one.sender == self._sender or one.number <= self._numbers.get(one.sender, 0):
                continue
            self._numbers[one.sender] = one.number
            if len(self._numbers) > _MOST_SENDERS:
                del self._numbers[next(iter(self._numbers))]
            rows += one.rows
        if rows:
            self._heard(self._steps.counts(rows, self._clock()))

    def _is_up_again(self) -> None:
        if self._is_told_away:
            log.info("the store of the limits answers again", store=shown(self._options.url))
        self.is_up, self._is_told_away = True, False

    def _lose(self, lost: StoreUnreachable) -> None:
        self.is_up = False
        self.rounds["failed"] += 1
        if not self._is_told_away:
            self._is_told_away = True
            log.warning(
                "the store of the limits is unreachable, each service counts by itself",
                store=shown(self._options.url),
                reason=lost.reason,
            )
