"""What the pins of each issued key add up to, in SQL: a report, which reads all of them.

Knows the tables `api_keys`, `pins` and `contents`. A content's size is what the backend told while
it brought it in; before that is over, and where it told nothing, it is unknown."""

import sqlite3
from collections.abc import Mapping
from typing import Final

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.pins import Holdings

_SECONDS: Final = 120.0
_HOLDINGS: Final = (
    "SELECT requestor, count(*), sum(iif(is_known, size, 0)), sum(NOT is_known) FROM ("
    " SELECT api_keys.id AS requestor, contents.size AS size,"
    " contents.state = 'pinned' AND contents.size > 0 AS is_known"
    " FROM api_keys CROSS JOIN pins ON requestor = api_keys.id"
    " CROSS JOIN contents ON contents.id = content) GROUP BY requestor"
)


async def holdings_by_key(database: LedgerDatabase) -> Mapping[str, Holdings]:
    """The holdings of each issued key that has pins, by its id; raises StorageUnavailable."""

    def job(connection: sqlite3.Connection) -> dict[str, Holdings]:
        rows = connection.execute(_HOLDINGS)
        return {key: Holdings(pins, size, unsized) for key, pins, size, unsized in rows}

    return await database.search(job, seconds=_SECONDS)
