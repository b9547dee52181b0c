"""The REST API of the miniature cluster: requests in, answers out, without any socket.

Knows paths, JSON and oddities of ipfs-cluster 1.1.6 (docs/facts/pins.md) and counts
what it is asked. What happens to pins is cluster.py's business."""

import base64
import hmac
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from content_gateway.errors import InvalidCid
from content_gateway.model.cid import Cid
from content_gateway.model.multiaddr import Multiaddr

from .cluster import UNREACHABLE, MiniCluster, MiniPeer, MiniPin

MOST_HEADER_BYTES = 4096
STATUSES = {
    *("cluster_error", "pin_error", "unpin_error", "pinned", "pinning", "unpinning", "unpinned"),
    *("remote", "pin_queued", "unpin_queued", "sharded", "unexpectedly_unpinned"),
}


@dataclass(frozen=True)
class Response:
    """An answer: each of *documents* is one line of JSON."""

    status: int
    documents: tuple[Any, ...] = ()
    is_stream: bool = False
    location: str = ""

    @property
    def lines(self) -> list[bytes]:
        """The body, line by line."""
        return [json.dumps(document).encode() + b"\n" for document in self.documents]


class MiniRest:
    """The API of every peer of *cluster*; `counts` says what was asked of all of them, by kind.

    `asked` says it by kind and CID, `writes` in order and with the peer that was written to."""

    def __init__(self, cluster: MiniCluster) -> None:
        self.cluster = cluster
        self.counts: Counter[str] = Counter()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.writes: list[tuple[str, str, str]] = []
        self.unmanaged: list[str] = []  # lines of the pinset that are none of the cluster's pins
        self.silent_about: set[str] = set()  # CIDs it leaves out of a status of many
        self.blind_to: set[str] = set()  # CIDs of which every peer says that it has no pin
        self.refuses_options = False  # takes every option for a wrong one

    def handle(
        self, peer: MiniPeer, method: str, target: str, headers: Mapping[str, str]
    ) -> Response:
        """The answer of *peer* to a request for *target*, path and query."""
        self.cluster.catch_up()
        url = urlsplit(target)
        if len(target) > MOST_HEADER_BYTES:
            return Response(431)
        if (method, url.path) == ("GET", "/health"):
            return Response(204)
        if not self._is_authorized(headers.get("Authorization", "")):
            return _error(401, "unauthorized: access denied")
        if url.path.endswith("/"):
            return Response(307, location=url.path.rstrip("/"))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match method, url.path.strip("/").split("/"):
            case "GET", ["id"]:
                return Response(200, ({"id": peer.id, "peername": peer.name, "version": "1.1.6"},))
            case "GET", ["peers"]:
                self.counts["peers"] += 1
                return Response(200, tuple(map(_as_member, self.cluster.members())), is_stream=True)
            case "GET", ["pins"] if "cids" not in query:
                return self._listed(peer, query.get("filter", ""))
            case "GET", ["pins"]:
                return self._statuses(peer, query["cids"].split(","))
            case "GET", ["allocations"]:
                return self._allocations(peer)
            case _, [word, cid, *rest]:
                return self._one(peer, f"{method} {'/'.join([word, *rest])}", cid, query)
        return _error(404, "not found")

    def _one(self, peer: MiniPeer, what: str, cid: str, query: Mapping[str, str]) -> Response:
        try:
            Cid.parse(cid)
        except InvalidCid:
            return _error(400, "error decoding Cid: invalid cid")
        kinds = {
            "GET pins": "status",
            "GET allocations": "allocation",
            "POST pins": "pin",
            "DELETE pins": "unpin",
            "POST pins/recover": "recover",
        }
        if what not in kinds:
            return _error(404, "not found")
        kind = kinds[what]
        self._count(kind, cid)
        if kind in ("pin", "unpin", "recover"):
            self.writes.append((kind, cid, peer.name))
        match kind:
            case "status":
                return Response(200, (self._status(peer, cid),))
            case "recover":
                self.cluster.recover(peer, cid)
                return Response(200, (self._status(peer, cid),))
            case "pin":
                return self._pin(peer, cid, query)
            case "unpin":
                return self._found(self._try(lambda: self.cluster.unpin(peer, cid)))
        return self._found(peer.state.get(cid))

    def _pin(self, peer: MiniPeer, cid: str, query: Mapping[str, str]) -> Response:
        least, most, refused = 0, 0, None
        try:
            if self.refuses_options:
                raise ValueError
            least = int(query.get("replication-min", 0))
            most = int(query.get("replication-max", 0))
        except ValueError:
            refused = {"code": 400, "message": "parameter replication-min invalid"}
        origins = tuple(text for text in query.get("origins", "").split(",") if text)
        if not all(map(_is_origin, origins)):
            refused = {"code": 400, "message": "error decoding origins multiaddress"}
        pin = MiniPin(cid, least, most, origins=origins)  # a mode is forgotten, asked for by CID
        if "expire-at" in query:
            pin = replace(pin, expires=query["expire-at"])
        done = self._try(lambda: self.cluster.pin(peer, pin))
        if isinstance(done, Response):
            return done
        if refused:  # and pinned all the same (docs/facts/pins.md, trap 1)
            return Response(400, (refused, _as_json(done)))
        return Response(200, (_as_json(done),))

    def _statuses(self, peer: MiniPeer, cids: list[str]) -> Response:
        try:
            for cid in cids:
                Cid.parse(cid)
        except InvalidCid:
            return _error(400, "error decoding Cid: invalid cid")
        self.counts["statuses"] += 1
        for cid in cids:
            self.asked["statuses", cid] += 1
        said = [cid for cid in reversed(cids) if cid not in self.silent_about]
        # In no order: each status comes when its peers have answered.
        return Response(200, tuple(self._status(peer, cid) for cid in said), is_stream=True)

    def _allocations(self, peer: MiniPeer) -> Response:
        self.counts["allocations"] += 1
        lines = [_as_json(pin) for pin in peer.state.values()]
        lines += [json.loads(line) for line in self.unmanaged]
        return Response(200 if lines else 204, tuple(lines), is_stream=True)

    def _listed(self, peer: MiniPeer, words: str) -> Response:
        wanted = set(words.split(",")) & STATUSES
        if words and not wanted:
            return _error(400, "invalid filter value")
        self.counts["listing"] += 1
        listed = self.cluster.listed(wanted or STATUSES)
        lines = [self._as_status(peer, cid, said) for cid, said in listed.items()]
        return Response(200 if lines else 204, tuple(lines), is_stream=True)

    def _status(self, asked: MiniPeer, cid: str) -> dict[str, Any]:
        said = self.cluster.statuses(asked, cid)
        if cid in self.blind_to:
            said = dict.fromkeys(said, ("unpinned", ""))
        return self._as_status(asked, cid, said)

    def _as_status(
        self, asked: MiniPeer, cid: str, said: Mapping[MiniPeer, tuple[str, str]]
    ) -> dict[str, Any]:
        now = self.cluster.clock()
        pins = [peer.state[cid] for peer in (asked, *said) if cid in peer.state]
        pin = pins[-1] if pins else None  # whoever has spoken last, however little it has heard of
        return {
            "cid": cid,
            "name": "",
            "allocations": list(pin.allocations) if pin else [],
            "origins": [] if pin else None,
            "created": _text(pin.at if pin else now),
            "metadata": None,
            "peer_map": {
                peer.id: {
                    "peername": peer.name,
                    "ipfs_peer_id": peer.id,
                    "status": status,
                    "timestamp": _text(now),
                    "error": error,
                    "attempt_count": 0,
                    "priority_pin": False,
                }
                for peer, (status, error) in said.items()
            },
        }

    def _try(self, change: Any) -> Any:
        try:
            return change()
        except ValueError as refused:
            return _error(500, str(refused))

    def _found(self, pin: MiniPin | Response | None) -> Response:
        if isinstance(pin, Response):
            return pin
        if pin is None:
            return _error(404, "pin is not part of the pinset")
        return Response(200, (_as_json(pin),))

    def _count(self, kind: str, cid: str) -> None:
        self.counts[kind] += 1
        self.asked[kind, cid] += 1

    def _is_authorized(self, authorization: str) -> bool:
        if self.cluster.login is None:
            return True
        username, password = self.cluster.login
        kind, _, words = authorization.partition(" ")
        if kind == "Basic":
            return base64.b64decode(words) == f"{username}:{password}".encode()
        return kind == "Bearer" and _is_signed(words, username, password)


