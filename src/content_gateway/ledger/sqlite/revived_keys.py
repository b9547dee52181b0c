"""Which API keys a ledger lets in that another one does not: what a restored backup brings back.

Knows the columns of `api_keys` that all versions have. Reads only, on connections that it is given;
which ledgers these are, and what follows, is left to the commands."""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Final

_LIVE: Final = (
    "SELECT secret_hash, name FROM api_keys WHERE revoked_at IS NULL"
    " AND (expires_at IS NULL OR expires_at > ?) ORDER BY name"
)


def revived_keys(restored: sqlite3.Connection, present: sqlite3.Connection) -> Sequence[str]:
    """The names of keys whose secret works by *restored*, and not by *present*: of those that were
    revoked or rotated meanwhile. Raises sqlite3.Error."""
    works = _live(present)
    return [name for secret, name in _live(restored).items() if secret not in works]


def _live(connection: sqlite3.Connection) -> Mapping[bytes, str]:
    """The names of valid keys by the hash of their secret."""
    return dict(connection.execute(_LIVE, (round(time.time() * 1000),)).fetchall())
