"""The pin backend, as the reconciler and the resync need it: a port with several adapters.

Every adapter keeps the promises of tests/pins/promises.py. Adapters do not import this; the type
checker proves in wiring/ that they fit."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Listed
from content_gateway.model.multiaddr import Multiaddr

Progress = Callable[[int, int], None]
"""Called with the blocks and bytes that one attempt has fetched so far."""


class PinBackend(Protocol):
    """A store of pinned content: IPFS Cluster, Kubo or the embedded store."""

    @property
    def batch_age(self) -> float:
        """Seconds after the start of a request within which an accepted change may not be visible
        yet, and may still be lost (ipfs-cluster: max_batch_age).

        "Absent" after a pin, and "present" after an unpin, count only when the last request is
        older. 0: an accepted change is durable and visible at once."""

    async def status(
        self,
        cids: Sequence[Cid],
        ages: Mapping[Cid, float] | None = None,
        unsent: Collection[Cid] = (),
    ) -> Mapping[Cid, BackendStatus]:
        """The status of each of *cids*; every one is in the result. Changes nothing.

        *ages*: how many seconds old the answer may be; a content that is not in it is asked for
        now. *unsent*: contents that were never requested, for which an old listing without them
        will do. TrackerStatus.UNKNOWN: it could not be found out; UpstreamError if that is so for
        all."""

    async def pin(
        self,
        cid: Cid,
        seen: BackendStatus,
        progress: Progress,
        origins: Sequence[Multiaddr] = (),
    ) -> BackendStatus:
        """Ask the backend to pin *cid* and return its status after that; may take as long as the
        retrieval. *seen* is the status just before.

        *origins*: nodes that have it, as its requestors say. One that is unreachable is no failure.

        Never drops what is pinned already, whatever *seen* says. Raises PinFailed when the backend
        tried and cannot, PinDeferred when it accepts no more now or failed temporarily,
        UpstreamUnavailable or UpstreamTimeout when it is unreachable."""

    async def unpin(self, cid: Cid) -> None:
        """Ask the backend to unpin *cid*; no error if it is not pinned.

        On return the request is accepted; a later status check shows whether it is done. Raises
        PinDeferred, UpstreamUnavailable or UpstreamTimeout."""

    def pinset(self) -> AsyncGenerator[Listed, None]:
        """Streams every CID of the pinset, in any order, with the number of replicas that the
        backend's own lists or bounded samples show; for the resync.

        Raises UpstreamError if the stream breaks off, so that a part never passes for the whole."""
