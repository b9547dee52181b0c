"""Last known answers in SQL: what names pointed at, and where IPNS names led.

Writes in the background, in batches and at most a second late: a lost write costs a lookup and
nothing else. Knows the tables `resolutions` and `ipns`, and bounds their size; how long an answer
may be used is left to the directory and the resolver."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

import structlog

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.errors import CallerError, StorageUnavailable
from content_gateway.ledger.sqlite.database import LedgerDatabase
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

# The newer answer wins, in whatever order two processes write. A time in the future was written by
# a wrong clock; without the second condition that answer would stay for ever.
_STORE_RESOLUTION: Final = """
    INSERT INTO resolutions (domain, coin, wallet, wallet_is_owner, content, stored_at)
    VALUES (:domain, :coin, :wallet, :wallet_is_owner, :content, :stored_at)
    ON CONFLICT DO UPDATE SET wallet = excluded.wallet, content = excluded.content,
        wallet_is_owner = excluded.wallet_is_owner, stored_at = excluded.stored_at
    WHERE stored_at <= excluded.stored_at OR stored_at > :now"""
_FORGET_RESOLUTION: Final = """
    DELETE FROM resolutions WHERE domain = :domain AND coin = :coin
        AND (stored_at <= :stored_at OR stored_at > :now)"""
_STORE_IPNS: Final = """
    INSERT INTO ipns (name, path, record, ttl, stored_at)
    VALUES (:name, :path, :record, :ttl, :stored_at)
    ON CONFLICT DO UPDATE SET path = excluded.path, record = excluded.record,
        ttl = excluded.ttl, stored_at = excluded.stored_at
    WHERE stored_at <= excluded.stored_at OR stored_at > :now"""
_FORGET_IPNS: Final = """
    DELETE FROM ipns WHERE name = :name AND (stored_at <= :stored_at OR stored_at > :now)"""
_PRUNE_RESOLUTIONS: Final = """
    DELETE FROM resolutions WHERE (domain, coin) IN
        (SELECT domain, coin FROM resolutions ORDER BY stored_at DESC LIMIT -1 OFFSET :most)"""
_PRUNE_IPNS: Final = """
    DELETE FROM ipns WHERE name IN
        (SELECT name FROM ipns ORDER BY stored_at DESC LIMIT -1 OFFSET :most)"""

Statement = tuple[str, dict[str, Any]]
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


class SqliteLastKnown:
    """Last known answers; owns the task that writes them. Open it with `async with`."""

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        bounds: StoreLimits | None = None,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
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
        return self._read(
            "SELECT wallet, content, wallet_is_owner, stored_at FROM resolutions"
            " WHERE domain = ? AND coin = ?",
            (domain, coin),
            _read_resolution,
        )

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
        return self._read(
            "SELECT path, record, ttl, stored_at FROM ipns WHERE name = ?",
            (name.text,),
            _read_entry,
        )

    def store_ipns(self, name: IpnsName, entry: StoredEntry | None) -> None:
        """Store the *entry* of *name*; None deletes it. Dropped as in `store`."""
        if len(self._entries) < self._bounds.pending or name.text in self._entries:
            self._entries[name.text] = (entry, self._now() if entry is None else entry.at)
            self._has_pending.set()

    def _read(
        self, question: str, values: tuple[Any, ...], read_row: Callable[[tuple[Any, ...]], T]
    ) -> T | None:
        """The value of the row; None also where it cannot be read: the caller can look it up."""
        try:
            row = self._database.read(lambda db: db.execute(question, values).fetchone())
            return None if row is None else read_row(row)
        except StorageUnavailable:
            return None
        except (CallerError, ValueError, OverflowError, OSError) as wrong:
            log.error("a last known answer cannot be read", key=values[0], reason=repr(wrong))
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
        now = milliseconds(self._now())
        statements = [
            *(_resolution_statement(*key, *value, now) for key, value in resolutions.items()),
            *(_ipns_statement(name, *value, now) for name, value in entries.items()),
        ]
        unpruned = self._unpruned + len(statements)
        prunes = unpruned >= self._bounds.prune_every
        if prunes:
            statements.append((_PRUNE_RESOLUTIONS, {"most": self._bounds.resolutions}))
            statements.append((_PRUNE_IPNS, {"most": self._bounds.links}))
        await self._database.write(_execute_all(statements))
        self._unpruned = 0 if prunes else unpruned


def _remove(pending: dict[K, V], written: dict[K, V]) -> None:
    """Take what was *written* out of what is *pending*, but not what was stored meanwhile."""
    for key, value in written.items():
        if pending.get(key) is value:
            del pending[key]


def _execute_all(statements: list[Statement]) -> Callable[[sqlite3.Connection], None]:
    def job(db: sqlite3.Connection) -> None:
        for statement, values in statements:
            db.execute(statement, values)

    return job


def _resolution_statement(
    domain: str, coin: CoinType, resolved: Resolved | None, at: datetime, now: int
) -> Statement:
    values = {"domain": domain, "coin": coin, "stored_at": milliseconds(at), "now": now}
    if resolved is None:
        return _FORGET_RESOLUTION, values
    records = resolved.records
    content = None if (known := records.known_content) is None else _write_content(known)
    values |= {"wallet": records.known_wallet, "content": content}
    return _STORE_RESOLUTION, values | {"wallet_is_owner": int(records.wallet_is_owner)}


def _ipns_statement(name: str, entry: StoredEntry | None, at: datetime, now: int) -> Statement:
    values = {"name": name, "stored_at": milliseconds(at), "now": now}
    if entry is None:
        return _FORGET_IPNS, values
    ttl = None if entry.ttl is None else round(entry.ttl / timedelta(milliseconds=1))
    return _STORE_IPNS, values | {"path": entry.path, "record": entry.record, "ttl": ttl}


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
