"""Kubo over its RPC API, as a pin backend of one node.

Knows what to ask and the traps (docs/facts/pins.md, Traps): adding a pin that is there already
drops it first, so every attempt begins with a status check of its own, and only a positive word is
believed. What the words mean is left to answers.py, when to ask again to the reconciler."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final
from urllib.parse import quote

import structlog

from content_gateway.backends.kubo.answers import (
    Fetched,
    PinsetReader,
    read_addresses,
    read_error,
    read_line,
    read_name,
    read_pinned,
    read_unpinned,
    refusal,
)
from content_gateway.backends.kubo.blocks import KuboBlocks, Sample
from content_gateway.concurrency.gather import all_of
from content_gateway.errors import (
    InvalidUpstreamResponse,
    PinDeferred,
    PinFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.content_state import BackendStatus, Listed, Peer, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import Answer, Download, HttpClient

log = structlog.get_logger(__name__)

MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_LINE_BYTES: Final = 64 * 1024
CHECKS_AT_ONCE: Final = 8
# Kubo gathers the whole list before its first byte: 20,000 pins take it 0.1 s.
_LIST_SECONDS: Final = 3600.0
_LIST_IDLE_SECONDS: Final = 120.0
_CHUNKS_AHEAD: Final = 4
_MOST_LACKING: Final = 10_000
_MOST_ORIGINS: Final = 10  # as many as a cluster's node connects to
_ANY: Final = Cid(RAW, 0x00, b"")  # an identity CID, to have something to ask about

Progress = Callable[[int, int], None]
Batches = asyncio.Queue[list[Cid] | Exception | None]  # what broke it off, or None, is the last


class Kubo:
    """One node, by the base URL of its RPC API; *pin_seconds* bounds one retrieval.

    *connect_seconds* the wait for origins, *seconds* every other question, and the silence between
    two lines of a retrieval, which come twice a second while Kubo is alive."""

    def __init__(
        self,
        outbound: HttpClient,
        url: str,
        *,
        seconds: float = 10.0,
        pin_seconds: float = 3600.0,
        connect_seconds: float = 5.0,
    ) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/") + "/api/v0/"
        self._seconds = seconds
        self._pin_seconds = pin_seconds
        self._connect_seconds = connect_seconds
        self._name: str | None = None
        self._blocks = KuboBlocks(self._stream)
        self._sample = Sample()
        self._lacking: dict[Cid, str] = {}  # pinned, and some of it is not there

    @property
    def batch_age(self) -> float:
        """0: what Kubo has said yes to is on its disk, and seen at once."""
        return 0.0

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        """Whether the node holds each of *cids* pinned recursively; LOST where it does and some
        blocks are missing, which is checked for a content in doubt (that *ages* lacks)."""
        seen: dict[Cid, bool | UpstreamError] = {}
        turn = asyncio.Semaphore(CHECKS_AT_ONCE)

        async def look_at(cid: Cid) -> None:
            async with turn:
                # A node that is silent is not asked for the rest, one deadline after the other.
                late = next(
                    (one for one in seen.values() if isinstance(one, UpstreamTimeout)), None
                )
                try:
                    seen[cid] = late or await self._has_pinned(cid)
                except UpstreamError as wrong:
                    seen[cid] = wrong

        await all_of(look_at(cid) for cid in dict.fromkeys(cids))
        failures = [one for one in seen.values() if isinstance(one, UpstreamError)]
        if failures and len(failures) == len(seen):
            raise failures[0]
        pinned = await self._pinned() if True in seen.values() else None
        held = [cid for cid, one in seen.items() if one is True]
        await self._check([cid for cid in held if ages is not None and cid not in ages])
        lost = {
            cid: BackendStatus(TrackerStatus.LOST, 0, 1, reason=f"Kubo has lost some of it: {lack}")
            for cid in held
            if (lack := self._lacking.get(cid)) is not None
        }
        return {cid: _status_of(one, pinned) for cid, one in seen.items()} | lost

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Progress,
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        """Have Kubo connect to *origins*, fetch and pin *cid*; returns PINNED once all is there.

        Nothing is sent when a status check just before shows it pinned, whatever *seen* said; an
        attempt that ends in any way but Kubo's yes is followed by another check. Safe to cancel:
        Kubo stops fetching when the connection closes, and keeps its blocks for the next
        attempt."""
        with _invalid_is_unavailable():
            if not await self._has_pinned(cid):
                await self._connect(origins)
                failure = await self._add(cid, progress)
                if failure is not None and not await self._has_pinned(cid):
                    log.info("kubo could not pin", cid=str(cid), reason=failure.detail)
                    raise failure
            elif cid in self._lacking:
                await self._connect(origins)
                await self._mend(cid, progress)
        return await self._pinned()

    async def unpin(self, cid: Cid) -> None:
        """Have Kubo drop its recursive pin of *cid*; the blocks stay until it collects garbage.

        Asks first: `pin/rm` would remove a direct pin too, which is never ours."""
        with _invalid_is_unavailable():
            if await self._has_pinned(cid):
                answer = await self._ask(f"pin/rm?arg={cid}")
                read_unpinned(answer.status, answer.body, cid)

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        """Every recursive pin of version 1 and of a codec we accept. Fifty, at random, are
        verified.

        The list is asked for whole, not streamed: an error in the middle of a streamed one shows in
        a trailer only, which our client cannot see. A node that is shutting down ends its lists
        without any error, so it must still answer at the end."""
        batches: Batches = asyncio.Queue(_CHUNKS_AHEAD)
        # In a task of its own: a deadline must not strike while the caller's code runs.
        reading = asyncio.create_task(self._read_pinset(batches), name="kubo pinset")
        self._sample.begin()
        try:
            while (batch := await batches.get()) is not None:
                if isinstance(batch, Exception):
                    raise batch
                await self._check([cid for cid in batch if self._sample.takes()])
                for cid in batch:
                    yield Listed(cid, 0 if cid in self._lacking else 1)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _check(self, cids: Sequence[Cid]) -> None:
        """Find out, and remember, what lacks of *cids*, which are pinned."""
        for cid in cids:
            self._lacking.pop(cid, None)
            lack = await self._blocks.lack(cid)
            if lack is not None and len(self._lacking) < _MOST_LACKING:
                self._lacking[cid] = lack

    async def _mend(self, cid: Cid, progress: Progress) -> None:
        """Bring in what lacks of *cid*; raises PinFailed where that cannot be had."""
        try:
            await self._blocks.bring_in(cid, lambda blocks: progress(blocks, 0), self._pin_seconds)
        finally:
            await self._check([cid])
        if cid in self._lacking:
            raise PinFailed(
                f"Kubo has lost some of it, and could not fetch it: {self._lacking[cid]}"
            )

    async def addresses(self) -> Sequence[str]:
        """Where the node says that it can be reached. Raises UpstreamError."""
        answer = await self._ask("id")
        return read_addresses(answer.status, answer.body)

    async def _connect(self, origins: Sequence[Multiaddr]) -> None:
        """Have Kubo connect to the nodes among *origins*, all at once, for a moment.

        Whoever cannot be reached is no failure: somebody else may have the content."""
        calls = [
            self._ask(f"swarm/connect?arg={quote(origin.text)}", self._connect_seconds)
            for origin in [origin for origin in origins if origin.peer_id][:_MOST_ORIGINS]
        ]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, UpstreamError):
                log.debug("an origin was not reached", reason=answer.detail)
            elif isinstance(answer, BaseException):
                raise answer

    async def _read_pinset(self, batches: Batches) -> None:
        try:
            reader = PinsetReader()
            listing = self._stream("pin/ls?type=recursive", _LIST_SECONDS, _LIST_IDLE_SECONDS)
            async with listing as stream:
                if stream.status != 200:
                    message = read_error(stream.status, await _body(stream))
                    raise UpstreamUnavailable(f"Kubo could not list its pins: {message[:300]}")
                async for chunk in stream.chunks():
                    await batches.put(reader.feed(chunk))
                    await asyncio.sleep(0)  # a long list must not keep everybody waiting
            reader.end()
            await self._has_pinned(_ANY)
        except Exception as wrong:
            await batches.put(wrong)
        else:
            await batches.put(None)

    async def _add(self, cid: Cid, progress: Progress) -> PinFailed | PinDeferred | None:
        """One `pin/add`: None when Kubo says that *cid* is pinned, else what went wrong."""
        fetched = Fetched()

        def note(now: Fetched) -> None:
            nonlocal fetched
            fetched = now
            progress(now.blocks, now.size)

        deadline = asyncio.get_running_loop().time() + self._pin_seconds
        try:
            if await self._follow(cid, note):
                return None
            reason = f"Kubo gave up after {fetched} and gave no reason."
        except (PinFailed, PinDeferred) as failed:
            return failed
        except UpstreamTimeout:
            reason = f"Kubo fell silent after {fetched}."
            if asyncio.get_running_loop().time() >= deadline:
                reason = f"It was not found in time: {fetched} came in {self._pin_seconds:g} s."
        except UpstreamError as wrong:
            reason = f"Kubo broke off after {fetched}: {wrong.detail}"
        return PinFailed(reason)

    async def _follow(self, cid: Cid, note: Callable[[Fetched], None]) -> bool:
        """Whether the lines of one `pin/add` end with Kubo's yes.

        That the stream ends says nothing, and why it ended stands in a trailer, out of sight."""
        call = f"pin/add?arg={cid}&recursive=true&progress=true"
        async with self._stream(call, self._pin_seconds, self._seconds) as stream:
            if stream.status != 200:
                raise refusal(read_error(stream.status, await _body(stream)))
            async for line in stream.lines(MAX_LINE_BYTES):
                now = read_line(line, cid)
                if now is None:
                    return True
                note(now)
        return False

    async def _has_pinned(self, cid: Cid) -> bool:
        """Kubo's own word; it reads its index only, and fetches nothing."""
        answer = await self._ask(f"pin/ls?arg={cid}&type=recursive")
        return read_pinned(answer.status, answer.body, cid)

    async def _pinned(self) -> BackendStatus:
        if self._name is None:
            try:
                answer = await self._ask("id")
                self._name = read_name(answer.status, answer.body) or "kubo"
            except UpstreamError:
                pass  # a name is not worth an error; the next time it may tell
        return BackendStatus(
            TrackerStatus.PINNED, replicas=1, peers=(Peer(self._name or "kubo", "pinned"),)
        )

    async def _ask(self, call: str, seconds: float | None = None) -> Answer:
        return await self._outbound.ask(
            "POST", self._url + call, seconds=seconds or self._seconds, max_bytes=MAX_ANSWER_BYTES
        )

    def _stream(
        self, call: str, seconds: float, idle_seconds: float
    ) -> AbstractAsyncContextManager[Download]:
        return self._outbound.stream(
            "POST", self._url + call, seconds=seconds, idle_seconds=idle_seconds
        )


def _status_of(one: bool | UpstreamError, pinned: BackendStatus | None) -> BackendStatus:
    if isinstance(one, UpstreamError):
        return BackendStatus(TrackerStatus.UNKNOWN, reason=one.detail)
    return pinned if one and pinned else BackendStatus(TrackerStatus.ABSENT)


async def _body(stream: Download) -> bytes:
    """The rest of an answer that should be short."""
    body = bytearray()
    async for chunk in stream.chunks():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise InvalidUpstreamResponse(f"Kubo's answer has more than {MAX_ANSWER_BYTES} bytes.")
    return bytes(body)


@contextmanager
def _invalid_is_unavailable() -> Iterator[None]:
    """To who wants something done, a server that does not talk like Kubo is no Kubo."""
    try:
        yield
    except InvalidUpstreamResponse as wrong:
        raise UpstreamUnavailable(wrong.detail) from wrong
