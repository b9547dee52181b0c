"""Numbers that a part keeps of its own work: outcomes counted, and how long they took.

Plain values that whoever does the work writes and wiring/metrics.py reads: counting costs a tenth
of what it costs in a registry of metrics, and a part need not know that there is one. Each is
written by one thread; what reads it meanwhile may miss the newest."""

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from content_gateway.errors import (
    CallerError,
    InvalidUpstreamResponse,
    NotFound,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
)

# Seconds: from a warm answer to the longest that anybody waits.
SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


class Histogram:
    """How many values there were up to each of *bounds*, ascending, and their *sum*.

    *counts* has one more than there are bounds: for what is above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """One more *value*."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: Sequence[float]) -> None:
        """All of *values*, in a third of the time that each by itself would take."""
        ascending, below = sorted(values), 0
        for index, bound in enumerate(self.bounds):
            up_to = bisect_right(ascending, bound)
            self.counts[index] += up_to - below
            below = up_to
        self.counts[-1] += len(ascending) - below
        self.sum += sum(ascending)

    def cumulated(self) -> Iterator[tuple[float, int]]:
        """Each bound, infinity last, and the number of values up to it."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its *name* without prefix and suffix, what it says, its *labels*, and its values by
    the values of those: *histograms* of a histogram, *numbers* of any other.

    *across* is what the gauges of several processes are together; counters are always a sum."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    text: str
    labels: tuple[str, ...] = ()
    numbers: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    histograms: Mapping[tuple[str, ...], Histogram] = field(default_factory=dict)
    across: Literal["sum", "max", "min"] = "max"


class Outcomes:
    """How the requests to each of several servers, or kinds of them, ended, and how long they took.

    *counts* are by subject and outcome (see `outcome_of`), *seconds* by subject."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.counts: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, Histogram] = defaultdict(Histogram)

    @contextmanager
    def counted(self, subject: str) -> Iterator["Counted"]:
        """Count the block as one request to *subject*, which may say itself how it ended."""
        begun, request = self._clock(), Counted()
        try:
            yield request
        except BaseException as error:
            request.outcome = outcome_of(error)
            raise
        finally:
            self.counts[subject, request.outcome] += 1
            self.seconds[subject].observe(self._clock() - begun)


class Counted:
    """One request under way; *outcome* is the word it is counted under if nothing is raised."""

    outcome = "answered"


def outcome_of(error: BaseException) -> str:
    """One word for how a request ended that raised *error*."""
    for kinds, word in _OUTCOMES:
        if isinstance(error, kinds):
            return word
    return "error"


# The first that fits: an absence is an answer, and who gave up says nothing about the server.
_OUTCOMES: Final = (
    (NotFound, "absent"),
    ((UpstreamTimeout, TimeoutError), "timeout"),
    (InvalidUpstreamResponse, "invalid"),
    (UpstreamError, "unavailable"),
    (Overloaded, "overloaded"),
    (CallerError, "refused"),  # what was asked for cannot be had there
    (asyncio.CancelledError, "cancelled"),
)
