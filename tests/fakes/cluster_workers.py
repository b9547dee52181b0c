"""The workers of a miniature cluster's peers: what is pinned now, what waits and what is given up.

Behaves as the stateless pin tracker of ipfs-cluster 1.1.6 (stateless.go)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from .cluster_parts import MiniPeer

PRIORITY_RETRIES = 5
TIMED_OUT = "context canceled"


class Workers(ABC):
    """A peer is at *concurrent_pins* at a time, the others are queued: first those that were tried
    five times at most. Each waits *queue_seconds*, takes *pin_seconds*, and is given up after
    *pin_timeout* where somebody who has a block is missing; every *recover_seconds* what was given
    up is queued again."""

    def __init__(self) -> None:
        self.queue_seconds = self.pin_seconds = 0.0
        self.pin_timeout = 5.0
        self.concurrent_pins = 10
        self.recover_seconds = math.inf

    @abstractmethod
    def _can_be_had(self, cid: str, origins: Sequence[str]) -> bool: ...

    def _recover_errors(self, peer: MiniPeer, now: float) -> None:
        if now - peer.recovered_at >= self.recover_seconds:
            peer.recovered_at = now
            peer.working |= dict.fromkeys(peer.errors, now)
            peer.errors.clear()

    def _work_on(self, peer: MiniPeer, now: float) -> None:
        """Let the workers of *peer* do what they can by now; who is done takes the next."""
        for cid in set(peer.begun) - set(peer.working):
            del peer.begun[cid]
        is_new = True
        while is_new:
            self._hand_out(peer, now)
            before = len(peer.begun)
            for cid in list(peer.begun):
                self._work(peer, cid, now)
            is_new = len(peer.begun) < min(before, len(peer.working))

    def _hand_out(self, peer: MiniPeer, now: float) -> None:
        waiting = [cid for cid in peer.working if cid not in peer.begun]
        waiting.sort(key=lambda cid: peer.attempts.get(cid, 0) > PRIORITY_RETRIES)
        for cid in waiting[: max(0, self.concurrent_pins - len(peer.begun))]:
            peer.begun[cid] = now
            peer.attempts[cid] = peer.attempts.get(cid, 0) + 1

    def _work(self, peer: MiniPeer, cid: str, now: float) -> None:
        waited = now - max(peer.begun[cid], peer.working[cid] + self.queue_seconds)
        if waited < 0:
            return
        if not peer.has_ipfs:
            reason = "IPFS request failed (is it running?): dial tcp 10.0.0.8:5001: refused"
        elif not peer.is_hung and self._can_be_had(
            cid, peer.state[cid].origins if cid in peer.state else ()
        ):
            if waited >= self.pin_seconds:
                peer.pinned.add(cid)
                del peer.working[cid], peer.begun[cid]
                peer.attempts.pop(cid, None)
            return
        elif waited < self.pin_timeout:
            return
        else:
            reason = TIMED_OUT
        peer.errors[cid] = reason
        del peer.working[cid], peer.begun[cid]
