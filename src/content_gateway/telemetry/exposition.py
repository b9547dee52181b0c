"""Metrics in Prometheus' text format, by the library of its own project.

Whoever is asked for metrics imports it, which takes a tenth of a second, and nobody else. Which
metrics there are is left to wiring/metrics.py."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
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


class _Processes:
    """What the library tells of each of several processes, as of one; those that ended, and were
    waited for, count in its CPU seconds."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._collectors = [ProcessCollector(pid=partial(int, pid), registry=None) for pid in pids]

    def collect(self) -> Iterator[Metric]:
        """The families."""
        found: dict[str, list[Metric]] = {}
        for collector in self._collectors:
            for metric in collector.collect():
                found.setdefault(metric.name, []).append(metric)
        for name, metrics in found.items():
            values = [metric.samples[0].value for metric in metrics]
            # The first to be started is the service's own start.
            value = min(values) if name == "process_start_time_seconds" else sum(values)
            if name == "process_cpu_seconds":
                ended = os.times()
                value += ended.children_user + ended.children_system
            whole = metrics[0]
            whole.samples = [whole.samples[0]._replace(value=value)]
            yield whole


def exposed(families: Sequence[Family], pids: Sequence[int] = ()) -> bytes:
    """*families*, and what the library tells of this process, or of it and those with the ids
    *pids* together (process_*); of garbage collection (python_gc_*) where it is one."""
    registry = CollectorRegistry()
    if pids:
        registry.register(_Processes([os.getpid(), *pids]))
    else:
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
