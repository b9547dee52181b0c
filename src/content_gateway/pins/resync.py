"""The resync: compares the whole ledger with the whole pinset of the backend, both ways, slowly.

A cluster can forget what it has confirmed (docs/facts/pins.md), its nodes can lose what they held,
and nobody would ask again for what is final. So the resync streams the pinset, with the replicas
that there are by the backend's own lists: what the ledger has as pinned and the backend does not
list, or lists with other replicas than the ledger tells, or with too few, is checked again, which
brings it back if it is really gone; what the backend lists and nobody here has asked for is
reported, and never touched. Knows a content by its number in the ledger, one bit each: ten million
contents are a megabyte. Reconciling is left to the reconciler."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

import structlog

from content_gateway.errors import StorageUnavailable, UpstreamError
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import LedgerEntry, Listed, ResyncReport
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.leases import owner_name

_JOB: Final = "resync"
_CHUNK: Final = 1_000
_SAMPLE: Final = 100

log = structlog.get_logger(__name__)


class ResyncLedger(Protocol):
    """The part of the ledger that a resync reads and writes. Methods raise StorageUnavailable."""

    async def acquire_job(self, name: str, owner: str, seconds: float, longest: float) -> bool:
        """Whether *owner* may do that work now, alone, for so long; False: not due, or taken.

        It never waits for more than *longest* seconds."""

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Extend the lease; False if it was lost."""

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """Give the work back, until it is due again."""

    async def trigger_job(self, name: str) -> None:
        """Make the work due now, if nobody does it."""

    async def known(self, cids: Sequence[Cid]) -> Mapping[Cid, LedgerEntry]:
        """What the ledger knows of *cids*, of those that it knows."""

    async def final_pins(self, above: int, limit: int, before: float) -> Sequence[int]:
        """The next numbers *above* that are pinned for all we know since *before*, ascending."""

    async def recheck(self, numbers: Sequence[int]) -> None:
        """Make final contents due."""

    async def report(self, report: ResyncReport) -> None:
        """Keep what a resync has found."""


@dataclass(frozen=True, slots=True)
class ResyncSchedule:
    """Seconds: between resyncs, at least between two whatever happens, until it is looked again
    whether one is due (another process may have ended one), after one that broke off, and of the
    lease, which is extended with every thousand contents."""

    interval: float = 6 * 3600.0
    least: float = 30.0
    poll: float = 60.0
    after_failure: float = 10.0
    lease: float = 120.0

    @classmethod
    def every(cls, interval: float) -> Self:
        """With that *interval*, kept also where it is shorter than what else is waited for."""
        usual = cls()
        return replace(
            usual,
            interval=interval,
            least=min(usual.least, interval),
            poll=min(usual.poll, interval),
        )


