"""What an IPFS Cluster says of a CID, understood: status objects, pins and errors.

Knows the JSON of its REST API (docs/facts/pins.md) and which words of many peers make
one. Asks nobody; when to ask and whom is the adapter's business."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from content_gateway.backends.cluster.error_texts import MAX_REASON, clean, in_words
from content_gateway.errors import InvalidCid, InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Peer, TrackerStatus
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.http_client import Answer, json_object

WHO: Final = "The cluster"
NOT_IN_PINSET: Final = "pin is not part of the pinset"
NO_PEERS: Final[Sequence[Peer]] = ()
_QUEUED: Final = {"pin_queued", "queued"}
# What a peer says of a pin that names it as long as it knows no pin at all, or only an older one.
UNTRACKED: Final = {"unpinned", "remote"}
_COMPLAINTS: Final = {
    "unexpectedly_unpinned": "it was lost and is to be fetched again",
    "cluster_error": "the peer of the cluster could not say what it has",
} | dict.fromkeys(UNTRACKED, "the peer of the cluster has not heard of it yet")
_BROKEN: Final = _COMPLAINTS.keys() - UNTRACKED


@dataclass(frozen=True, slots=True)
class Allocation:
    """A pin as the pinset has it. *wanted* replicas are enough, None: every peer's.

    *peers* are the ids of those that are to keep it, none where all are. *keeps_all* says that it
    is recursive and has no end: what was promised is no less. *is_unheard*: another peer was asked
    before, and does not know of the pin, or knows already that it is gone."""

    is_pin: bool
    wanted: int | None
    peers: tuple[str, ...]
    keeps_all: bool
    is_unheard: bool = False

    def suffices(self, least: int) -> bool:
        """Whether it keeps as much as was promised, on *least* peers (0: as the cluster likes).

        Pinned by others, or with other settings, it may be on fewer peers, or without its links."""
        is_few = least > 0 and self.wanted is not None and self.wanted < least
        return self.is_pin and self.keeps_all and not is_few


@dataclass(frozen=True, slots=True)
class Status:
    """What the allocated peers say of a content; *allocations* are named in the newest pin seen.

    Without allocations, every peer should hold it, or it is not in the pinset. *silent* has the ids
    of the peers that did not answer; *remote*, by id, those that say that others should hold it."""

    cid: Cid
    peers: Sequence[Peer]
    allocations: int
    silent: frozenset[str] = frozenset()
    remote: Mapping[str, Peer] = field(default_factory=dict)

    def as_named(self, named: Collection[str]) -> "Status":
        """The verdict where the pin names the peers with these ids: a remote one is out of date."""
        unheard = [peer for peer_id, peer in self.remote.items() if peer_id in named]
        if not unheard:
            return self
        return replace(self, peers=(*self.peers, *unheard), allocations=len(named))

    @property
    def replicas(self) -> int:
        """How many peers hold it."""
        return sum(peer.status == "pinned" for peer in self.peers)

    @property
    def may_be_absent(self) -> bool:
        """Whether this is also what is said of a CID that is not in the pinset.

        Of such a CID the cluster says that all of its peers have it "unpinned"
        (globalPinInfoCid in cluster.go), and only `/allocations/{cid}` says more."""
        return not self.allocations and all(peer.status == "unpinned" for peer in self.peers)

    @property
    def all_peers(self) -> int:
        """How many peers are to hold it; one that is left out of the answer counts too."""
        return max(self.allocations, len(self.peers))

    def status(self, wanted: int | None) -> BackendStatus:
        """What it means where *wanted* replicas are enough; None: all peers' are."""
        replicas, words = self.replicas, {peer.status for peer in self.peers}
        goal = self.all_peers if wanted is None else wanted
        reason: str | None = None
        # Where the pin names fewer peers than we want now, all of them are what can be had.
        if self.peers and replicas >= min(goal, self.all_peers):
            status = TrackerStatus.PINNED
            if replicas < goal:
                reason = f"The cluster was asked to keep it on {replicas} peers only."
        elif "unexpectedly_unpinned" in words:
            status = TrackerStatus.LOST
        elif "pinning" in words:
            status = TrackerStatus.PINNING
        elif words & _QUEUED:
            status = TrackerStatus.QUEUED
        elif words & UNTRACKED:
            status = TrackerStatus.UNTRACKED
        elif (
            "pin_error" in words <= {"pin_error", "pinned"} and len(self.peers) >= self.allocations
        ):
            status = TrackerStatus.FAILED
        else:
            status = TrackerStatus.UNKNOWN
        if status not in (TrackerStatus.PINNED, TrackerStatus.PINNING):
            reason = self._reason(_COMPLAINTS if status is TrackerStatus.UNTRACKED else _BROKEN)
        if status is TrackerStatus.UNKNOWN:
            reason = reason or "The cluster does not say how far it is."
        return BackendStatus(status, replicas, max(goal, 1), self.peers, reason)

    def _reason(self, words: Collection[str]) -> str | None:
        """What the peers complain of: each error, and those *words* of theirs, once, with their
        names."""
        complaints: dict[str, list[str]] = {}
        for peer in self.peers:
            if peer.error or peer.status in words:
                complaint = _COMPLAINTS.get(peer.status) or in_words(peer.error or "")
                complaints.setdefault(complaint, []).append(peer.name)
        lines = (f"{complaint} ({', '.join(names)})" for complaint, names in complaints.items())
        return "; ".join(sorted(lines))[:MAX_REASON] or None


