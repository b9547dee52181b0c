"""What Kubo's answers about pins mean: its words, the lines of a pin, the list of its pins.

Knows the forms of `pin/ls`, `pin/add` and `pin/rm` and their errors, read in Kubo 0.42
(docs/facts/pins.md). Does no I/O; what to ask, and when, is left to kubo.py."""

from dataclasses import dataclass
from typing import Any, Final

from content_gateway.codecs.printable import printable
from content_gateway.errors import (
    InvalidCid,
    InvalidUpstreamResponse,
    PinDeferred,
    PinFailed,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import json_object

MAX_ENTRY_BYTES: Final = 64 * 1024
_MAX_WORDS: Final = 300
_BLAMED: Final = "Kubo"
_REFUSES_US: Final = (401, 403)
_ERRORS: Final = (400, 500)  # go-ipfs-cmds writes its errors with these two and no other
_NOT_THERE: Final = ("not pinned or pinned indirectly", "not pinned")  # boxo ErrNotPinned

# A part of Kubo's message, and what it means to whoever wants the content; the first that fits
# counts. Decoders have many more words, which are handed on as they are.
_REASONS: Final[tuple[tuple[str, type[PinFailed | PinDeferred], str], ...]] = (
    ("no space left on device", PinDeferred, "the disk of the Kubo node is full"),
    ("(offline)", PinFailed, "the Kubo node is offline and does not have all of it"),
    ("could not find", PinFailed, "part of it was not found"),
    ("merkledag: not found", PinFailed, "part of it was not found"),
    ("context deadline exceeded", PinFailed, "it was not found in time"),
    ("context canceled", PinFailed, "Kubo gave up before all of it was there"),
    ("insecure hash functions", PinFailed, "it uses a hash function that Kubo does not accept"),
    ("protobuf", PinFailed, "a block of it is not the dag-pb node that its CID says"),
    ("unexpected EOF", PinFailed, "a block of it cannot be read with the codec its CID says"),
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """How far a pin is: blocks and bytes so far."""

    blocks: int = 0
    size: int = 0

    def __str__(self) -> str:
        return f"{self.blocks} block{'s' * (self.blocks != 1)} ({self.size} bytes)"


def read_pinned(status: int, body: bytes, cid: Cid) -> bool:
    """Whether `pin/ls` says that *cid* is pinned recursively; no other kind of pin counts.

    Raises UpstreamUnavailable when Kubo says that it cannot tell, InvalidUpstreamResponse."""
    if status == 200:
        keys = json_object(body, who=_BLAMED).get("Keys")
        if isinstance(keys, dict) and any(
            _is(text, cid) and _is_recursive(pin) for text, pin in keys.items()
        ):
            return True
        raise InvalidUpstreamResponse("Kubo's answer is not about the CID it was asked for.")
    message = read_error(status, body)
    if message.endswith("' is not pinned") and str(cid) in message:
        return False
    raise UpstreamUnavailable(f"Kubo could not say what it holds: {_words(message)}")


def read_unpinned(status: int, body: bytes, cid: Cid) -> None:
    """Nothing, when `pin/rm` says that no pin of *cid* is left.

    Raises PinDeferred with Kubo's reason, UpstreamUnavailable, InvalidUpstreamResponse."""
    if status == 200:
        if not _names(json_object(body, who=_BLAMED).get("Pins"), cid):
            raise InvalidUpstreamResponse("Kubo's answer is not about the CID it was asked for.")
        return
    message = read_error(status, body)
    if message not in _NOT_THERE:
        raise PinDeferred(f"Kubo could not unpin it: {_words(message)}")


def read_line(line: bytes, cid: Cid) -> Fetched | None:
    """How far Kubo is, from one line of `pin/add`; None: all of *cid* is there and pinned.

    Raises PinFailed or PinDeferred for an error, InvalidUpstreamResponse."""
    value = json_object(line, who=_BLAMED)
    if "Pins" in value:
        if not _names(value["Pins"], cid):
            raise InvalidUpstreamResponse("Kubo has pinned something else.")
        return None
    if "Message" in value or value.get("Type") == "error":
        raise refusal(_message(value))
    blocks, size = value.get("Progress", 0), value.get("Bytes", 0)  # zeros are left out
    if type(blocks) is not int or type(size) is not int or blocks < 0 or size < 0:
        raise InvalidUpstreamResponse("Kubo's progress is no number.")
    return Fetched(blocks, size)


def read_ref(line: bytes) -> str | None:
    """What is wrong, from one line of `refs`; None where it names a block that was read.

    Raises InvalidUpstreamResponse."""
    value = json_object(line, who=_BLAMED)
    error = value.get("Err")
    if isinstance(error, str) and error:
        return _words(error)
    if not isinstance(value.get("Ref"), str):
        raise InvalidUpstreamResponse("A line of Kubo's refs names no block.")
    return None


def read_name(status: int, body: bytes) -> str | None:
    """The peer id in the answer to `id`, None when there is none."""
    try:
        name = json_object(body, who=_BLAMED).get("ID") if status == 200 else None
    except InvalidUpstreamResponse:
        return None
    return name if isinstance(name, str) and 0 < len(name) <= 128 and name.isalnum() else None


def read_addresses(status: int, body: bytes) -> list[str]:
    """The node's own multiaddrs in the answer to `id`, as it spells them.

    Raises UpstreamUnavailable and InvalidUpstreamResponse."""
    if status != 200:
        raise UpstreamUnavailable(f"Kubo did not say who it is: {read_error(status, body)[:300]}")
    addresses = json_object(body, who=_BLAMED).get("Addresses") or []
    if not isinstance(addresses, list):
        raise InvalidUpstreamResponse("Kubo's addresses are no list.")
    return [text for text in addresses if isinstance(text, str)]


def read_error(status: int, body: bytes) -> str:
    """Kubo's message in an answer that is not 200.

    Raises UpstreamUnavailable when they are a proxy's, or of its access control."""
    if status in _REFUSES_US:
        raise UpstreamUnavailable("Kubo refuses us: its API.Authorizations do not let us in.")
    if status in _ERRORS:
        try:
            return _message(json_object(body, who=_BLAMED))
        except InvalidUpstreamResponse:
            pass
    raise UpstreamUnavailable(f"The Kubo node answered {status}.")


def refusal(message: str) -> PinFailed | PinDeferred:
    """What Kubo's *message* about a pin means, in words for people."""
    for part, kind, meaning in _REASONS:
        if part in message:
            return kind(f"Kubo could not pin it: {meaning}.")
    return PinFailed(f"Kubo could not pin it: {_words(message.removeprefix('pin: '))}")


class PinsetReader:
    """The CIDs in one whole answer of `pin/ls`, as its bytes come: `feed` them, then `end`.

    Left out are CIDs that can be no pin of ours: of codecs we do not accept, and of version 0,
    which Kubo pins apart from the version 1 that we ask for, so that it must not hide that ours is
    gone."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the unfinished entry
        self._open = 0  # braces, but for the entries' own
        self._is_whole = False

    def feed(self, chunk: bytes) -> list[Cid]:
        """The CIDs that have become readable; raises InvalidUpstreamResponse."""
        self._rest += chunk
        pieces: list[bytearray] = []
        if b"}" in chunk:  # or each byte of a slow entry would be split again and again
            # Pins are listed without their names, so no text in an entry has a brace.
            *pieces, self._rest = self._rest.split(b"}")
        if max(map(len, [*pieces, self._rest])) > MAX_ENTRY_BYTES:
            raise InvalidUpstreamResponse("Kubo's list of pins cannot be read.")
        found = [self._read(bytes(piece)) for piece in pieces]
        return [cid for cid in found if cid is not None]

    def end(self) -> None:
        """Raises InvalidUpstreamResponse when the list is not whole."""
        if not self._is_whole or self._rest.strip():
            raise InvalidUpstreamResponse("Kubo's list of pins ends too early.")

    def _read(self, piece: bytes) -> Cid | None:
        """What stands before one closing brace: an entry, or nothing but the end of the list."""
        head = b'{"Keys":{'
        if not self._open and not self._is_whole:
            if piece.strip() == b"{":  # an empty list
                self._is_whole = True
                return None
            if not piece.startswith(head):
                raise InvalidUpstreamResponse("Kubo's answer is not a list of pins.")
            self._open, piece = 2, piece.removeprefix(head)
        if not piece and self._open:
            self._open -= 1
            self._is_whole = not self._open
            return None
        if self._open != 2:
            raise InvalidUpstreamResponse("Kubo's list of pins goes on behind its end.")
        entry = json_object(b"{" + piece.removeprefix(b",") + b"}}", who=_BLAMED)
        if len(entry) != 1:
            raise InvalidUpstreamResponse("Kubo's list of pins cannot be read.")
        ((text, pin),) = entry.items()
        return _ours(text) if _is_recursive(pin) else None


def _is_recursive(pin: Any) -> bool:
    return isinstance(pin, dict) and pin.get("Type") == "recursive"


def _ours(text: str) -> Cid | None:
    if text.startswith("Qm"):
        return None
    try:
        return Cid.parse(text)
    except InvalidCid:
        return None


def _names(pins: Any, cid: Cid) -> bool:
    return isinstance(pins, list) and len(pins) == 1 and _is(pins[0], cid)


def _is(text: Any, cid: Cid) -> bool:
    """Whether *text* is *cid*, in whatever spelling."""
    try:
        return isinstance(text, str) and Cid.parse(text) == cid
    except InvalidCid:
        return False


def _message(value: dict[str, Any]) -> str:
    message = value.get("Message")
    if not isinstance(message, str):
        raise InvalidUpstreamResponse("Kubo's error has no message.")
    return message


def _words(message: str) -> str:
    """*message* on one line, not too long, as the end of a sentence."""
    words = printable(message, " ").strip()
    return (words[:_MAX_WORDS].rstrip(".") or "it gave no reason") + "."
