"""The miniature cluster of tests/fakes behind the real adapter, as the machine's world.

Does what cluster.py beside this does, and through every word of the REST API: two peers, a batch
each, one of which may be dark, and each at two pins at a time. It takes longer, so fewer steps are
taken with it."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

from content_gateway.backends.cluster.cluster import IpfsCluster
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Listed
from content_gateway.model.multiaddr import Multiaddr
from tests.fakes.cluster import MiniCluster, MiniPin
from tests.fakes.cluster_wire import Wire
from tests.ledgers import Clock
from tests.pins.model.cluster import Meanwhile, Mood, nothing


class AdaptedCluster:
    """IpfsCluster over a cluster whose batches commit after *window* seconds."""

    workers = 2

    def __init__(self, clock: Clock, window: float) -> None:
        self.meanwhile: Meanwhile = nothing
        self._cluster = MiniCluster(2, clock=clock, batch_age=window)
        self._cluster.pin_seconds, self._cluster.concurrent_pins = 2.0, self.workers
        self._wire = Wire(self._cluster)
        self._adapter = IpfsCluster(self._wire, self._wire.urls, batch_age=window, clock=clock)
        self._mood = Mood.WELL

    # What the reconciler and the resync ask for.

    @property
    def batch_age(self) -> float:
        return self._adapter.batch_age

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        return await self._adapter.status(cids, ages, unsent)

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Callable[[int, int], None],
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        await self.meanwhile("pin", cid)
        status = await self._adapter.pin(cid, seen, progress, origins)
        self._answer()
        return status

    async def unpin(self, cid: Cid) -> None:
        await self.meanwhile("unpin", cid)
        await self._adapter.unpin(cid)
        self._answer()

    async def pinset(self) -> AsyncGenerator[Listed, None]:
        async for listed in self._adapter.pinset():
            yield listed

    async def in_progress(self) -> Mapping[str, bool]:
        return await self._adapter.in_progress()

    # What happens to it.

    @property
    def mood(self) -> Mood:
        """What is wrong with it; rejecting writes it is in one of its peers only."""
        return self._mood

    @mood.setter
    def mood(self, mood: Mood) -> None:
        self._mood = mood
        first, *others = self._cluster.peers
        first.is_dark = mood in (Mood.AWAY, Mood.DEAF)
        for peer in others:
            peer.is_dark = mood is Mood.AWAY
        for peer in self._cluster.peers:
            peer.loses_answers = mood is Mood.MUTE
        self._cluster.refusal = "pin queue is full" if mood is Mood.BUSY else ""
        known = {cid for peer in self._cluster.peers for cid in peer.state}
        self._wire.rest.silent_about = known if mood is Mood.VAGUE else set()

    @property
    def commits_at(self) -> float | None:
        """When the next open batch commits."""
        return min((peer.batch_due for peer in self._cluster.peers if peer.batch), default=None)

    def provide(self, cid: Cid) -> None:
        self._cluster.provide(cid, b"")

    def forget(self, cid: Cid) -> None:
        self._cluster.forget(cid)

    def tick(self) -> None:
        self._cluster.catch_up()

    def commit(self) -> None:
        for peer in self._cluster.peers:
            self._cluster.stop(peer)
            self._cluster.start(peer)

    def kill(self) -> None:
        for peer in self._cluster.peers:
            self._cluster.kill(peer)
            self._cluster.start(peer)

    def lose(self, cid: Cid) -> None:
        for peer in self._cluster.peers:
            for memory in (peer.state, peer.working, peer.errors):
                memory.pop(str(cid), None)
            peer.pinned.discard(str(cid))

    def lose_blocks(self, cid: Cid) -> None:
        for peer in self._cluster.peers:
            self._cluster.lose(peer, str(cid))

    def wipe(self) -> None:
        self._cluster.wipe()

    def put(self, cid: Cid) -> None:
        for peer in self._cluster.peers:
            peer.state.setdefault(str(cid), MiniPin(str(cid), -1, -1))
            peer.working.setdefault(str(cid), self._cluster.clock())

    # What is true of it, for whoever checks.

    def keeps(self, cid: Cid) -> bool:
        self.tick()
        text = str(cid)
        return all(
            text in peer.state
            and text in peer.pinned
            and [pin for each, pin in peer.batch if each == text][-1:] != [None]
            for peer in self._cluster.peers
        )

    def may_keep(self) -> set[Cid]:
        self.tick()
        return {
            Cid.parse(text)
            for peer in self._cluster.peers
            for text in (*peer.state, *(each for each, pin in peer.batch if pin is not None))
        }

    def _answer(self) -> None:
        if self.mood is Mood.SLOW:
            raise TimeoutError
