"""Last known answers in the embedded database: what names pointed at, and where IPNS names led.

Written behind the answers, in batches and at most a second late: losing the last of them costs
a lookup and nothing else. Knows the tables `resolutions` and `ipns`, and keeps them bounded; how
long an answer serves is left to the directory and the resolver."""

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Self

import structlog

from content_gateway.content.cid import Cid
from content_gateway.content.ipns_name import IpnsName
from content_gateway.content.records import (
    ContentRecord,
    IpfsContent,
    IpnsContent,
    KnownLink,
    Learned,
    OtherContent,
    Records,
)
from content_gateway.content.wallet import CoinType
from content_gateway.errors import CallerError, StorageUnavailable
from content_gateway.storage.sqlite import Database, milliseconds, moment

MAX_RESOLUTIONS: Final = 1_000_000
MAX_LINKS: Final = 200_000
MAX_PENDING: Final = 10_000
_BATCH: Final = 500
_FLUSH_SECONDS: Final = 1.0
_PRUNE_EVERY: Final = 10_000  # rows written: the tables may be one in a hundred too large

_KEEP_RESOLUTION: Final = """
    INSERT INTO resolutions (domain, coin, wallet, wallet_is_owner, content, learned_at)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET wallet = excluded.wallet, content = excluded.content,
        wallet_is_owner = excluded.wallet_is_owner, learned_at = excluded.learned_at
    WHERE learned_at <= excluded.learned_at"""
_FORGET_RESOLUTION: Final = "DELETE FROM resolutions WHERE domain = ? AND coin = ?"
_KEEP_LINK: Final = """
    INSERT INTO ipns (name, path, record, ttl, learned_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET path = excluded.path, record = excluded.record,
        ttl = excluded.ttl, learned_at = excluded.learned_at
    WHERE learned_at <= excluded.learned_at"""
_FORGET_LINK: Final = "DELETE FROM ipns WHERE name = ?"
_PRUNE_RESOLUTIONS: Final = """
    DELETE FROM resolutions WHERE learned_at <
        (SELECT learned_at FROM resolutions ORDER BY learned_at DESC LIMIT 1 OFFSET ?)"""
_PRUNE_LINKS: Final = """
    DELETE FROM ipns WHERE learned_at <
        (SELECT learned_at FROM ipns ORDER BY learned_at DESC LIMIT 1 OFFSET ?)"""

Statement = tuple[str, tuple[Any, ...]]

log = structlog.get_logger(__name__)


class SqliteLastKnown:
    """Last known answers; owns the task that writes them. Open it with `async with`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._resolutions: dict[tuple[str, CoinType], Learned | None] = {}  # not written yet
        self._links: dict[str, KnownLink | None] = {}
        self._something = asyncio.Event()
        self._written = _PRUNE_EVERY  # so that the first batch prunes
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_writing(), name="last known answers")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        while self._resolutions or self._links:
            if not await self._flush():
                return

    def recall(self, domain: str, coin: CoinType) -> Learned | None:
        """What *domain* pointed at when last asked for, None if that is not known."""
        if (domain, coin) in self._resolutions:
            return self._resolutions[domain, coin]
        row = self._read(
            "SELECT wallet, content, wallet_is_owner, learned_at FROM resolutions"
            " WHERE domain = ? AND coin = ?",
            (domain, coin),
        )
        if row is None:
            return None
        wallet, content, is_owner, learned_at = row
        try:
            records = Records(wallet, _read_content(content), bool(is_owner))
        except (CallerError, ValueError):
            log.error("a last known answer cannot be read", domain=domain)
            return None
        return Learned(records, moment(learned_at))

    def keep(self, domain: str, coin: CoinType, learned: Learned | None) -> None:
        """Remember *learned*, or with None forget what was known."""
        if len(self._resolutions) < MAX_PENDING or (domain, coin) in self._resolutions:
            self._resolutions[domain, coin] = learned
            self._something.set()

    def recall_link(self, name: IpnsName) -> KnownLink | None:
        """Where *name* pointed when last looked at, None if that is not known."""
        if name.text in self._links:
            return self._links[name.text]
        row = self._read(
            "SELECT path, record, ttl, learned_at FROM ipns WHERE name = ?", (name.text,)
        )
        if row is None:
            return None
        path, record, ttl, learned_at = row
        lifetime = None if ttl is None else timedelta(milliseconds=ttl)
        return KnownLink(path, moment(learned_at), record, lifetime)

    def keep_link(self, name: IpnsName, link: KnownLink | None) -> None:
        """Remember where *name* points, or with None that it points nowhere."""
        if len(self._links) < MAX_PENDING or name.text in self._links:
            self._links[name.text] = link
            self._something.set()

    def _read(self, question: str, values: tuple[Any, ...]) -> Any:
        """The row that answers *question*, None also when the database cannot be read now."""
        try:
            return self._database.read(lambda db: db.execute(question, values).fetchone())
        except StorageUnavailable:
            return None

    async def _keep_writing(self) -> None:
        while True:
            await self._something.wait()
            await asyncio.sleep(_FLUSH_SECONDS)
            if await self._flush() and not (self._resolutions or self._links):
                self._something.clear()

    async def _flush(self) -> bool:
        """Write a batch of what is pending; False when the database did not take it."""
        resolutions = dict(list(self._resolutions.items())[:_BATCH])
        links = dict(list(self._links.items())[:_BATCH])
        statements = [_of_resolution(*key, learned) for key, learned in resolutions.items()]
        statements += [_of_link(name, link) for name, link in links.items()]
        self._written += len(statements)
        prunes = self._written >= _PRUNE_EVERY
        if prunes:
            statements += [(_PRUNE_RESOLUTIONS, (MAX_RESOLUTIONS,)), (_PRUNE_LINKS, (MAX_LINKS,))]
        try:
            await self._database.write(_all_of(statements))
        except StorageUnavailable as failed:
            log.warning("last known answers were not written", reason=failed.detail)
            return False
        if prunes:
            self._written = 0
        # What was learned while the batch was being written is not in it.
        for key, learned in resolutions.items():
            if self._resolutions.get(key) is learned:
                del self._resolutions[key]
        for name, link in links.items():
            if self._links.get(name) is link:
                del self._links[name]
        return True


def _all_of(statements: list[Statement]) -> Callable[[sqlite3.Connection], None]:
    def job(db: sqlite3.Connection) -> None:
        for statement, values in statements:
            db.execute(statement, values)

    return job


def _of_resolution(domain: str, coin: CoinType, learned: Learned | None) -> Statement:
    if learned is None:
        return _FORGET_RESOLUTION, (domain, coin)
    records = learned.records
    content = None if records.content is None else _write_content(records.content)
    values = (domain, coin, records.wallet, int(records.wallet_is_owner), content)
    return _KEEP_RESOLUTION, (*values, milliseconds(learned.at))


def _of_link(name: str, link: KnownLink | None) -> Statement:
    if link is None:
        return _FORGET_LINK, (name,)
    ttl = None if link.ttl is None else round(link.ttl / timedelta(milliseconds=1))
    return _KEEP_LINK, (name, link.path, link.record, ttl, milliseconds(link.at))


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
    scheme, _, rest = text.partition(":")
    if rest.startswith("//") and scheme in ("ipfs", "ipns"):
        rest = rest.removeprefix("//")
        return (
            IpfsContent(Cid.parse(rest)) if scheme == "ipfs" else IpnsContent(IpnsName.parse(rest))
        )
    return OtherContent(scheme, rest)
