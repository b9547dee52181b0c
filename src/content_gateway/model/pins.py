"""Pins, as their requestors see them, and the cursors of their pages. No I/O.

Knows the fields of spec.yaml and of the Pinning Service API's Pin object. The states of the content
behind a pin are in model/content_state.py; decisions are left to `pins/`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Final

import msgspec

from content_gateway.codecs.timestamps import at_microseconds, microseconds, rfc3339
from content_gateway.errors import InvalidCursor
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, Peer

MAX_LABEL_BYTES: Final = 4096
MAX_PAGE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Label:
    """A requestor's own description of its pin (Pinning Service API, Pin).

    *name*: for people, at most 255 characters (ValueError if one is NUL). *origins*: at most 20
    multiaddrs of nodes that have the content. *meta*: anything to search by. New labels have at
    most MAX_LABEL_BYTES; earlier versions accepted more."""

    name: str | None = None
    origins: tuple[str, ...] = ()
    meta: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name is not None and "\0" in self.name:
            raise ValueError("a name has a NUL in it")

    @property
    def encoded_bytes(self) -> int:
        """Its size as JSON, in which a control character takes six bytes (RFC 8259 section 7)."""
        said = {"name": self.name, "origins": self.origins, "meta": self.meta}
        return len(msgspec.json.encode({key: value for key, value in said.items() if value}))


NO_LABEL = Label()


@dataclass(frozen=True, slots=True)
class Pin:
    """One requestor's pin of one CID, with the spelling that was first sent.

    *created_at*: UTC, in whole microseconds; unique for a requestor, whose pins it orders."""

    cid: Cid
    spelling: str
    created_at: datetime
    label: Label = NO_LABEL

    @property
    def timestamp(self) -> str:
        """The time of creation as RFC 3339, in milliseconds."""
        return rfc3339(self.created_at)

    @property
    def fields(self) -> dict[str, str]:
        """What every JSON form of a pin begins with, but the Pinning Service API's (spec.yaml)."""
        return {"cid": self.spelling, "type": "pin", "timestamp": self.timestamp}


@dataclass(frozen=True, slots=True)
class PinStatus:
    """A requestor's pin and how far the backend is with its content.

    *replicas* of *wanted* peers hold it. *blocks* and *size* (bytes): fetched so far, 0 if unknown.
    *error*: why it is not pinned, None if nothing went wrong. *attempts*: since it was last pinned.
    *next_at*: when it is reconciled next, None if final or in progress."""

    pin: Pin
    state: ContentState
    replicas: int = 0
    wanted: int = 0
    peers: Sequence[Peer] = ()
    blocks: int = 0
    size: int = 0
    attempts: int = 0
    error: str | None = None
    next_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def reason(self) -> str | None:
        """Why it is not pinned, in words for the operator; None if nothing went wrong."""
        return self.error or _REASONS.get(self.state)


# The reason where the backend gave none.
_REASONS: Final[Mapping[ContentState, str]] = {
    ContentState.FAILED: "The backend could not pin it, and did not say why.",
    ContentState.UNPINNED: "The backend held it, and does not any more.",
}


class Removal(Enum):
    """Whether somebody still holds the content after a requestor removed its pin."""

    RELEASED = auto()  # nobody: it is unpinned after the grace period
    STILL_HELD = auto()  # another requestor does


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the pins of one requestor add up to: *size* bytes of contents whose size the backend
    told, and *unsized* pins of contents whose size is not known."""

    pins: int = 0
    size: int = 0
    unsized: int = 0


class Match(StrEnum):
    """How a name is compared (Pinning Service API, TextMatchingStrategy)."""

    EXACT = "exact"
    IEXACT = "iexact"
    PARTIAL = "partial"
    IPARTIAL = "ipartial"


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a requestor's pins: those that pass every filter that is set.

    *before* and *after*: creation times, exclusive. *cursor*: the page begins behind that pin."""

    states: frozenset[ContentState] | None = None
    cids: tuple[Cid, ...] = ()
    name: str | None = None
    match: Match = Match.EXACT
    meta: Mapping[str, str] = field(default_factory=dict)
    before: datetime | None = None
    after: datetime | None = None
    cursor: datetime | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the pins that a search finds, newest first.

    Has the limit of the search, or fewer if their text exceeds MAX_PAGE_BYTES. *count*: all that
    pass the filters, wherever the page begins. *more*: older ones follow. Statuses have no
    *peers*."""

    count: int
    pins: Sequence[PinStatus]
    more: bool


_CURSOR: Final = re.compile(r"[0-9a-f]{1,15}", re.ASCII)


def cursor_behind(pin: Pin) -> str:
    """The cursor of the page that begins behind *pin*: its creation time in hexadecimal."""
    return f"{microseconds(pin.created_at):x}"


def parse_cursor(text: str) -> datetime:
    """The creation time behind which the page begins; raises InvalidCursor."""
    try:
        if _CURSOR.fullmatch(text):
            return at_microseconds(int(text, 16))
    except OverflowError:
        pass
    raise InvalidCursor("The cursor is not one that was given out.")
