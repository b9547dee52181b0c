"""The resync: compares the whole ledger with the backend's whole pinset, in both directions.

Theory of operation. A cluster can lose pins that it has confirmed (docs/facts/pins.md), nodes can
lose blocks, and the reconciler does not check final pins again. So the resync streams the pinset
every few hours, with the number of replicas that the backend's own lists show. A final pin that is
missing in the list, or has too few replicas or another number than the ledger says, is made due:
the reconciler then asks the backend directly, and repairs what is really gone. A CID that is in the
pinset and not in the ledger is an unmanaged pin: it is reported and never touched.

Contents are marked as seen by their number in the ledger, one bit each, so ten million contents
need about a megabyte. Reconciling is left to the reconciler."""

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
        """Lease the job to *owner* for *seconds*; False if it is not due or another owner has it.

        A due time more than *longest* seconds ahead is ignored."""

    async def renew_job(self, name: str, owner: str, seconds: float) -> bool:
        """Extend the lease; False if it was lost."""

    async def finish_job(self, name: str, owner: str, again_in: float) -> None:
        """End the lease; the job is due again in *again_in* seconds."""

    async def trigger_job(self, name: str) -> None:
        """Make the job due now, unless it is leased."""

    async def known(self, cids: Sequence[Cid]) -> Mapping[Cid, LedgerEntry]:
        """The ledger's entries of those of *cids* that it has."""

    async def final_pins(self, above: int, limit: int, before: float) -> Sequence[int]:
        """At most *limit* numbers *above* of final pins that were pinned *before*, ascending."""

    async def recheck(self, numbers: Sequence[int]) -> None:
        """Make these contents due, if they are final pins."""

    async def report(self, report: ResyncReport) -> None:
        """Store a report."""


@dataclass(frozen=True, slots=True)
class ResyncSchedule:
    """Times in seconds: *interval* between resyncs, *least* between two even when triggered, *poll*
    until the job is checked again (another process may have run it), *after_failure* until the next
    try, and *lease* of the job, renewed with every thousand contents."""

    interval: float = 6 * 3600.0
    least: float = 30.0
    poll: float = 60.0
    after_failure: float = 10.0
    lease: float = 120.0

    @classmethod
    def every(cls, interval: float) -> Self:
        """A schedule with that *interval*; shortens the other times where they would exceed it."""
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

    def start(self, *, now: bool = True) -> None:
        """Start the task, with a resync at once: the backend may have lost something meanwhile.

        Not *now* is for one of several processes that start together, where another does it."""
        if now:
            self._triggered.set()
        self._main = asyncio.create_task(self._run(), name="resync")

    async def close(self) -> None:
        """Cancel the resync in progress; another process, or the next start, begins a new one."""
        if self._main is None:
            return
        self._main.cancel()
        await asyncio.gather(self._main, return_exceptions=True)

    def trigger(self) -> None:
        """Resync soon: the backend was unreachable and may have lost something."""
        self._triggered.set()

    async def now(self) -> ResyncReport | None:
        """Resync now, whatever the schedule says; None if another owner is running one.

        Raises UpstreamError if the backend's list breaks off; then nothing is reported."""
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
        """One resync, if it is due and no other owner has the job."""
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
        """Make final pins due that were pinned *before* and are not in *seen*; returns how many."""
        missing, last = 0, 0
        while numbers := await self._ledger.final_pins(last, _CHUNK, before):
            last = numbers[-1]
            absent = [number for number in numbers if not _is_marked(seen, number)]
            await self._recheck_numbers(absent)
            missing += len(absent)
            await self._renew_lease()
        return missing

    async def _recheck_numbers(self, numbers: Sequence[int]) -> None:
        """Make final pins due, and wake the reconciler."""
        if numbers:
            await self._ledger.recheck(numbers)
            self._wake()

    async def _renew_lease(self) -> None:
        if not await self._ledger.renew_job(_JOB, self._owner, self._schedule.lease):
            raise StorageUnavailable("The resync took too long, and somebody else has begun one.")


def _is_under_replicated(entry: Listed, content: LedgerEntry) -> bool:
    """Whether a held content has fewer replicas than it should."""
    return content.is_held and entry.replicas < entry.wanted


def _differs(entry: Listed, content: LedgerEntry) -> bool:
    """Whether the ledger shows other replicas than the list, or replicas are missing."""
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