@dataclass(frozen=True, slots=True)
class PeerInfo:
    """A peer of the cluster by its id, and whether it and the IPFS node behind it answer."""

    id: str
    is_well: bool


def read_statuses(body: bytes) -> list[Status]:
    """The status objects in *body*, one a line; raises InvalidUpstreamResponse."""
    return [read_status(json_object(line, who=WHO)) for line in body.splitlines() if line.strip()]


def read_status(value: Mapping[str, Any]) -> Status:
    """The status object *value*; raises InvalidUpstreamResponse when it is none."""
    peers, allocations = value.get("peer_map"), value.get("allocations")
    if not isinstance(peers, dict) or not isinstance(allocations, list | None):
        raise InvalidUpstreamResponse("The cluster's answer is not a pin status.")
    read = {peer_id: _read_peer(peer_id, peer) for peer_id, peer in peers.items()}
    remote = {peer_id: peer for peer_id, peer in read.items() if peer.status == "remote"}
    allocated = [peer for peer_id, peer in read.items() if peer_id not in remote]
    allocated.sort(key=lambda peer: peer.name)
    silent = frozenset(
        peer_id for peer_id, peer in peers.items() if peer["status"] == "cluster_error"
    )
    return Status(read_cid(value), tuple(allocated), len(allocations or ()), silent, remote)


def read_allocation(value: Mapping[str, Any]) -> Allocation:
    """The pin *value*, as the pinset has it; raises InvalidUpstreamResponse when it is none."""
    factor, peers = value.get("replication_factor_min"), value.get("allocations")
    if not isinstance(factor, int) or not isinstance(peers, list | None):
        raise InvalidUpstreamResponse("The cluster's answer is not a pin.")
    return Allocation(
        is_pin=value.get("type") == "pin",
        wanted=factor if factor > 0 else None,
        peers=tuple(peer for peer in peers or () if isinstance(peer, str)),
        keeps_all=_keeps_all(value),
    )


def read_member(value: Mapping[str, Any]) -> PeerInfo:
    """A line of `/peers`; raises InvalidUpstreamResponse when it is none.

    A peer that did not answer, or whose IPFS did not, is listed with an error."""
    peer_id, ipfs = value.get("id"), value.get("ipfs")
    if not isinstance(peer_id, str) or not peer_id:
        raise InvalidUpstreamResponse("The cluster's answer is not a list of its peers.")
    ipfs_error = ipfs.get("error") if isinstance(ipfs, dict) else None
    return PeerInfo(peer_id, not value.get("error") and not ipfs_error)


def is_absent(answer: Answer) -> bool:
    """Whether it says that there is no such pin; any other 404 says that the URL is wrong."""
    return answer.status == 404 and error_message(answer.body) == NOT_IN_PINSET


