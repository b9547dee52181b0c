"""A miniature IPFS Cluster: some peers with one pinset, trackers and an IPFS node each.

Behaves as ipfs-cluster 1.1.6 with CRDT does where that matters to us: a batch is in memory until
it is old enough and is lost with its peer, other peers see a change later, what nobody has is a
pin_error until it is recovered. Time is a clock that the test moves. REST is in cluster_rest.py,
sockets and their absence in cluster_wire.py."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from hashlib import sha256

from content_gateway.model.cid import Cid
from tests.clock import Clock

from .cluster_parts import Change, MiniPeer, MiniPin
from .cluster_workers import Workers
from .supply import Supply

__all__ = ["Change", "Clock", "MiniCluster", "MiniPeer", "MiniPin"]

MOST_ORIGINS = 10
UNREACHABLE = "failed to dial: dial tcp4 10.0.0.7:9096: connection refused"
NEED_IPFS = {"pinned", "unexpectedly_unpinned", "sharded", "remote"}


class MiniCluster(Workers):
    """The cluster. Its attributes are its settings, and may be changed at any time.

    *refusal* is what every write is refused with."""

    def __init__(
        self, peers: int = 3, *, clock: Callable[[], float] | None = None, batch_age: float = 0.0
    ) -> None:
        super().__init__()
        self.clock = clock or Clock()
        self.batch_age = batch_age
        self.spread_seconds = 0.0  # until other peers see a committed change
        self.metric_seconds = 30.0  # how long a peer counts after its last sign of life,
        self.room_seconds = 30.0  # and how long its word that it has room does, with CRDT by itself
        self.factors = (-1, -1)  # what a pin gets that asks for none
        self.refusal = ""
        self.login: tuple[str, str] | None = None
        self.peers = [
            MiniPeer(f"peer{number}", "12D3KooW" + sha256(bytes([number])).hexdigest()[:44])
            for number in range(peers)
        ]
        self.supply = Supply()
        self.origins: dict[str, Set[Cid]] = {}  # what somebody has whom nobody knows, by multiaddr
        self._dags: dict[str, frozenset[Cid]] = {}
        self._version = 0

    # What a test does to its world.

    def provide(self, cid: Cid, data: bytes) -> None:
        """From now on somebody has that block."""
        self.catch_up()
        self.supply.provide(cid, data)
        self._dags.clear()

    def forget(self, cid: Cid) -> None:
        """From now on nobody has that block but who has pinned it."""
        self.catch_up()
        self.supply.forget(cid)

    def keeps(self, cid: Cid) -> bool:
        """Whether some peer's node has pinned something that the block is part of."""
        self.catch_up()
        return any(cid in self._kept(peer) for peer in self.peers)

    def kill(self, peer: MiniPeer) -> None:
        """End *peer* as a power cut does: what it had accepted and not committed is lost."""
        self.catch_up()
        peer.is_up, peer.died_at = False, self.clock()
        peer.batch.clear()
        for memory in (peer.working, peer.begun, peer.attempts):
            memory.clear()
        peer.errors.clear()

    def stop(self, peer: MiniPeer) -> None:
        """End *peer* in order: it commits what it has."""
        self.catch_up()
        self._commit(peer, self.clock())
        self.kill(peer)

    def start(self, peer: MiniPeer) -> None:
        """Let *peer* run again; it receives the changes it missed, and continues its work."""
        self.catch_up()
        peer.is_up = True
        for cid, pin in peer.state.items():
            if self.is_allocated(peer, pin) and cid not in peer.pinned:
                peer.working[cid] = self.clock()
        self.catch_up()

    def wipe(self) -> None:
        """Lose the whole pinset; IPFS nodes keep what they have pinned."""
        for peer in self.peers:
            for memory in (peer.state, peer.versions, peer.working, peer.begun, peer.errors):
                memory.clear()
            peer.batch.clear()
            peer.inbox.clear()

    def lose(self, peer: MiniPeer, cid: str) -> None:
        """Let *peer*'s IPFS node lose a pin behind the cluster's back."""
        self.catch_up()
        peer.pinned.discard(cid)

    # What the REST API does.

    def pin(self, peer: MiniPeer, pin: MiniPin) -> MiniPin:
        """Accept *pin* at *peer*; ValueError is the cluster's reason not to."""
        self.catch_up()
        least, most = pin.least or self.factors[0], pin.most or self.factors[1]
        if self.refusal:
            raise ValueError(self.refusal)
        if least > most:
            raise ValueError("cluster.replication_factor_min is larger than max")
        if (least == -1) != (most == -1):
            raise ValueError("cluster.replication_factor_min and max must be -1 when one is")
        old = peer.state.get(pin.cid)
        chosen = self._allocate(pin.cid, least, most, old.allocations if old else ())
        pin = replace(pin, least=least, most=most, allocations=chosen, at=self.clock())
        self._accept(peer, pin.cid, pin)
        return pin

    def unpin(self, peer: MiniPeer, cid: str) -> MiniPin | None:
        """Accept an unpin at *peer*; None when it does not see such a pin."""
        self.catch_up()
        if self.refusal:
            raise ValueError(self.refusal)
        pin = peer.state.get(cid)
        if pin is not None:
            self._accept(peer, cid, None)
        return pin

    def recover(self, peer: MiniPeer, cid: str) -> None:
        """Let every peer try again that has failed or lost it."""
        self.catch_up()
        if cid not in peer.state:
            return
        for other in self.peers:
            if self.status(other, cid)[0] in ("pin_error", "unexpectedly_unpinned"):
                other.errors.pop(cid, None)
                other.working[cid] = self.clock()
                self._hand_out(other, self.clock())

    def members(self) -> list[MiniPeer]:
        """The peers that count: those that run, and those that did a moment ago."""
        return self._heard_of(self.metric_seconds)

    def _heard_of(self, seconds: float) -> list[MiniPeer]:
        now = self.clock()
        return [peer for peer in self.peers if peer.is_up or now - peer.died_at < seconds]

    def statuses(self, asked: MiniPeer, cid: str) -> dict[MiniPeer, tuple[str, str]]:
        """What each peer says of *cid* when *asked* asks it: the word and the error.

        Allocated peers are asked, dead or not, and all members where none is named."""
        seen, members = asked.state.get(cid), self.members()
        if seen is None:
            return dict.fromkeys(members, ("unpinned", ""))
        allocated = [peer for peer in self.peers if peer.id in seen.allocations] or members
        others = {peer: ("remote", "") for peer in members if peer not in allocated}
        return others | {peer: self.status(peer, cid) for peer in allocated}

    def listed(self, words: set[str]) -> dict[str, dict[MiniPeer, tuple[str, str]]]:
        """What the members say of all CIDs, where it is one of *words*, as StatusAll does.

        A member that does not answer, or whose node does not where that is needed, is in error
        about what others have named; where nobody names any, nobody hears of it."""
        found: dict[str, dict[MiniPeer, tuple[str, str]]] = {}
        lost = []
        for peer in self.members():
            if not peer.is_up or (not peer.has_ipfs and words & NEED_IPFS):
                lost.append(peer)
                continue
            for cid in peer.state if words & NEED_IPFS else [*peer.working, *peer.errors]:
                status = self.status(peer, cid)
                if status[0] in words:
                    found.setdefault(cid, {})[peer] = status
        unheard = dict.fromkeys(lost, ("cluster_error", UNREACHABLE))
        return {cid: statuses | unheard for cid, statuses in found.items()}

    def status(self, peer: MiniPeer, cid: str) -> tuple[str, str]:
        """What *peer* says of *cid*: the word and the error."""
        if not peer.is_up:
            return "cluster_error", UNREACHABLE
        own = peer.state.get(cid)
        if own is None:
            return "unpinned", ""
        if not self.is_allocated(peer, own):
            return "remote", ""
        if own.kind != "pin":
            return "sharded", ""
        if cid in peer.errors:
            return "pin_error", peer.errors[cid]
        if cid in peer.working:
            waited = self.clock() - peer.working[cid]
            is_queued = waited < self.queue_seconds or cid not in peer.begun
            return ("pin_queued" if is_queued else "pinning"), ""
        if not peer.has_ipfs:
            return "cluster_error", "error contacting IPFS: dial tcp 10.0.0.8:5001: refused"
        if cid in peer.pinned:
            return "pinned", ""
        return "unexpectedly_unpinned", "the item should be pinned but it is not"

    @staticmethod
    def is_allocated(peer: MiniPeer, pin: MiniPin) -> bool:
        """Whether *peer* is to hold it."""
        return not pin.allocations or peer.id in pin.allocations

    def catch_up(self) -> None:
        """Let everything happen that should have happened by now."""
        now = self.clock()
        for peer in self.peers:
            if peer.is_up and peer.batch and peer.batch_due <= now:
                self._commit(peer, peer.batch_due)
        for peer in self.peers:
            if peer.is_up and peer.inbox and not peer.is_partitioned:
                due = [change for change in peer.inbox if change.due <= now]
                peer.inbox = [change for change in peer.inbox if change.due > now]
                for change in due:
                    self._apply(peer, change)
            if peer.is_up:
                self._recover_errors(peer, now)
                self._work_on(peer, now)

    def _accept(self, peer: MiniPeer, cid: str, pin: MiniPin | None) -> None:
        if not peer.batch:
            peer.batch_due = self.clock() + self.batch_age
        peer.batch.append((cid, pin))
        if not self.batch_age:
            self.catch_up()

    def _commit(self, peer: MiniPeer, at: float) -> None:
        for cid, pin in peer.batch:
            self._version += 1
            change = Change(cid, pin, self._version)
            self._apply(peer, change)
            for other in self.peers:
                if other is not peer:
                    other.inbox.append(replace(change, due=at + self.spread_seconds))
        peer.batch.clear()

    def _apply(self, peer: MiniPeer, change: Change) -> None:
        cid, pin = change.cid, change.pin
        if peer.versions.get(cid, 0) > change.version:
            return
        peer.versions[cid] = change.version
        peer.errors.pop(cid, None)
        peer.working.pop(cid, None)
        peer.begun.pop(cid, None)  # whatever was under way is cancelled
        if pin is None:
            peer.attempts.pop(cid, None)
            peer.state.pop(cid, None)
            peer.pinned.discard(cid)
            return
        peer.state[cid] = pin
        if not self.is_allocated(peer, pin):
            peer.pinned.discard(cid)
        elif cid not in peer.pinned and pin.kind == "pin":
            peer.working[cid] = self.clock()

    def _allocate(self, cid: str, least: int, most: int, old: tuple[str, ...]) -> tuple[str, ...]:
        if least == -1:
            return ()
        fresh = [peer.id for peer in self._heard_of(self.room_seconds)]
        kept = [id_ for id_ in old if id_ in fresh]
        others = sorted(
            (id_ for id_ in fresh if id_ not in kept),
            key=lambda id_: sha256((id_ + cid).encode()).digest(),
        )
        if len(kept) > most:
            return tuple(kept[:most])
        if len(kept) >= least:
            return old  # enough of them are there: whoever is not stays allocated
        if len(fresh) < least:
            raise ValueError(
                f"not enough peers to allocate CID. Needed at least: {least - len(kept)}. Wanted at"
                f" most: {most - len(kept)}. Available candidates: {len(others)}. See logs for"
                " more info."
            )
        return tuple((kept + others)[:most])

    def _can_be_had(self, cid: str, origins: Sequence[str]) -> bool:
        missing = self.supply.missing(self._dag(cid))
        for origin in origins[:MOST_ORIGINS]:  # its nodes connect to no more of them
            missing = missing - self.origins.get(origin, frozenset())
        return not missing or missing <= set().union(
            *(self._kept(peer) for peer in self.peers if peer.is_up)
        )

    def _kept(self, peer: MiniPeer) -> set[Cid]:
        return set().union(*(self._dag(cid) for cid in peer.pinned))

    def _dag(self, cid: str) -> frozenset[Cid]:
        if cid not in self._dags:
            self._dags[cid] = frozenset(self.supply.dag(Cid.parse(cid)))
        return self._dags[cid]
