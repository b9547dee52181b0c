"""Metrics in Prometheus' text format, by the library of its own project.

Whoever is asked for metrics imports it, which takes a tenth of a second, and nobody else. Which
metrics there are is left to wiring/metrics.py."""

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest

from content_gateway.telemetry.numbers import Family

PREFIX: Final = "content_gateway_"


class _Collector:
    """*families* as prometheus_client's registry wants them."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The families."""
        return map(_metric, self._families)


def exposed(families: Sequence[Family]) -> bytes:
    """*families*, and what the library tells of the process (process_*, python_gc_*)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(_Collector(families))
    return generate_latest(registry)


def _metric(family: Family) -> Metric:
    name, text, labels = PREFIX + family.name, family.text, family.labels
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for values, one in family.histograms.items():
            buckets = [(_text(bound), count) for bound, count in one.cumulated()]
            histogram.add_metric(values, buckets, one.sum)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    made = kind(name, text, labels=labels)
    for values, number in family.numbers.items():
        made.add_metric(values, float(number))
    return made


def _text(bound: float) -> str:
    """The label of a bucket, as Prometheus' own clients write it."""
    return "+Inf" if isinf(bound) else str(float(bound))
