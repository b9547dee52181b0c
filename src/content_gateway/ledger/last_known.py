"""Last known answers on their way to the ledger: kept in memory, written in the background.

In batches, and at most a second late: a lost write costs a lookup and nothing else. What waits to
be written is read here first. Knows the values of the tables `resolutions` and `ipns`, and bounds
their size; the statements are left to the adapters, how long an answer may be used to the directory
and the resolver."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, Self, TypeVar

import structlog

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.errors import CallerError, StorageUnavailable
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    ContentRecord,
    IpfsContent,
    IpnsContent,
    OtherContent,
    Records,
    Resolved,
    StoredEntry,
    parse_content,
)
from content_gateway.model.wallet import CoinType

_BATCH: Final = 500

Row = tuple[Any, ...]
# The answer, None for absence, and its time.
Resolutions = dict[tuple[str, CoinType], tuple[Resolved | None, datetime]]
EntriesByName = dict[str, tuple[StoredEntry | None, datetime]]
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The bounds on rows of the tables, and on answers that wait to be written and their seconds.

    Tables are pruned every *prune_every* rows, and may exceed their bound by as many."""

    resolutions: int = 1_000_000
    links: int = 50_000
    pending: int = 2_000
    prune_every: int = 10_000
    flush_seconds: float = 1.0


class AnswerTables(Protocol):
    """The two tables, in one database. Methods raise StorageUnavailable."""

    async def resolution(self, domain: str, coin: CoinType) -> Row | None:
        """The columns wallet, content, wallet_is_owner and stored_at of a domain."""

    async def ipns(self, name: str) -> Row | None:
        """The columns path, record, ttl and stored_at of an IPNS name."""

    async def write(self, batch: "Batch") -> None:
        """Write *batch* in one transaction. The newer answer wins, in whatever order two processes
        write; one from after `now` was written by a wrong clock, and gives way."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written together: values by column, and the keys of what is to be forgotten.

    Each has `stored_at`. *now*: milliseconds since 1970. Tables are cut to *keep* rows each,
    (resolutions, ipns), where that is due."""

    now: int
    resolutions: Sequence[Mapping[str, Any]]
    forgotten: Sequence[Mapping[str, Any]]
    ipns: Sequence[Mapping[str, Any]]
    forgotten_ipns: Sequence[Mapping[str, Any]]
    keep: tuple[int, int] | None


class StoredAnswers:
    """Last known answers; owns the task that writes them. Open it with `async with`."""

    def __init__(
        self,
        tables: AnswerTables,
        *,
        bounds: StoreLimits | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._tables = tables
        self._bounds = bounds or StoreLimits()
        self._now = today
        self._resolutions: Resolutions = {}  # not written yet
        self._entries: EntriesByName = {}
        self._has_pending = asyncio.Event()
        self._unpruned = self._bounds.prune_every  # so that the first batch prunes
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._write_repeatedly(), name="last known answers")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._flush()

    async def load(self, domain: str, coin: CoinType) -> Resolved | None:
        """The last known answer for *domain*; None if there is none."""
        if (domain, coin) in self._resolutions:
            return self._resolutions[domain, coin][0]
        return await self._read(domain, self._tables.resolution(domain, coin), _read_resolution)

    def store(self, domain: str, coin: CoinType, resolved: Resolved | None) -> None:
        """As `LastKnown.store`. Dropped if too many answers wait to be written."""
        if len(self._resolutions) < self._bounds.pending or (domain, coin) in self._resolutions:
            at = self._now() if resolved is None else resolved.at
            self._resolutions[domain, coin] = (resolved, at)
            self._has_pending.set()

    async def load_ipns(self, name: IpnsName) -> StoredEntry | None:
        """The last known entry of *name*; None if there is none."""
        if name.text in self._entries:
            return self._entries[name.text][0]
        return await self._read(name.text, self._tables.ipns(name.text), _read_entry)

    def store_ipns(self, name: IpnsName, entry: StoredEntry | None) -> None:
        """Store the *entry* of *name*; None deletes it. Dropped as in `store`."""
        if len(self._entries) < self._bounds.pending or name.text in self._entries:
            self._entries[name.text] = (entry, self._now() if entry is None else entry.at)
            self._has_pending.set()

    async def _read(
        self, key: str, asked: Awaitable[Row | None], read_row: Callable[[Row], T]
    ) -> T | None:
        """The value of the row; None also where it cannot be read: the caller can look it up."""
        try:
            row = await asked
            return None if row is None else read_row(row)
        except StorageUnavailable:
            return None
        except (CallerError, ValueError, OverflowError, OSError) as wrong:
            log.error("a last known answer cannot be read", key=key, reason=repr(wrong))
            return None

    async def _write_repeatedly(self) -> None:
        while True:
            await self._has_pending.wait()
            await asyncio.sleep(self._bounds.flush_seconds)
            self._has_pending.clear()
            if not await self._flush():
                self._has_pending.set()  # retry after flush_seconds

    async def _flush(self) -> bool:
        """Write what is pending, in batches; False when the database does not take it."""
        while self._resolutions or self._entries:
            resolutions = dict(list(self._resolutions.items())[:_BATCH])
            entries = dict(list(self._entries.items())[:_BATCH])
            try:
                await self._write(resolutions, entries)
            except StorageUnavailable as failed:
                log.warning("last known answers were not written", reason=failed.detail)
                return False
            except Exception:
                # A batch that can never be written must not block the later ones.
                log.exception("last known answers cannot be written and are dropped")
            _remove(self._resolutions, resolutions)
            _remove(self._entries, entries)
        return True

    async def _write(self, resolutions: Resolutions, entries: EntriesByName) -> None:
        unpruned = self._unpruned + len(resolutions) + len(entries)
        prunes = unpruned >= self._bounds.prune_every
        keep = (self._bounds.resolutions, self._bounds.links) if prunes else None
        await self._tables.write(_batch(milliseconds(self._now()), resolutions, entries, keep))
        self._unpruned = 0 if prunes else unpruned


