"""Converts rows of the table `audit` to values, and says how often it is made smaller. No I/O."""

from typing import Any, Final

from content_gateway.codecs.timestamps import at_milliseconds
from content_gateway.model.audit import AuditAction, AuditEntry

STEP: Final = 1_024  # entries between two deletions, in a log of as many or more


def step_of(entries: int) -> int:
    """After how many entries the oldest are deleted from a log of so many *entries*."""
    return max(1, min(STEP, entries // 16))


def entry_of(row: tuple[Any, ...]) -> AuditEntry:
    """The value of a row (id, at, requestor, is_operator, action, detail, number)."""
    number, at, requestor, is_operator, action, detail, counted = row
    return AuditEntry(
        id=number,
        at=at_milliseconds(at),
        requestor=requestor,
        is_operator=bool(is_operator),
        action=AuditAction(action),
        detail=detail,
        number=counted,
    )
