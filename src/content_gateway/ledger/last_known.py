"""Last known answers in the embedded database: what names pointed at, and where IPNS names led.

Written behind the answers, in batches and at most a second late: losing the last of them costs
a lookup and nothing else. Knows the tables `resolutions` and `ipns`, and keeps them bounded; how
long an answer serves is left to the directory and the resolver."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, TypeVar

import structlog

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.errors import CallerError, StorageUnavailable
from content_gateway.ledger.database import LedgerDatabase
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

# What was stored later wins, whichever process writes it first. A moment that lies ahead comes
# from a clock that was wrong, and would otherwise stay for ever.
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
# What was resolved, or None for absence, and when.
Resolutions = dict[tuple[str, CoinType], tuple[Resolved | None, datetime]]
LinksByName = dict[str, tuple[StoredEntry | None, datetime]]
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """How many answers are kept, how many may wait to be written, and for how many seconds.

    The tables are pruned after every *prune_every* rows: so many more may be in them."""

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
        self._today = today
        self._resolutions: Resolutions = {}  # not written yet
        self._links: LinksByName = {}
        self._something = asyncio.Event()
        self._unpruned = self._bounds.prune_every  # so that the first batch prunes
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_writing(), name="last known answers")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._flush()

    def load(self, domain: str, coin: CoinType) -> Resolved | None:
        """What *domain* pointed at when last asked for, None if that is not known."""
        if (domain, coin) in self._resolutions:
            return self._resolutions[domain, coin][0]
        return self._read(
            "SELECT wallet, content, wallet_is_owner, stored_at FROM resolutions"
            " WHERE domain = ? AND coin = ?",
            (domain, coin),
            _read_resolution,
        )

    def store(self, domain: str, coin: CoinType, resolved: Resolved | None) -> None:
        """Remember *resolved*, which is whole, or with None forget what was known."""
        if len(self._resolutions) < self._bounds.pending or (domain, coin) in self._resolutions:
            at = self._today() if resolved is None else resolved.at
            self._resolutions[domain, coin] = (resolved, at)
            self._something.set()

    def load_ipns(self, name: IpnsName) -> StoredEntry | None:
        """Where *name* pointed when last checked, None if that is not known."""
        if name.text in self._links:
            return self._links[name.text][0]
        return self._read(
            "SELECT path, record, ttl, stored_at FROM ipns WHERE name = ?",
            (name.text,),
            _read_link,
        )

    def store_ipns(self, name: IpnsName, link: StoredEntry | None) -> None:
        """Remember where *name* points, or with None that it points nowhere."""
        if len(self._links) < self._bounds.pending or name.text in self._links:
            self._links[name.text] = (link, self._today() if link is None else link.at)
            self._something.set()

    def _read(
        self, question: str, values: tuple[Any, ...], read_row: Callable[[tuple[Any, ...]], T]
    ) -> T | None:
        """The row that answers *question*; None also when it cannot be read, now or ever."""
        try:
            row = self._database.read(lambda db: db.execute(question, values).fetchone())
            return None if row is None else read_row(row)
        except StorageUnavailable:
            return None
        except (CallerError, ValueError, OverflowError, OSError) as wrong:
            log.error("a last known answer cannot be read", key=values[0], reason=repr(wrong))
            return None

    async def _keep_writing(self) -> None:
        while True:
            await self._something.wait()
            await asyncio.sleep(self._bounds.flush_seconds)
            self._something.clear()
            if not await self._flush():
                self._something.set()  # again in a moment

    async def _flush(self) -> bool:
        """Write what is pending, in batches; False when the database does not take it."""
        while self._resolutions or self._links:
            resolutions = dict(list(self._resolutions.items())[:_BATCH])
            links = dict(list(self._links.items())[:_BATCH])
            try:
                await self._write(resolutions, links)
            except StorageUnavailable as failed:
                log.warning("last known answers were not written", reason=failed.detail)
                return False
            except Exception:
                # Whatever it is, it would stand in the way of all that comes after it.
                log.exception("last known answers cannot be written and are dropped")
            _remove(self._resolutions, resolutions)
            _remove(self._links, links)
        return True

    async def _write(self, resolutions: Resolutions, links: LinksByName) -> None:
        now = milliseconds(self._today())
        statements = [
            *(_of_resolution(*key, *value, now) for key, value in resolutions.items()),
            *(_of_link(name, *value, now) for name, value in links.items()),
        ]
        unpruned = self._unpruned + len(statements)
        prunes = unpruned >= self._bounds.prune_every
        if prunes:
            statements.append((_PRUNE_RESOLUTIONS, {"most": self._bounds.resolutions}))
            statements.append((_PRUNE_IPNS, {"most": self._bounds.links}))
        await self._database.write(_all_of(statements))
        self._unpruned = 0 if prunes else unpruned


def _remove(pending: dict[K, V], written: dict[K, V]) -> None:
    """Take what was *written* out of what is *pending*, but not what was stored meanwhile."""
    for key, value in written.items():
        if pending.get(key) is value:
            del pending[key]


def _all_of(statements: list[Statement]) -> Callable[[sqlite3.Connection], None]:
    def job(db: sqlite3.Connection) -> None:
        for statement, values in statements:
            db.execute(statement, values)

    return job


def _of_resolution(
    domain: str, coin: CoinType, resolved: Resolved | None, at: datetime, now: int
) -> Statement:
    values = {"domain": domain, "coin": coin, "stored_at": milliseconds(at), "now": now}
    if resolved is None:
        return _FORGET_RESOLUTION, values
    records = resolved.records
    content = None if (known := records.known_content) is None else _write_content(known)
    values |= {"wallet": records.known_wallet, "content": content}
    return _STORE_RESOLUTION, values | {"wallet_is_owner": int(records.wallet_is_owner)}


def _of_link(name: str, link: StoredEntry | None, at: datetime, now: int) -> Statement:
    values = {"name": name, "stored_at": milliseconds(at), "now": now}
    if link is None:
        return _FORGET_IPNS, values
    ttl = None if link.ttl is None else round(link.ttl / timedelta(milliseconds=1))
    return _STORE_IPNS, values | {"path": link.path, "record": link.record, "ttl": ttl}


def _read_resolution(row: tuple[Any, ...]) -> Resolved:
    wallet, content, is_owner, stored_at = row
    return Resolved(
        Records(wallet, _read_content(content), bool(is_owner)), at_milliseconds(stored_at)
    )


def _read_link(row: tuple[Any, ...]) -> StoredEntry:
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
