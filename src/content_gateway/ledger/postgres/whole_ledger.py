"""What operators ask of a whole ledger in PostgreSQL: reports that read much of it.

Knows the tables `api_keys`, `requestors`, `pins` and `contents`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.pin_rows import status_of
from content_gateway.ledger.postgres.pin_searches import LISTED, TABLES
from content_gateway.ledger.postgres.requestors import LOCK, PINS_OF_REQUESTOR
from content_gateway.model.pins import Holdings, PinStatus
from content_gateway.postgres.transactions import Database, Transaction

_SECONDS: Final = 120.0
_RECOUNT_SECONDS: Final = 3_600.0
_PAGE: Final = 1_000
# A content's size is what the backend told while it brought it in.
_HOLDINGS: Final = (
    "SELECT id, count(*), coalesce(sum(size) FILTER (WHERE is_known), 0)::bigint,"
    " count(*) FILTER (WHERE NOT is_known) FROM (SELECT k.id, c.size,"
    " c.state = 'pinned' AND c.size > 0 AS is_known FROM api_keys k"
    " JOIN requestors r ON r.requestor = k.id JOIN pins p ON p.requestor = r.number"
    " JOIN contents c ON c.id = p.content) held GROUP BY id"
)
_OLDEST: Final = (
    f"SELECT {LISTED} FROM {TABLES}"  # noqa: S608 - constants
    " WHERE p.requestor = (SELECT number FROM requestors WHERE requestor = %s)"
    " AND p.created_at > %s ORDER BY p.created_at LIMIT %s"
)
_NEXT: Final = (
    "SELECT requestor FROM requestors WHERE requestor >= %s AND pins > 0 ORDER BY requestor LIMIT 1"
)
_MISCOUNTED: Final = f"SELECT number FROM requestors WHERE pins <> ({PINS_OF_REQUESTOR})"  # noqa: S608
_RECOUNT: Final = (
    f"UPDATE requestors SET pins = ({PINS_OF_REQUESTOR}) WHERE number = %s"  # noqa: S608
    f" AND pins <> ({PINS_OF_REQUESTOR}) RETURNING number"
)


async def holdings_by_key(database: Database) -> Mapping[str, Holdings]:
    """The holdings of each issued key that has pins, by its id; raises StorageUnavailable."""

    async def job(transaction: Transaction) -> dict[str, Holdings]:
        return {row[0]: Holdings(*row[1:]) for row in await transaction.ask(_HOLDINGS)}

    return await database.search(job, seconds=_SECONDS)


async def requestor_from(database: Database, least: str) -> str | None:
    """The first requestor with pins in the order of their ids, *least* or behind it; None at the
    end. Raises StorageUnavailable."""
    # Ids end where a NUL would follow, which this database has in no text.
    bare = least.rstrip("\0")
    rows = await database.ask(_NEXT, (bare,))
    if rows and bare != least and rows[0][0] == bare:
        rows = await database.ask(_NEXT.replace(">=", ">"), (bare,))
    return str(rows[0][0]) if rows else None


async def recount_pins(database: Database) -> int:
    """Count the pins of all requestors again; of how many the count was wrong.

    Raises StorageUnavailable."""

    async def wrong(transaction: Transaction) -> Sequence[int]:
        return [number for (number,) in await transaction.ask(_MISCOUNTED)]

    corrected = 0
    for number in await database.search(wrong, seconds=_RECOUNT_SECONDS, is_ours=True):

        async def job(transaction: Transaction, number: int = number) -> int:
            await transaction.ask(LOCK, ([number],))  # from here on nobody changes its pins
            return len(await transaction.ask(_RECOUNT, (number,)))

        corrected += await database.transact(job)
    return corrected


async def oldest_first(database: Database, requestor: str) -> AsyncIterator[Sequence[PinStatus]]:
    """All pins of *requestor*, in pages, each of them one moment of the ledger.

    Raises StorageUnavailable."""
    last = -1
    while True:
        values = (requestor, last, _PAGE)

        async def job(
            transaction: Transaction, values: tuple[str, int, int] = values
        ) -> Sequence[PinStatus]:
            return [status_of(row) for row in await transaction.ask(_OLDEST, values)]

        pins = await database.search(job, requestor=requestor)
        if not pins:
            return
        yield pins
        last = microseconds(pins[-1].pin.created_at)