def _is_signed(token: str, username: str, password: str) -> bool:
    """Whether golang-jwt would let *token* pass: signature, issuer, and its times if it has any."""
    if "=" in token:  # golang-jwt takes no padding
        return False
    try:
        head, claims, signature = (
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")
        )
        values = json.loads(claims)
        algorithm = json.loads(head)["alg"]
    except (ValueError, KeyError):
        return False
    signed = hmac.digest(password.encode(), token.rpartition(".")[0].encode(), "sha256")
    now = time.time()
    return bool(
        algorithm == "HS256"
        and signature == signed
        and values.get("iss") == username
        and values.get("exp", now + 1) > now
        and values.get("iat", now) <= now
    )


def _as_member(peer: MiniPeer) -> dict[str, Any]:
    """A line of `/peers`: of one that does not answer, little more than why."""
    if not peer.is_up:
        return {
            "id": peer.id,
            "error": UNREACHABLE,
            "peername": "",
            "ipfs": {"id": "", "error": ""},
        }
    error = "" if peer.has_ipfs else "error contacting IPFS: dial tcp 10.0.0.8:5001: refused"
    return {
        "id": peer.id,
        "peername": peer.name,
        "error": "",
        "ipfs": {
            "id": "" if error else peer.id,
            "addresses": [] if error else peer.addresses,
            "error": error,
        },
    }


def _error(status: int, message: str) -> Response:
    return Response(status, ({"code": status, "message": message},))


def _as_json(pin: MiniPin) -> dict[str, Any]:
    return {
        "replication_factor_min": pin.least,
        "replication_factor_max": pin.most,
        "name": "",
        "mode": pin.mode,
        "shard_size": 0,
        "user_allocations": None,
        "expire_at": pin.expires,
        "metadata": {},
        "pin_update": None,
        "origins": list(pin.origins) or None,
        "cid": pin.cid,
        "type": pin.kind,
        "allocations": list(pin.allocations),
        "max_depth": 0 if pin.mode == "direct" else -1,
        "reference": None,
        "timestamp": _text(pin.at),
    }


def _is_origin(text: str) -> bool:
    """Whether it names a peer (PinOptions.FromQuery), in no more protocols than we know."""
    try:
        return Multiaddr.parse(text).peer_id is not None
    except ValueError:
        return False


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")
