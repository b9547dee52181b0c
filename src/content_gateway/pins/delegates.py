"""Delegates: addresses of the backend's nodes that clients should connect to (Pinning Service API).

Refreshes them in the background, with backoff where the backend does not answer, and keeps the last
answer: those that a client can use. If the operator set some, the backend is not asked."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Final, Protocol

import structlog

from content_gateway.errors import UpstreamError
from content_gateway.model.multiaddr import Multiaddr

MOST_DELEGATES: Final = 20  # Pinning Service API, PinStatus
REFRESH_SECONDS: Final = 600.0
_FIRST_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 60.0

log = structlog.get_logger(__name__)


class Addressed(Protocol):
    """The part of a pin backend that knows its nodes' addresses."""

    async def addresses(self) -> Sequence[str]:
        """The multiaddrs at which its nodes are reachable, if any. Raises UpstreamError."""


class Delegates:
    """The current addresses (`known`), refreshed between `start` and `close`.

    *chosen*: the operator's addresses, used alone if there are any. *private*: whether addresses
    outside of the public internet are included."""

    def __init__(
        self,
        backend: Addressed,
        chosen: Sequence[str],
        *,
        private: bool = False,
        refresh: float = REFRESH_SECONDS,
    ) -> None:
        self._backend = backend
        self._is_chosen = bool(chosen)
        self._private = private
        self._refresh = refresh
        self._task: asyncio.Task[None] | None = None
        self.known: list[str] = list(chosen)

    def start(self) -> None:
        """Start the task that refreshes them, unless the operator configured addresses."""
        if not self._is_chosen:
            self._task = asyncio.create_task(self._run(), name="delegates")

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            try:
                self.known = usable_addresses(
                    await self._backend.addresses(), private=self._private
                )
            except UpstreamError as wrong:
                log.info("the backend's addresses are not known", reason=wrong.detail)
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, _LONGEST_BACKOFF)
            else:
                backoff = _FIRST_BACKOFF
                await asyncio.sleep(self._refresh)


def usable_addresses(addresses: Iterable[str], *, private: bool) -> list[str]:
    """The *addresses* that clients can connect to, by node in turn, at most MOST_DELEGATES."""
    by_node: dict[str, list[str]] = {}
    for text in dict.fromkeys(addresses):
        try:
            address = Multiaddr.parse(text)
        except ValueError:
            continue  # an unknown protocol, or no multiaddr
        if address.peer_id is not None and (private or address.is_public):
            by_node.setdefault(address.peer_id, []).append(text)
    in_turn = chain.from_iterable(zip_longest(*by_node.values()))
    return [text for text in in_turn if text is not None][:MOST_DELEGATES]
