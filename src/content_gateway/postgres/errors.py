"""What PostgreSQL refuses, in our words: one table, by SQLSTATE.

Knows the codes (postgresql.org/docs, Appendix A) and what each means for whoever waits: whether it
is the operator's to set right, ours to try again, or a moment to wait. Callers are told that the
ledger cannot be used; why is for the log."""

from typing import Final

import psycopg
import structlog

from content_gateway.errors import StorageUnavailable, WrongSettings

# Where the operator has to do something before this database can be used. What goes wrong before a
# connection is made has no code here; libpq says it in words.
_SETTINGS: Final = {
    "42501": "the user may not do that: it must own the tables, or be allowed to create them",
    "0A000": "the server cannot do that",
}
_REASONS: Final = {
    "25006": "it is a read-only standby",
    "53100": "its disk is full",
    "53200": "it has no memory",
    "53300": "it has no connection left (max_connections)",
    "57014": "it took too long",
    "57P01": "it is shutting down",
    "57P02": "it has crashed",
    "57P03": "it is starting, or shutting down",
}
# The transaction has lost against another one: the same again may succeed.
_AGAIN: Final = frozenset({"40001", "40P01", "55P03"})
# The connection is of no more use: the server it leads to is no primary, or is going away.
_LOST: Final = frozenset({"25006", "57P01", "57P02", "57P03"})

log = structlog.get_logger(__name__)


def may_succeed_again(wrong: Exception) -> bool:
    """Whether a transaction that failed so has changed nothing, and is worth another try."""
    return isinstance(wrong, psycopg.Error) and wrong.sqlstate in _AGAIN


def is_of_no_use(connection: psycopg.AsyncConnection[object], wrong: Exception | None) -> bool:
    """Whether *connection* is to be closed after *wrong* was raised."""
    state = wrong.sqlstate if isinstance(wrong, psycopg.Error) else None
    return connection.closed or state in _LOST


def refusal(wrong: psycopg.Error, name: str, done: str) -> StorageUnavailable:
    """What to raise where the database that people call *name* cannot be *done* ("read",
    "written"); logs why, and has the cause chained."""
    reason = _REASONS.get(wrong.sqlstate or "", "") or first_line(wrong)
    log.error(f"the {name} cannot be {done}", reason=reason, code=wrong.sqlstate)
    refused = StorageUnavailable(f"The {name} cannot be {done} now.")
    refused.__cause__ = wrong
    return refused


def wrong_settings(wrong: psycopg.Error) -> WrongSettings:
    """What to raise where a database cannot be opened. It holds no password: libpq tells none."""
    reason = _SETTINGS.get(wrong.sqlstate or "") or _REASONS.get(wrong.sqlstate or "")
    said = first_line(wrong)
    return WrongSettings(f"database.url: {reason}: {said}" if reason else f"database.url: {said}")


def first_line(wrong: BaseException) -> str:
    """The first line of what libpq or the server says."""
    return next(iter(str(wrong).strip().splitlines()), type(wrong).__name__)
