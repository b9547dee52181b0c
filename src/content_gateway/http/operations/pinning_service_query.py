"""What clients of the Pinning Service API send: filters and Pin objects, into values.

Knows the API's parameters, their limits and its Pin object (its yaml, version 1.0.0), and refuses
whatever is wrong with its place. What is done with them is left to pinning_service.py."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from content_gateway.codecs.timestamps import at_microseconds, microseconds
from content_gateway.errors import InvalidBody, InvalidCid, InvalidQuery, PinNotFound
from content_gateway.http.query import (
    MAX_NAME,
    Text,
    choice,
    choices,
    name_for_people,
    number,
    parse_query,
    texts,
    timestamp,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import MAX_LABEL_BYTES, Label, Match, Pin, Search
from content_gateway.pins.origins import MOST_ORIGINS, OriginRules

MAX_CIDS: Final = 10
_PARAMETERS: Final = ("cid", "name", "match", "status", "before", "after", "limit", "meta")
# What the API calls queued is all that waits for its turn, the lost included.
STATES: Final[Mapping[str, frozenset[ContentState]]] = {
    "queued": frozenset({ContentState.QUEUED, ContentState.UNPINNED}),
    "pinning": frozenset({ContentState.PINNING}),
    "pinned": frozenset({ContentState.PINNED}),
    "failed": frozenset({ContentState.FAILED}),
}
_REQUEST_ID: Final = re.compile(r"([0-9a-f]{1,15})-([a-z0-9]{1,1200})", re.ASCII)

_Name = Annotated[str, Meta(max_length=MAX_NAME, pattern=r"^[^\x00]*$")]
_Multiaddr = Annotated[str, Meta(pattern=r"^/[!-~]+$", max_length=1024)]


class _PinObject(msgspec.Struct, frozen=True):
    """A Pin as a client sends it; members that the API does not know are passed over."""

    cid: str
    name: _Name | None = None
    origins: Annotated[list[_Multiaddr], Meta(max_length=MOST_ORIGINS)] | None = None
    meta: Annotated[dict[str, Text], Meta(max_length=1000)] | None = None


_PINS: Final = msgspec.json.Decoder(_PinObject)


def parse_pin(body: bytes, rules: OriginRules) -> tuple[str, Label]:
    """CID and label of the Pin object *body*, with the origins that *rules* take.

    Raises InvalidBody."""
    if not body:
        raise InvalidBody("The body must be a Pin object as JSON.")
    try:
        pin = _PINS.decode(body)
    except RecursionError:
        raise InvalidBody("The body is not a Pin object: it is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise InvalidBody(f"The body is not a Pin object: {wrong}.") from wrong
    label = Label(pin.name, rules.taken(pin.origins or ()), pin.meta or {})
    if (size := label.encoded_bytes) > MAX_LABEL_BYTES:
        raise InvalidBody(
            f"name, origins and meta have at most {MAX_LABEL_BYTES} bytes in all, as JSON;"
            f" these have {size}."
        )
    return pin.cid, label


def parse_search(query: bytes) -> Search:
    """The search that *query* describes; raises InvalidQuery and InvalidCid."""
    asked = parse_query(query, _PARAMETERS, lists=("cid", "status"))
    chosen = choices("status", asked.get("status", "pinned"), STATES)
    match = choice("match", asked.get("match", Match.EXACT), [*Match])
    return Search(
        states=frozenset().union(*(STATES[state] for state in chosen)),
        cids=_cids(asked.get("cid")),
        name=name_for_people(asked.get("name")),
        match=Match(match),
        meta=texts("meta", asked.get("meta")),
        # Between two of our timestamps a finer one may lie: nothing older is left out, nor newer.
        before=timestamp("before", asked.get("before"), up=True),
        after=timestamp("after", asked.get("after"), up=False),
        limit=number("limit", asked.get("limit"), least=1, most=1000, default=10),
    )


def request_id(pin: Pin) -> str:
    """The API's name of *pin*: another one for every time that its CID is pinned again."""
    return f"{microseconds(pin.created_at):x}-{pin.cid}"


def parse_request_id(text: str) -> tuple[datetime, Cid]:
    """When the pin with the request id *text* was made, and of what; raises PinNotFound."""
    found = _REQUEST_ID.fullmatch(text)
    try:
        if found is not None:
            return at_microseconds(int(found[1], 16)), Cid.parse(found[2])
    except (InvalidCid, OverflowError):
        pass
    raise PinNotFound


def _cids(text: str | None) -> tuple[Cid, ...]:
    if text is None:
        return ()
    spelt = text.split(",")
    if len(spelt) > MAX_CIDS:
        raise InvalidQuery(f"cid takes at most {MAX_CIDS} CIDs.")
    return tuple(dict.fromkeys(map(Cid.parse, spelt)))
