"""Pins to be added, what becomes of each, and when they were made. No I/O.

What both databases share of it: how a group of them becomes rows is left to the adapters."""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from content_gateway.errors import KeyRefused, PinLimitReached
from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label, Pin

_SECOND: Final = 1_000_000  # microseconds
_MILLISECOND: Final = 1_000


class Addition(NamedTuple):
    """A pin to be added, unless its requestor has *most* already; 0 is no limit."""

    requestor: str
    cid: Cid
    spelling: str
    label: Label
    most: int = 0


class Refusal(Enum):
    """In place of a pin: its requestor has as many as it may have, or its key was revoked."""

    LIMIT_REACHED = "limit"
    REVOKED = "revoked"


Added: TypeAlias = Pin | Refusal | None


def next_timestamp(now: int, last: int | None) -> int:
    """The creation time of a requestor's next pin, after *last*, in microseconds.

    The next free whole millisecond, as clients of the Pinning Service API may cut off the rest;
    where that would be more than a second ahead of *now*, the next free microsecond."""
    if last is None:
        return now // _MILLISECOND * _MILLISECOND
    whole = max(now // _MILLISECOND, last // _MILLISECOND + 1) * _MILLISECOND
    return whole if whole <= now + _SECOND else max(now, last + 1)


def spelling_column(spelling: str, cid: Cid) -> str | None:
    """The value of the column spelling: NULL for the canonical one, which is usual."""
    return None if spelling == str(cid) else spelling


def not_refused(added: Added, most: int = 0) -> Pin | None:
    """What was *added*, of at most so many; raises KeyRefused and PinLimitReached."""
    match added:
        case Refusal.REVOKED:
            raise KeyRefused("revoked")
        case Refusal.LIMIT_REACHED:
            raise PinLimitReached(f"The API key has {most:,} pins, as many as it may have.")
        case _:
            return added
