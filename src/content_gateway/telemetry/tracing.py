"""Traces: what a request waited for, for whoever follows it through several services.

A port, so that a service without traces imports and pays nothing; OpenTelemetry stands behind it
(open_telemetry.py). Spans tell routes, statuses, and which kind of server was asked; never a key, a
domain, a CID or a path."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol


class RequestSpan(Protocol):
    """The span of one request that is being answered."""

    def end(self, *, method: str, route: str, status: int, request_id: str) -> None:
        """It was answered with *status*, 0 if not to its end."""


class Tracer(Protocol):
    """Whoever gathers spans."""

    def request(self, headers: Iterable[tuple[bytes, bytes]]) -> RequestSpan:
        """Begin the span of a request with these *headers* (traceparent, W3C Trace Context).

        What the running task does until then, and the tasks that it makes, belong to it."""

    def upstream(self, kind: str, host: str) -> AbstractContextManager[None]:
        """The span of a request to *host*, a server of that *kind*: what the block takes."""