class Resync:
    """Owns the task that resyncs; runs between `start` and `close`."""

    def __init__(
        self,
        ledger: ResyncLedger,
        backend: PinBackend,
        *,
        wake: Callable[[], None],
        schedule: ResyncSchedule | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*wake* is called when contents were made due."""
        self._ledger = ledger
        self._backend = backend
        self._wake = wake
        self._schedule = schedule or ResyncSchedule()
        self._clock = clock
        self._owner = owner_name()
        self._triggered = asyncio.Event()
        self._main: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to resync: at once, as nobody knows what the backend has been through."""
        self._triggered.set()
        self._main = asyncio.create_task(self._run(), name="resync")

    async def close(self) -> None:
        """End the resync under way; another process, or the next start, begins again."""
        if self._main is None:
            return
        self._main.cancel()
        await asyncio.gather(self._main, return_exceptions=True)

    def trigger(self) -> None:
        """Resync soon: the backend was unreachable and may have lost something."""
        self._triggered.set()

    async def now(self) -> ResyncReport | None:
        """Resync now, whatever the schedule says; None if somebody else is at it.

        Raises UpstreamError when the backend breaks off; then nothing is reported."""
        await self._ledger.trigger_job(_JOB)
        return await self._resync_if_due()

    async def _run(self) -> None:
        while True:
            pause = self._schedule.poll
            try:
                if self._triggered.is_set():
                    await self._ledger.trigger_job(_JOB)
                    self._triggered.clear()
                await self._resync_if_due()
            except UpstreamError as wrong:
                log.warning("the resync broke off", reason=wrong.detail)
                pause = self._schedule.after_failure
            except StorageUnavailable as wrong:
                log.error("the resync cannot use the ledger", reason=wrong.detail)
                pause = self._schedule.after_failure
            except Exception as bug:
                log.error("the resync failed, and goes on", exc_info=bug)
            await asyncio.sleep(self._schedule.least)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._triggered.wait()

    async def _resync_if_due(self) -> ResyncReport | None:
        """One resync, if it is due and nobody else does it."""
        schedule = self._schedule
        longest = max(schedule.interval, schedule.after_failure, 2 * schedule.lease)
        if not await self._ledger.acquire_job(_JOB, self._owner, schedule.lease, longest):
            return None
        again_in = schedule.after_failure
        try:
            report = await self._resync()
            again_in = schedule.interval
        finally:
            await self._ledger.finish_job(_JOB, self._owner, again_in)
        return report

    async def _resync(self) -> ResyncReport:
        started_at = self._clock()
        listed = unmanaged = under_replicated = 0
        sample: list[Cid] = []
        seen = bytearray()
        async with aclosing(self._backend.pinset()) as pinset, aclosing(_chunks(pinset)) as chunks:
            async for chunk in chunks:
                known = await self._ledger.known([entry.cid for entry in chunk])
                unknown = [entry.cid for entry in chunk if entry.cid not in known]
                listed, unmanaged = listed + len(chunk), unmanaged + len(unknown)
                sample += unknown[: _SAMPLE - len(sample)]
                _mark(seen, [content.number for content in known.values()])
                pairs = [(entry, known[entry.cid]) for entry in chunk if entry.cid in known]
                under_replicated += sum(
                    _is_under_replicated(entry, content) for entry, content in pairs
                )
                await self._recheck_numbers(
                    [one.number for entry, one in pairs if _differs(entry, one)]
                )
                await self._renew_lease()
        missing = await self._recheck(seen, started_at)
        report = ResyncReport(
            *(started_at, self._clock(), listed, missing, unmanaged, tuple(sample)),
            under_replicated=under_replicated,
        )
        await self._ledger.report(report)
        log.info(
            "resync",
            listed=listed,
            missing=missing,
            under_replicated=under_replicated,
            unmanaged=unmanaged,
        )
        return report

    async def _recheck(self, seen: bytearray, before: float) -> int:
        """Make due what was pinned *before* the listing for all we know and was not *seen*; how
        many those are."""
        missing, last = 0, 0
        while numbers := await self._ledger.final_pins(last, _CHUNK, before):
            last = numbers[-1]
            absent = [number for number in numbers if not _is_marked(seen, number)]
            await self._recheck_numbers(absent)
            missing += len(absent)
            await self._renew_lease()
        return missing

    async def _recheck_numbers(self, numbers: Sequence[int]) -> None:
        """Make those due that are final."""
        if numbers:
            await self._ledger.recheck(numbers)
            self._wake()

    async def _renew_lease(self) -> None:
        if not await self._ledger.renew_job(_JOB, self._owner, self._schedule.lease):
            raise StorageUnavailable("The resync took too long, and somebody else has begun one.")


def _is_under_replicated(entry: Listed, content: LedgerEntry) -> bool:
    """Whether fewer replicas are there than were promised to somebody."""
    return content.is_held and entry.replicas < entry.wanted


def _differs(entry: Listed, content: LedgerEntry) -> bool:
    """Whether the ledger tells requestors something else, or there is something to repair."""
    known = (content.replicas, content.wanted)
    return (entry.replicas, entry.wanted) != known or entry.replicas < entry.wanted


async def _chunks(entries: AsyncIterator[Listed]) -> AsyncGenerator[list[Listed], None]:
    chunk: list[Listed] = []
    async for entry in entries:
        chunk.append(entry)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _mark(seen: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        if number >> 3 >= len(seen):
            seen.extend(bytes((number >> 3) + 4096 - len(seen)))
        seen[number >> 3] |= 1 << (number & 7)


def _is_marked(seen: bytearray, number: int) -> bool:
    return number >> 3 < len(seen) and bool(seen[number >> 3] >> (number & 7) & 1)