def good(answer: Answer) -> Answer:
    """*answer* if it is a 200 or has no content; raises UpstreamUnavailable."""
    if answer.status in (200, 204):
        return answer
    message = error_message(answer.body) or "no reason given"
    raise UpstreamUnavailable(f"The cluster answered {answer.status}: {message}")


def read_unwell(value: Mapping[str, Any]) -> tuple[str, int]:
    """A line of a listing of what is not well: its CID as it is spelt, and how many peers of those
    that answered have not got what they should. Raises InvalidUpstreamResponse."""
    text, status = value.get("cid"), read_status(value)
    well = ("pinned", "cluster_error")
    return str(text), sum(peer.status not in well for peer in status.peers)


def read_cid(value: Mapping[str, Any]) -> Cid:
    """The CID that a status object or a pin is about; raises InvalidUpstreamResponse."""
    text = value.get("cid")
    try:
        return Cid.parse(text if isinstance(text, str) else "")
    except InvalidCid as wrong:
        raise InvalidUpstreamResponse(
            "The cluster answers about something that is no CID."
        ) from wrong


def read_entry(value: Mapping[str, Any]) -> str | None:
    """The CID of a line of the pinset as the cluster spells it, None where it is no pin like ours.

    Pins of other types are parts of content that was added in shards. Those of version 0 are other
    pins than ours of the same content, and those that are not recursive, or have an end, keep less
    than was promised: none of them may pass for ours. Raises InvalidUpstreamResponse."""
    text, kind = value.get("cid"), value.get("type")
    if not isinstance(text, str) or not isinstance(kind, str):
        raise InvalidUpstreamResponse("A line of the cluster's pinset is not a pin.")
    is_ours = kind == "pin" and not text.startswith("Qm") and _keeps_all(value)
    return text if is_ours else None


def first_object(body: bytes) -> dict[str, Any]:
    """The first JSON document of *body*; raises InvalidUpstreamResponse.

    Some errors have a second behind them: what it did all the same (docs/facts/pins.md, trap 1)."""
    return json_object(body.lstrip().partition(b"\n")[0], who=WHO)


def error_message(body: bytes) -> str | None:
    """The cluster's own words about an error, without addresses; None when it has none."""
    try:
        message = first_object(body).get("message")
    except InvalidUpstreamResponse:
        return None
    return clean(message) if isinstance(message, str) else None


def _read_peer(peer_id: str, value: Any) -> Peer:
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        raise InvalidUpstreamResponse("The cluster's answer is not a pin status.")
    name, error = value.get("peername"), value.get("error")
    return Peer(
        clean(name) if isinstance(name, str) and name else peer_id[-8:],
        clean(value["status"]),
        _timestamp(value.get("timestamp")),
        clean(error) or None if isinstance(error, str) else None,
    )


def _keeps_all(value: Mapping[str, Any]) -> bool:
    """Whether the pin *value* is recursive and has no end."""
    is_recursive = value.get("mode", "recursive") == "recursive"
    return is_recursive and _timestamp(value.get("expire_at")) is None


def _timestamp(value: Any) -> datetime | None:
    """Go's times have nanoseconds, and the year 1 for none."""
    try:
        timestamp = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    if timestamp.year == 1:
        return None
    return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def read_origins(pin: Mapping[str, Any]) -> list[Multiaddr]:
    """The origins in *pin*, as `/allocations` has it."""
    return _multiaddrs(pin.get("origins"))


def read_addresses(peer: Mapping[str, Any]) -> list[str]:
    """Where the IPFS node of *peer*, a line of `/peers`, is reachable; empty if it did not say."""
    node = peer.get("ipfs")
    found = _multiaddrs(node.get("addresses") if isinstance(node, dict) else None)
    return [address.text for address in found]


def _multiaddrs(listed: Any) -> list[Multiaddr]:
    """The multiaddrs in the JSON value *listed*; none where it is no list."""
    found = []
    for text in listed if isinstance(listed, list) else ():
        with suppress(ValueError):
            found.append(Multiaddr.parse(text if isinstance(text, str) else ""))
    return found
