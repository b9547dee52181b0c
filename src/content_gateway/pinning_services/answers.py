"""What a pinning service answers to `GET /pins`: bytes in, a page of pins out. No I/O.

Knows the API's PinResults and PinStatus objects (its yaml, version 1.0.0), and takes what an import
needs of them; one that is wrong does not spoil the others. Which page comes next is left to
listing.py, what a Pin object may hold to whoever imports it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from content_gateway.errors import InvalidUpstreamResponse

_FRACTION: Final = re.compile(r"\.(\d+)", re.ASCII)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DIGITS_OF_MILLISECONDS: Final = 3
_LONGEST_ID: Final = 4096
NARROWER: Final = {_SECOND: _MILLISECOND, _MILLISECOND: _MICROSECOND, _MICROSECOND: timedelta(0)}
"""The unit of time below each; nothing below a microsecond, the finest that we can tell."""


@dataclass(frozen=True, slots=True)
class ListedPin:
    """A pin as a service lists it: *pin* is its Pin object in JSON, as it was sent.

    *id* tells it from other pins. *created* (UTC) is cut off to microseconds, and stands for
    everything within one *unit* from then: services show fewer digits than they compare. Both are
    None where no time can be read."""

    id: str
    pin: bytes
    created: datetime | None
    unit: timedelta | None


@dataclass(frozen=True, slots=True)
class PinPage:
    """A page as it was sent; *count*: how many pins pass the filters, says the service."""

    count: int
    pins: Sequence[ListedPin]


class _Results(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]
    count: int | None = None


class _Status(msgspec.Struct, frozen=True):
    pin: msgspec.Raw = msgspec.Raw(b"null")
    requestid: str | int = ""
    created: str | None = None


_RESULTS: Final = msgspec.json.Decoder(_Results)
_STATUS: Final = msgspec.json.Decoder(_Status)


def parse_page(body: bytes) -> PinPage:
    """The page in *body*; raises InvalidUpstreamResponse when it is none."""
    try:
        found = _RESULTS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidUpstreamResponse(
            "What the service sent is no list of pins, or half of one."
        ) from wrong
    return PinPage(found.count or 0, [_listed(bytes(each)) for each in found.results])


def _listed(item: bytes) -> ListedPin:
    try:
        status = _STATUS.decode(item)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ListedPin(str(hash(item)), b"null", None, None)
    pin = bytes(status.pin)
    created, unit = _moment(status.created or "")
    # What has no id is told apart by what it says.
    return ListedPin(
        str(status.requestid)[:_LONGEST_ID] or f"{status.created} {pin!r}", pin, created, unit
    )


def _moment(text: str) -> tuple[datetime, timedelta] | tuple[None, None]:
    """The timestamp *text* (RFC 3339) and the unit in which it is told."""
    try:
        found = datetime.fromisoformat(text)
        timestamp = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None, None
    fraction = _FRACTION.search(text)
    if fraction is None:
        return timestamp, _SECOND
    return timestamp, _MILLISECOND if len(fraction[1]) <= _DIGITS_OF_MILLISECONDS else _MICROSECOND
