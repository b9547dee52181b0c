"""Names whose records have changed on a chain lately, and when that was heard.

Filled by whoever listens to the chains, and asked by the cache, which has a name looked up again
that has changed since it was. Knows nodes (EIP-137) and times; chains are left to `ethereum/`, and
what follows from a change to cache.py."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from content_gateway.model.domain import DomainName
from content_gateway.names.nodes import nodes_of

# 150 bytes each; ENS has some three events a block, so that this is the memory of a day.
_MOST_NODES: Final = 20_000
# Names below a name may have its resolver (ENSIP-10), seldom that of one with more labels than so.
# Endings are left out: a change of theirs would concern everybody at once. Clocks do for both.
_FEWEST_LABELS: Final = 2
_MOST_LABELS: Final = 4


class Changes:
    """What was heard, by *clock* (monotonic seconds).

    *is_behind* says whether a node of a chain may, since the given time, have answered for a block
    before the last one that was heard of."""

    def __init__(
        self,
        *,
        is_behind: Callable[[float], bool] = lambda _: False,
        clock: Callable[[], float] = time.monotonic,
        most: int = _MOST_NODES,
    ) -> None:
        self.count = 0  # of changes heard: whoever has seen as many need not look again
        self.is_behind = is_behind
        self._clock = clock
        self._most = most
        self._heard: dict[bytes, float] = {}  # by node, the oldest first

    def hear(self, nodes: Iterable[bytes]) -> None:
        """The records of these *nodes* may have changed just now."""
        now, heard = self._clock(), self._heard
        for node in nodes:
            heard.pop(node, None)
            heard[node] = now
            self.count += 1
            if len(heard) > self._most:
                del heard[next(iter(heard))]

    def last(self, nodes: Iterable[bytes]) -> float | None:
        """When one of the *nodes* was last heard of; None where none was, lately."""
        times = [at for node in nodes if (at := self._heard.get(node)) is not None]
        return max(times, default=None)


def nodes_behind(domain: str) -> tuple[bytes, ...]:
    """The nodes on which the answer for *domain*, a normalised name, depends: its own, and those of
    the names above it."""
    labels = domain.split(".")
    lengths = {len(labels), *range(_FEWEST_LABELS, min(len(labels), _MOST_LABELS + 1))}
    names = (DomainName(".".join(labels[-length:])) for length in lengths)
    return tuple(node for name in names for node in nodes_of(name))
