"""One CAR from one gateway, verified and stored while it arrives.

Knows the pipeline, and when to give a stream up: wrong bytes, no CAR, or too many bytes that are
not of the DAG. Which DAG, and from which gateway, is left to retrieval.py."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.backends.embedded.gateway import Busy, NotGiven, TrustlessGateway
from content_gateway.codecs.multiformats import split_multihash
from content_gateway.errors import UpstreamError
from content_gateway.ipld.block import matches
from content_gateway.ipld.car import CarReader, Section
from content_gateway.model.cid import RAW, Cid

_PART_BYTES: Final = 4 * 1024 * 1024
_PART_SECONDS: Final = 0.25
# Duplicates and blocks of other DAGs that are tolerated, beyond as many bytes as were useful.
_USELESS_BYTES: Final = 16 * 1024 * 1024

Store = Callable[[Sequence[Section]], Awaitable[int]]
"""Stores those of some verified blocks that are wanted; returns how many bytes they have."""


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """How a CAR has ended: *useful* bytes of it were stored.

    *fault* says why it broke off; *wrong* is the multihash of a block with wrong bytes; *is_busy*
    means that the gateway limits our rate and the CAR was not begun."""

    useful: int
    fault: str | None = None
    wrong: bytes | None = None
    is_busy: bool = False


async def receive(
    gateway: TrustlessGateway, root: Cid, store: Store, parts: asyncio.Semaphore
) -> DownloadResult:
    """Store the CAR of *root* from *gateway*, as far as it is valid.

    Shares *parts* with other streams: so many parts are verified and stored at a time, each with
    some 8 MiB of memory, while the other streams do not read. Faults of the gateway are in the
    result."""
    stream = _CarStream(gateway.seconds, store, parts)
    try:
        try:
            async with gateway.car(root) as answer:
                await stream.read(answer.chunks())
        except UpstreamError as failed:
            await stream.end()
            return DownloadResult(stream.useful, failed.detail, is_busy=isinstance(failed, Busy))
        await stream.end()
        stream.check_whole()
    except NotGiven as failed:
        return DownloadResult(stream.useful, failed.detail)
    except _WrongBlock as wrong:
        detail = gateway.wrong(_name_of(wrong.multihash)).detail
        return DownloadResult(stream.useful, detail, wrong.multihash)
    except _StoreFailed as failed:
        raise failed.error from None
    finally:
        await stream.abandon()
    return DownloadResult(stream.useful)


class _WrongBlock(Exception):
    """A block of a CAR does not match the *multihash* before it."""

    def __init__(self, multihash: bytes) -> None:
        super().__init__()
        self.multihash = multihash


class _StoreFailed(Exception):
    """Wraps an *error* of ours, so that no handler takes it for the gateway's."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _CarStream:
    """A pipeline of three: while one part of a CAR is received, the part before it is verified in a
    thread, and the one before that is written."""

    def __init__(self, timeout: float, store: Store, parts: asyncio.Semaphore) -> None:
        self.useful = 0
        self._timeout = timeout
        self._store = store
        self._parts = parts
        self._reader = CarReader()
        self._part: list[bytes] = []
        self._received = 0
        self._verifying: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[int] | None = None
        self._last_use = time.monotonic()

    async def read(self, chunks: AsyncIterator[bytes]) -> None:
        """Receive the whole body."""
        size, since = 0, time.monotonic()
        async for chunk in chunks:
            self._part.append(chunk)
            size += len(chunk)
            if size >= _PART_BYTES or time.monotonic() - since > _PART_SECONDS:
                self._received += size
                await self._pass_on()
                self._check()
                size, since = 0, time.monotonic()

    async def end(self) -> None:
        """Verify and store the last part."""
        await self._pass_on()
        await self._verified()
        await self._written()

    def check_whole(self) -> None:
        """Raises NotGiven when the CAR is cut short."""
        try:
            self._reader.finish()
        except ValueError as wrong:
            raise NotGiven(f"It served half a CAR: {wrong}.") from wrong

    async def abandon(self) -> None:
        """Wait for the work under way, whatever its outcome."""
        if self._verifying is not None:
            await asyncio.gather(self._verifying, return_exceptions=True)
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _pass_on(self) -> None:
        """Begin to verify what was received, once the part before it is verified."""
        part, self._part = self._part, []
        await self._verified()
        if part:
            await self._parts.acquire()
            permit = ExitStack()
            permit.callback(self._parts.release)
            self._verifying = asyncio.ensure_future(self._verify(part, permit))
            self._verifying.add_done_callback(lambda _: permit.close())

    async def _verified(self) -> None:
        """Wait for the part that is being verified."""
        verifying, self._verifying = self._verifying, None
        if verifying is not None:
            await verifying

    async def _verify(self, part: list[bytes], permit: ExitStack) -> None:
        """Verify *part*, and begin to write it once the part before it is written.

        The *permit* is released after the write."""
        sections, fault = await asyncio.to_thread(_verified, self._reader, part)
        await self._written()
        self._writing = asyncio.ensure_future(self._store(sections))
        written = permit.pop_all()
        self._writing.add_done_callback(lambda _: written.close())
        if fault is not None:
            await self._written()
            raise fault

    async def _written(self) -> None:
        """Wait for the write under way, and count its useful bytes."""
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                useful = await writing
            except Exception as error:
                raise _StoreFailed(error) from error
            self.useful += useful
            if useful:
                self._last_use = time.monotonic()

    def _check(self) -> None:
        if self._received > 2 * self.useful + _USELESS_BYTES:
            raise NotGiven("It sends much that nobody asked for.")
        if time.monotonic() - self._last_use > 2 * self._timeout:
            raise NotGiven("It sends nothing that is wanted.")


def _verified(reader: CarReader, part: list[bytes]) -> tuple[list[Section], Exception | None]:
    """The valid blocks that *part* completes, and what is wrong after them, if anything."""
    try:
        sections = reader.feed(*part)
    except ValueError as wrong:
        return [], NotGiven(f"It served no CAR: {wrong}.")
    part.clear()  # its bytes were copied
    good: list[Section] = []
    for multihash, data in sections:
        try:
            is_right = matches(multihash, data)
        except ValueError:
            is_right = False
        if is_right is False:
            return good, _WrongBlock(multihash)
        if is_right:
            good.append((multihash, data))
    return good, None


def _name_of(multihash: bytes) -> str:
    """The block with *multihash* as people look it up: the CID of a raw block."""
    return str(Cid(RAW, *split_multihash(multihash)))
