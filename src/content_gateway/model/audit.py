"""The audit log's entries: what was done to the pins and keys of a requestor, and what was refused.

Values only. When they are written, and how many are kept, is in ledger/sqlite/audit.py."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto


class AuditAction(StrEnum):
    """What happened."""

    PIN = auto()
    UNPIN = auto()
    REFUSED = auto()
    CREATE = auto()
    ROTATE = auto()
    REVOKE = auto()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry; *requestor* is the id of whose pin or key it is about.

    *detail* is the CID of a pin, the code of a refusal, or what a key may do. *number* refusals of
    that code were counted in the hour that begins *at*; of all else there is one."""

    id: int
    at: datetime
    requestor: str
    is_operator: bool
    action: AuditAction
    detail: str
    number: int


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """A search of the log: the entries that pass every filter that is set.

    *before* is the id of the last entry of the page before; a page has at most *limit*."""

    requestor: str | None = None
    action: AuditAction | None = None
    since: datetime | None = None
    before: int | None = None
    limit: int = 1_000
