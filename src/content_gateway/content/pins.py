"""Pins and the contents behind them, as values.

Knows the fields of the interface specification's section 2.4 and how far a backend can be with
a content; what follows from that is decided in `pins/`."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto

from content_gateway.content.cid import Cid
from content_gateway.content.moments import rfc3339


@dataclass(frozen=True, slots=True)
class Pin:
    """One requestor's hold on one CID, spelt as the requestor spelt it first.

    *created_at* is in UTC, in whole milliseconds."""

    cid: Cid
    spelling: str
    created_at: datetime

    @property
    def timestamp(self) -> str:
        """The time of creation as RFC 3339."""
        return rfc3339(self.created_at)


class ContentState(StrEnum):
    """How far the backend is with a content; the promise itself is made when it is queued."""

    QUEUED = "queued"
    PINNING = "pinning"
    PINNED = "pinned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PinStatus:
    """A requestor's pin and how far the backend is with it.

    *error* is why the last attempt failed, None if it did not."""

    pin: Pin
    state: ContentState
    attempts: int
    error: str | None


class Holding(Enum):
    """What a backend says it has of one content."""

    ABSENT = auto()
    PINNING = auto()
    PINNED = auto()


@dataclass(frozen=True, slots=True)
class Due:
    """A leased content: how often it was tended without success."""

    cid: Cid
    attempts: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What tending a content has shown; *again_in* seconds until the next look, None: settled."""

    state: ContentState
    again_in: float | None
    error: str | None = None
