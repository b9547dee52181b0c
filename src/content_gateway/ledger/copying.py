"""Copies a whole ledger from one database to another, table by table; resumable, and verified.

Theory of operation. Each table is read in the order of its key, in batches, and a batch is written
in one transaction. So whatever happens, the copy is a beginning of the original: it goes on behind
the last key that it has. At the end both are read again, row by row, and compared; only then may a
service open the copy. Numbers are kept, so that a copy of a copy is the original.

Leases are not copied: what is leased is due when its lease would end. Knows the tables and their
columns as both databases can give them; how they are read and written is left to the adapters."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from content_gateway.errors import GatewayError

BATCH: Final = 5_000

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the copy: its *columns*, the first *key* of which are its key, ascending."""

    name: str
    columns: tuple[str, ...]
    key: int = 1


# In this order: what is referred to comes before what refers to it.
TABLES: Final = (
    Table(
        "api_keys",
        (
            *("id", "name", "prefix", "secret_hash", "scopes", "created_at", "expires_at"),
            *("revoked_at", "type", "limits", "replaced_hash", "replaced_until", "used_at"),
        ),
    ),
    Table("requestors", ("number", "requestor", "pins")),
    Table(
        "contents",
        (
            *("id", "cid", "state", "generation", "attempts", "status_checks", "last_request"),
            *("requested_at", "replicas", "wanted", "peers", "blocks", "size", "error"),
            # When it is reconciled next, and in whose turn; NULL and 0 where nothing is to be done.
            *("updated_at", "next_at", "turn_of"),
        ),
    ),
    Table(
        "pins",
        (
            *("requestor", "created_at", "content"),  # the requestor's number
            *("spelling", "name", "folded", "origins", "meta"),
        ),
        key=2,
    ),
    Table("audit", ("id", "at", "requestor", "is_operator", "action", "detail", "number")),
    Table(
        "resyncs",
        (
            *("id", "started_at", "ended_at", "listed", "missing", "unmanaged", "sample"),
            "under_replicated",
        ),
    ),
    Table(
        "resolutions",
        ("domain", "coin", "wallet", "wallet_is_owner", "content", "stored_at"),
        key=2,
    ),
    Table("ipns", ("name", "path", "record", "ttl", "stored_at")),
)


class Original(Protocol):
    """A ledger to be read as a whole. Methods raise GatewayError."""

    async def read(self, table: Table, above: Row | None, limit: int) -> Sequence[Row]:
        """The next *limit* rows of *table* whose key is *above*, in its order; None: the first."""


class Copy(Original, Protocol):
    """A ledger to be written as a whole."""

    async def last_key(self, table: Table) -> Row | None:
        """The last key of *table*; None where it is empty."""

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Add *rows*, in one durable transaction."""

    async def finish(self) -> None:
        """Let services open it."""


async def copy_all(
    original: Original, copy: Copy, shown: Callable[[str, int], None]
) -> Mapping[str, int]:
    """Copy what is missing, and verify all of it; how many rows each table has.

    *shown* is told how far it is. Raises GatewayError where the copy is not what the original is:
    it was another ledger's, or the original changed meanwhile."""
    counts = {}
    for table in TABLES:
        above = await copy.last_key(table)
        if above is not None:
            await _check_same(original, copy, table)
        copied = 0
        while rows := await original.read(table, above, BATCH):
            await copy.write(table, [clean(row) for row in rows])
            above, copied = rows[-1][: table.key], copied + len(rows)
            shown(f"{table.name} copied", copied)
    for table in TABLES:
        counts[table.name] = await _verify(original, copy, table, shown)
    await copy.finish()
    return counts


def clean(row: Row) -> Row:
    """*row* as both databases can have it: without NUL, which PostgreSQL has in no text."""
    return tuple(
        value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
        for value in row
    )


async def _check_same(original: Original, copy: Copy, table: Table) -> None:
    """Raises GatewayError unless the copy begins as the original does."""
    first = [clean(row) for row in await original.read(table, None, 1)]
    if first != [clean(row) for row in await copy.read(table, None, 1)]:
        raise GatewayError(f"What is there is no copy of that ledger: its {table.name} differ.")


async def _verify(
    original: Original, copy: Copy, table: Table, shown: Callable[[str, int], None]
) -> int:
    digests = []
    for ledger in (original, copy):
        digest, count = hashlib.sha256(), 0
        async for rows in _batches(ledger, table):
            digest.update(msgspec.msgpack.encode([clean(row) for row in rows]))
            count += len(rows)
            shown(f"{table.name} verified", count)
        digests.append((digest.digest(), count))
    if digests[0] != digests[1]:
        raise GatewayError(
            f"The {table.name} of both differ ({digests[0][1]:,} and {digests[1][1]:,}): stop what"
            " writes to the original, and copy it into an empty database."
        )
    return digests[0][1]


async def _batches(ledger: Original, table: Table) -> AsyncIterator[Sequence[Row]]:
    above: Row | None = None
    while rows := await ledger.read(table, above, BATCH):
        yield rows
        above = rows[-1][: table.key]