def _batch(
    now: int, resolutions: Resolutions, entries: EntriesByName, keep: tuple[int, int] | None
) -> Batch:
    stored: list[Mapping[str, Any]] = []
    forgotten: list[Mapping[str, Any]] = []
    for (domain, coin), (resolved, at) in resolutions.items():
        key: dict[str, Any] = {"domain": domain, "coin": coin, "stored_at": milliseconds(at)}
        if resolved is None:
            forgotten.append(key)
        else:
            stored.append(key | _resolution_columns(resolved))
    linked: list[Mapping[str, Any]] = []
    unlinked: list[Mapping[str, Any]] = []
    for name, (entry, at) in entries.items():
        link: dict[str, Any] = {"name": name, "stored_at": milliseconds(at)}
        if entry is None:
            unlinked.append(link)
        else:
            linked.append(link | _ipns_columns(entry))
    return Batch(now, stored, forgotten, linked, unlinked, keep)


def _resolution_columns(resolved: Resolved) -> dict[str, Any]:
    records = resolved.records
    known = records.known_content
    return {
        "wallet": records.known_wallet,
        "content": None if known is None else _write_content(known),
        "wallet_is_owner": int(records.wallet_is_owner),
    }


def _ipns_columns(entry: StoredEntry) -> dict[str, Any]:
    ttl = None if entry.ttl is None else round(entry.ttl / timedelta(milliseconds=1))
    return {"path": entry.path, "record": entry.record, "ttl": ttl}


def _remove(pending: dict[K, V], written: dict[K, V]) -> None:
    """Take what was *written* out of what is *pending*, but not what was stored meanwhile."""
    for key, value in written.items():
        if pending.get(key) is value:
            del pending[key]


def _read_resolution(row: tuple[Any, ...]) -> Resolved:
    wallet, content, is_owner, stored_at = row
    return Resolved(
        Records(wallet, _read_content(content), bool(is_owner)), at_milliseconds(stored_at)
    )


def _read_entry(row: tuple[Any, ...]) -> StoredEntry:
    path, record, ttl, stored_at = row
    lifetime = None if ttl is None else timedelta(milliseconds=ttl)
    return StoredEntry(path, at_milliseconds(stored_at), record, lifetime)


def _write_content(content: ContentRecord) -> str:
    match content:
        case IpfsContent(cid):
            return f"ipfs://{cid}"
        case IpnsContent(name):
            return f"ipns://{name}"
        case OtherContent(codec, text):
            return f"{codec}:{text}"


def _read_content(text: str | None) -> ContentRecord | None:
    if text is None:
        return None
    codec, _, rest = text.partition(":")
    return parse_content(text) or OtherContent(codec, rest)
