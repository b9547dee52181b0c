"""What we have put into a cluster's pinset, remembered until it is final.

Knows when each was submitted, how the cluster took it, and whether it was seen held since. Is lost
with the process, and then more is asked."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from content_gateway.backends.cluster.status import Allocation
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus

_MOST: Final = 20_000
_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was put into the pinset at *at*, as the cluster took it; *held* is how it was seen to
    be held since, while its batch may still be lost.

    What is not *new* was there before: an older pin of it may be seen, which is about to go."""

    at: float
    pin: Allocation
    is_new: bool
    held: BackendStatus | None = None


class Submissions:
    """The last twenty thousand; what is in a batch is final *batch_age* seconds later."""

    def __init__(self, clock: Callable[[], float], batch_age: float) -> None:
        self._clock = clock
        self._batch_age = batch_age
        self._kept: dict[Cid, Submitted] = {}
        self._absent: dict[Cid, None] = {}
        self._under_way: dict[Cid, float] = {}  # submitted a while ago at most, and not seen held

    def seen_absent(self, cid: Cid) -> None:
        """It is not in the pinset: what will be seen of it there is what is submitted next."""
        self.forget(cid)
        self._absent[cid] = None
        if len(self._absent) > _MOST:
            del self._absent[next(iter(self._absent))]

    def add(self, cid: Cid, pin: Allocation, *, is_new: bool) -> None:
        """The cluster has just taken *pin*."""
        self.forget(cid)
        self._kept[cid] = Submitted(self._clock(), pin, is_new)
        self._under_way[cid] = self._clock()
        if len(self._kept) > _MOST:
            self.forget(next(iter(self._kept)))

    def forget(self, cid: Cid) -> bool:
        """What was submitted of it no longer counts; whether it was absent at the last check."""
        is_absent = cid in self._absent
        self._absent.pop(cid, None)
        self._kept.pop(cid, None)
        self._under_way.pop(cid, None)
        return is_absent

    def of(self, cid: Cid, ages: Mapping[Cid, float]) -> Submitted | None:
        """What was submitted of it. How it was seen held is forgotten where *ages* wants it to be
        asked now, or where that would be final by now."""
        kept = self._kept.get(cid)
        is_old = self.since(cid) > 2 * self._batch_age + _PATIENCE
        if kept is not None and kept.held is not None and (cid not in ages or is_old):
            kept = self._kept[cid] = replace(kept, held=None)
        return kept

    def since(self, cid: Cid) -> float:
        """How many seconds ago it was submitted; infinity where we have not."""
        kept = self._kept.get(cid)
        return math.inf if kept is None else self._clock() - kept.at

    def may_be_in_a_batch(self, cid: Cid) -> bool:
        """Whether what was submitted of it may not be seen yet."""
        return self.since(cid) < self._batch_age

    def seen_held(self, cid: Cid, held: BackendStatus) -> None:
        """It was seen held, with its batch perhaps still open."""
        self._under_way.pop(cid, None)
        kept = self._kept.get(cid)
        if kept is not None and kept.is_new:
            self._kept[cid] = replace(kept, held=held)

    def under_way(self) -> Mapping[Cid, float]:
        """What was submitted a while ago at most, and was not seen held since."""
        before = self._clock() - self._batch_age - _PATIENCE
        while self._under_way:
            cid = next(iter(self._under_way))
            if self._under_way[cid] > before:
                break
            del self._under_way[cid]
        return self._under_way
