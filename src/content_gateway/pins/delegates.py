"""Delegates: the addresses of the backend's nodes, which clients are told to connect to.

Asks the backend beside all requests, keeps what it said last, and tries again with backoff where
it says nothing. Knows which addresses are of use to a client; where the operator has named some,
nobody is asked."""

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
    """A pin backend, as far as its nodes have addresses."""

    async def addresses(self) -> Sequence[str]:
        """The multiaddrs at which its nodes say that they can be reached, in any order; empty
        where they cannot be. Raises UpstreamError."""


class Delegates:
    """The addresses to tell, kept fresh between `start` and `close`.

    *chosen* are the operator's, and the only ones where there are any; *private* says that
    addresses outside of the public internet are told as well."""

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
        """Begin to ask the backend, in a task of its own; not where the operator has chosen."""
        if not self._is_chosen:
            self._task = asyncio.create_task(self._run(), name="delegates")

    async def close(self) -> None:
        """End it."""
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
    """Those of *addresses* that a client can connect to, some of each node's in turn."""
    by_node: dict[str, list[str]] = {}
    for text in dict.fromkeys(addresses):
        try:
            address = Multiaddr.parse(text)
        except ValueError:
            continue  # of a protocol that we do not know, or no address at all
        if address.peer_id is not None and (private or address.is_public):
            by_node.setdefault(address.peer_id, []).append(text)
    in_turn = chain.from_iterable(zip_longest(*by_node.values()))
    return [text for text in in_turn if text is not None][:MOST_DELEGATES]
