"""The pin backend, as the reconciler and the resync need it: a port with several adapters.

Every adapter keeps the promises of tests/pins/promises.py. Adapters do not import this; the type
checker proves in wiring/ that they fit."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Listed
from content_gateway.model.multiaddr import Multiaddr

Progress = Callable[[int, int], None]
"""Told the blocks and bytes that one attempt has brought in so far."""


class PinBackend(Protocol):
    """Where content is really kept."""

    @property
    def batch_age(self) -> float:
        """Seconds, from before the call that asks for it, within which a change may not be seen
        yet, and may be lost although it was accepted.

        A status check that shows a content absent, or held after an unpin, counts only when the
        last change is older. 0 where an accepted change is durable and seen at once."""

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        """What the backend holds of each of *cids*, from its own positive word; all are answered.

        *ages* says how many seconds old that word may be; of a content that is not in it the
        backend is asked now. The *unsent* were never asked of the backend: a list that lacks one
        of them may be believed, however old. Changes nothing. Holding.UNKNOWN is said of a
        content that could not be found out about. Raises UpstreamError when nothing could be."""

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Progress,
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        """Ask the backend to pin *cid*, of which a status check just before has shown *seen*
        (ABSENT or FAILED), and say what that has led to; may take as long as the retrieval.

        *origins* have it, as its requestors say: they are asked too, and whoever of them cannot
        be reached is no failure of the pin.

        What the backend holds pinned already is never dropped, whatever *seen* said. Raises
        PinFailed when it has tried and cannot, PinDeferred when it takes no more now or could
        not this time, UpstreamUnavailable or UpstreamTimeout when it cannot be asked at all."""

    async def unpin(self, cid: Cid) -> None:
        """Ask the backend to release *cid*; nothing to do is no error.

        When this returns the backend has taken the request in; a later look says whether it is
        done. Raises PinDeferred, UpstreamUnavailable or UpstreamTimeout."""

    def pinset(self) -> AsyncGenerator[Listed, None]:
        """Every CID in its pinset, in any order, streamed, and how many replicas its own lists or
        samples, of a bounded size, say are there; for the resync.

        Raises UpstreamError where it breaks off, so that half a list never passes for all."""
