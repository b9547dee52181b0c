"""The answers about pins: values of the domain to bodies.

Knows the fields of spec.yaml and of this service's own pin
operations, and the words that tell a person how far a pin is. The Pinning Service API's form of
the same things is in pinning_service.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.http.messages import Response, confirmed, keyed
from content_gateway.http.redaction import without_addresses
from content_gateway.model.content_state import ContentState, Peer
from content_gateway.model.cursors import cursor_behind
from content_gateway.model.pins import MAX_PAGE_BYTES, Page, Pin, PinStatus

_AROUND: Final = 256  # bytes of an answer beside its results
_EXISTS: Final = keyed(
    msgspec.json.encode({"message": "A pin already exists for this CID and API key"})
)
_WORDS: Final[Mapping[ContentState, str]] = {
    ContentState.QUEUED: "The pin is queued",
    ContentState.PINNING: "The content is being pinned",
    ContentState.PINNED: "The content is pinned",
    ContentState.FAILED: "The content could not be pinned yet; it is tried again",
    ContentState.UNPINNED: "The backend has lost the content; it is asked for it again",
}
# Said where the backend gave no reason.
_REASONS: Final[Mapping[ContentState, str]] = {
    ContentState.FAILED: "The backend could not pin it, and did not say why.",
    ContentState.UNPINNED: "The backend held it, and does not any more.",
}


def pin_exists() -> Response:
    """The Pin Add response (spec.yaml) for a pin that the requestor holds already."""
    return _EXISTS


def pin_added(pin: Pin, key: str) -> Response:
    """The Pin Add response for a new pin; the key is put in here and kept nowhere."""
    body = {"message": "Pin added", "result": _pin(pin), "apiKey": key}
    return keyed(msgspec.json.encode(body))


def pin_status(status: PinStatus) -> Response:
    """How far a pin is, peer by peer, and why it is no further."""
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
    if reason := told_reason(status):
        result["reason"] = reason
    if status.next_at is not None and status.state is not ContentState.PINNED:
        result["nextAttempt"] = rfc3339(status.next_at)
    if status.updated_at is not None:
        result["updated"] = rfc3339(status.updated_at)
    return confirmed(_WORDS[status.state], result)


def reason_of(status: PinStatus) -> str | None:
    """Why the pin is not pinned, in words for the operator; None if nothing went wrong."""
    return status.error or _REASONS.get(status.state)


def told_reason(status: PinStatus) -> str | None:
    """The same for its requestor: where the operator's servers are is left out."""
    reason = reason_of(status)
    return None if reason is None else without_addresses(reason)


def pins_listed(page: Page) -> Response:
    """A page of pins, and the cursor to the next one where there is one."""
    results = fitting(page.pins, _listed)
    body: dict[str, Any] = {"message": "Pins", "count": page.count, "results": results}
    if results and (page.more or len(results) < len(page.pins)):
        body["next"] = cursor_behind(page.pins[len(results) - 1].pin)
    return keyed(msgspec.json.encode(body))


def fitting(
    pins: Sequence[PinStatus], shown: Callable[[PinStatus], dict[str, Any]]
) -> list[msgspec.Raw]:
    """The first of *pins* as *shown*, in JSON: as many as go into one answer, and at least one."""
    results: list[msgspec.Raw] = []
    room = MAX_PAGE_BYTES - _AROUND
    for status in pins:
        result = msgspec.json.encode(shown(status))
        room -= len(result) + 1
        if results and room < 0:
            break
        results.append(msgspec.Raw(result))
    return results


def pin_removed(spelling: str) -> Response:
    """That the pin is gone. Whether others hold the content is no requestor's business."""
    return confirmed("Pin removed", {"cid": spelling, "content": "released"})


def _pin(pin: Pin) -> dict[str, Any]:
    return {"cid": pin.spelling, "type": "pin", "timestamp": pin.timestamp}


def _listed(status: PinStatus) -> dict[str, Any]:
    return {**_pin(status.pin), "status": status.state.value}


def _peer(peer: Peer) -> dict[str, str]:
    shown = {"name": peer.name, "status": peer.status}
    if peer.at is not None:
        shown["timestamp"] = rfc3339(peer.at)
    if peer.error:
        shown["error"] = without_addresses(peer.error)
    return shown
