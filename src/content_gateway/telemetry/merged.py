"""The numbers of several processes as those of one.

Counters and histograms are added; a gauge says itself how (`Family.across`). What a process counted
goes on to count when it has ended: a sum that falls looks like a restart to Prometheus. Knows plain
numbers only; how they travel is left to whoever asks the processes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from content_gateway.telemetry.numbers import Family, Histogram

_ACROSS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "sum": lambda one, other: one + other,
    "max": max,
    "min": min,
}


def merged(parts: Iterable[Sequence[Family]]) -> list[Family]:
    """Each family of *parts* once, in the order in which they first come."""
    found: dict[str, list[Family]] = {}
    for part in parts:
        for family in part:
            found.setdefault(family.name, []).append(family)
    return [reduce(_joined, families) for families in found.values()]


def lasting(families: Iterable[Family]) -> list[Family]:
    """Those of *families* that stay true when their process has ended: counters and histograms."""
    return [family for family in families if family.kind != "gauge"]


def _joined(one: Family, other: Family) -> Family:
    numbers = dict(one.numbers)
    joined = _ACROSS["sum" if one.kind == "counter" else one.across]
    for labels, number in other.numbers.items():
        numbers[labels] = joined(numbers[labels], number) if labels in numbers else number
    histograms = dict(one.histograms)
    for labels, histogram in other.histograms.items():
        histograms[labels] = _added(histograms.get(labels), histogram)
    return replace(one, numbers=numbers, histograms=histograms)


def _added(one: Histogram | None, other: Histogram) -> Histogram:
    if one is None:
        return other
    whole = Histogram(one.bounds)
    whole.counts = [here + there for here, there in zip(one.counts, other.counts, strict=True)]
    whole.sum = one.sum + other.sum
    return whole
