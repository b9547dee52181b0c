"""How commands print pins: as JSON with the names of the HTTP API, and as text for people.

Knows no command and does no I/O."""

from collections.abc import Iterator
from typing import Any, Final

from content_gateway.cli.status_line import bar, bytes_text, moving_bar, plain
from content_gateway.codecs.timestamps import rfc3339, rfc3339_or_none
from content_gateway.model.content_state import ContentState, Peer
from content_gateway.model.pins import PinStatus, cursor_behind

_STATE_WIDTH: Final = max(len(state) for state in ContentState)


def listed(status: PinStatus) -> dict[str, Any]:
    """A pin in a list; *cursor* is where a page behind it begins, *bytes* null where the size of
    the content is not known."""
    shown = {
        **status.pin.fields,
        "status": status.state.value,
        "bytes": _size(status),
        "cursor": cursor_behind(status.pin),
    }
    if status.pin.label.name is not None:
        shown["name"] = status.pin.label.name
    return shown


def headings(*before: str) -> str:
    """What stands above the lines of `table_line`."""
    columns = (
        *before,
        f"{'STATUS':{_STATE_WIDTH}}",
        f"{'HELD':>5}",
        f"{'BYTES':>8}",
        f"{'ADDED':24}",
        "CID",
        "NAME",
    )
    return "  ".join(columns)


def table_line(status: PinStatus, *before: str) -> str:
    """A pin in a table: status, replicas, bytes, when it was added, CID, name; *before* them
    others."""
    replicas = f"{status.replicas}/{status.wanted}" if status.wanted else "-"
    name, size = plain(status.pin.label.name or ""), _size(status)
    columns = (
        *before,
        f"{status.state:{_STATE_WIDTH}}",
        f"{replicas:>5}",
        f"{'-' if size is None else bytes_text(size):>8}",
        status.pin.timestamp,
        plain(status.pin.spelling),
        name,
    )
    return "  ".join(columns).rstrip()


def whole(status: PinStatus) -> dict[str, Any]:
    """Everything that is known of a pin; what is not known is left out or null."""
    return {
        **status.pin.fields,
        "name": status.pin.label.name,
        "status": status.state.value,
        "replicas": {"pinned": status.replicas, "wanted": status.wanted or None},
        "progress": {"blocks": status.blocks, "bytes": status.size},
        "peers": [_peer(peer) for peer in status.peers],
        "attempts": status.attempts,
        "nextAttempt": rfc3339_or_none(status.next_at),
        "reason": status.reason,
    }


def described(status: PinStatus) -> Iterator[tuple[str, str]]:
    """The same for people, as label and value."""
    yield "cid", status.pin.spelling
    if status.pin.label.name is not None:
        yield "name", status.pin.label.name
    yield "status", status.state.value
    yield "added", status.pin.timestamp
    if status.wanted:
        yield "replicas", f"{status.replicas} of {status.wanted}"
    if status.blocks or status.size:
        yield "fetched", f"{status.blocks:,} blocks, {bytes_text(status.size)}"
    for peer in status.peers:
        at = "" if peer.at is None else f" since {rfc3339(peer.at)}"
        yield "peer", f"{peer.name}: {peer.status}{at}" + (f": {peer.error}" if peer.error else "")
    if status.attempts:
        yield "attempts", f"{status.attempts}"
    if status.next_at is not None and status.state is not ContentState.PINNED:
        yield "next", rfc3339(status.next_at)
    if status.reason:
        yield "reason", status.reason


def progress(status: PinStatus, step: int) -> str:
    """How far a pin is, in one line with a bar; *step* counts the lines."""
    if status.state is ContentState.PINNED:
        shown = bar(1, 1)
    elif status.wanted > 1:
        shown = bar(status.replicas, status.wanted)
    else:
        shown = moving_bar(step)
    return f"{shown} {how_far(status)}"


def how_far(status: PinStatus) -> str:
    """How far a pin is, and why it is no further, in words."""
    words = [status.state.value]
    if status.blocks or status.size:
        words.append(f"{status.blocks:,} blocks, {bytes_text(status.size)}")
    if status.wanted:
        words.append(f"{status.replicas} of {status.wanted} replicas")
    if status.attempts > 1:
        words.append(f"attempt {status.attempts}")
    return ", ".join(words) + (f": {plain(status.reason)}" if status.reason else "")


def _size(status: PinStatus) -> int | None:
    """The bytes of a content that is pinned, where the backend told them."""
    return status.size if status.state is ContentState.PINNED and status.size else None


def _peer(peer: Peer) -> dict[str, Any]:
    return {
        "name": peer.name,
        "status": peer.status,
        "timestamp": rfc3339_or_none(peer.at),
        "error": peer.error,
    }
