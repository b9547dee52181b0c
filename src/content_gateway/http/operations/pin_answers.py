"""Response bodies about pins.

Knows the fields of spec.yaml and of this service's own pin operations, and the messages for each
state. The Pinning Service API's form of the same pins is in pinning_service.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.http.messages import Response, confirmed, keyed
from content_gateway.http.redaction import without_addresses
from content_gateway.model.content_state import ContentState, Peer
from content_gateway.model.pins import MAX_PAGE_BYTES, Page, Pin, PinStatus, cursor_behind

_ENVELOPE_BYTES: Final = 256  # of a page beside its results
_EXISTS: Final = keyed(
    msgspec.json.encode({"message": "A pin already exists for this CID and API key"})
)
_MESSAGES: Final[Mapping[ContentState, str]] = {
    ContentState.QUEUED: "The pin is queued",
    ContentState.PINNING: "The content is being pinned",
    ContentState.PINNED: "The content is pinned",
    ContentState.FAILED: "The content could not be pinned yet; it is tried again",
    ContentState.UNPINNED: "The backend has lost the content; it is asked for it again",
}


def pin_exists() -> Response:
    """The Pin Add response (spec.yaml) for a pin that the requestor holds already."""
    return _EXISTS


def pin_added(pin: Pin, key: str) -> Response:
    """The Pin Add response for a new pin; it repeats *key*, which is stored nowhere."""
    body = {"message": "Pin added", "result": pin.fields, "apiKey": key}
    return keyed(msgspec.json.encode(body))


def pin_status(status: PinStatus) -> Response:
    """The status of a pin: replicas, peers, progress, and the reason if it is not pinned."""
    result: dict[str, Any] = {
        **_listed(status),
        "replicas": {"pinned": status.replicas},
        "peers": [_peer(peer) for peer in status.peers],
        "attempts": status.attempts,
    }
    if status.wanted:
        result["replicas"]["wanted"] = status.wanted
    if status.blocks or status.size:
        result["progress"] = {"blocks": status.blocks, "bytes": status.size}
    if reason := redacted_reason(status):
        result["reason"] = reason
    if status.next_at is not None and status.state is not ContentState.PINNED:
        result["nextAttempt"] = rfc3339(status.next_at)
    if status.updated_at is not None:
        result["updated"] = rfc3339(status.updated_at)
    return confirmed(_MESSAGES[status.state], result)


def redacted_reason(status: PinStatus) -> str | None:
    """Why the pin is not pinned, for its requestor: without addresses of the operator's servers."""
    return None if status.reason is None else without_addresses(status.reason)


def pins_listed(page: Page) -> Response:
    """A page of pins, and the cursor to the next one where there is one."""
    results = encode_page(page.pins, _listed)
    body: dict[str, Any] = {"message": "Pins", "count": page.count, "results": results}
    if results and (page.more or len(results) < len(page.pins)):
        body["next"] = cursor_behind(page.pins[len(results) - 1].pin)
    return keyed(msgspec.json.encode(body))


def encode_page(
    pins: Sequence[PinStatus], as_json: Callable[[PinStatus], dict[str, Any]]
) -> list[msgspec.Raw]:
    """The first of *pins* in JSON: as many as MAX_PAGE_BYTES hold, and at least one."""
    results: list[msgspec.Raw] = []
    room = MAX_PAGE_BYTES - _ENVELOPE_BYTES
    for status in pins:
        result = msgspec.json.encode(as_json(status))
        room -= len(result) + 1
        if results and room < 0:
            break
        results.append(msgspec.Raw(result))
    return results


def pin_removed(spelling: str) -> Response:
    """The response for a removed pin; whether others hold the content stays private."""
    return confirmed("Pin removed", {"cid": spelling, "content": "released"})


def _listed(status: PinStatus) -> dict[str, Any]:
    shown: dict[str, Any] = {**status.pin.fields, "status": status.state.value}
    if status.pin.label.name is not None:
        shown["name"] = status.pin.label.name
    if status.pin.label.meta:
        shown["meta"] = status.pin.label.meta
    return shown


def _peer(peer: Peer) -> dict[str, str]:
    shown = {"name": peer.name, "status": peer.status}
    if peer.at is not None:
        shown["timestamp"] = rfc3339(peer.at)
    if peer.error:
        shown["error"] = without_addresses(peer.error)
    return shown
