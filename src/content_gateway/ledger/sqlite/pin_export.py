"""A requestor's pins in the order in which they were made, for whoever writes them down.

Knows the tables `pins` and `contents`. The form in which they are written is left to the
command."""

from collections.abc import AsyncIterator, Sequence
from sqlite3 import Connection
from typing import Final

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.pin_rows import LISTED, status_of
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.pins import PinStatus

_PAGE: Final = 1_000
_FIRST: Final = -1
_QUERY: Final = (
    f"SELECT {LISTED} FROM pins JOIN contents ON id = content"  # noqa: S608 - constant
    " WHERE requestor = ? AND created_at > ? ORDER BY created_at LIMIT ?"
)


async def oldest_first(
    database: LedgerDatabase, requestor: str
) -> AsyncIterator[Sequence[PinStatus]]:
    """All pins of *requestor*, in pages, each of them one moment of the ledger.

    Raises StorageUnavailable."""
    last = _FIRST
    while True:
        values = (requestor, last, _PAGE)

        def job(
            connection: Connection, values: tuple[str, int, int] = values
        ) -> Sequence[PinStatus]:
            return [status_of(row) for row in connection.execute(_QUERY, values)]

        pins = await database.search(job, requestor=requestor)
        if not pins:
            return
        yield pins
        last = microseconds(pins[-1].pin.created_at)
