"""What was asked and how it was answered: counted by route, and told line by line.

Knows a request from its head to the end of its answer, and which of them the access log tells.
How numbers are read is left to wiring/metrics.py, lines to telemetry/line_writer.py."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Final, Literal, TypeAlias

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyUse
from content_gateway.telemetry.line_writer import LineWriter
from content_gateway.telemetry.numbers import Histogram
from content_gateway.telemetry.tracing import RequestSpan, Tracer

AccessLevel: TypeAlias = Literal["off", "sampled", "on"]
UNKNOWN: Final = "unknown"  # the route of a path that is described nowhere
_SAMPLE: Final = 100  # one of so many is told, and every one that is slow or failed
_SLOW: Final = 1.0


class RouteTraffic:
    """The answers of one route: how many by method and status, and their seconds."""

    __slots__ = ("answers", "route", "seconds")

    def __init__(self, route: str) -> None:
        self.route: Final = route
        self.answers: Counter[tuple[str, int]] = Counter()
        self.seconds = Histogram()


class Exchange:
    """One request under way; its route, requestor and *use* are known once they were found.

    *use* is what its key has used of its limits, None where it has none."""

    __slots__ = ("begun", "request_id", "requestor", "route", "span", "use")

    def __init__(self, request_id: str, route: RouteTraffic) -> None:
        self.begun = perf_counter()
        self.request_id = request_id
        self.route = route
        self.requestor: Requestor | None = None
        self.use: KeyUse | None = None
        self.span: RequestSpan | None = None


class Traffic:
    """The traffic of one service. *problems* counts errors by their code, *in_flight* the requests
    that are not answered yet."""

    def __init__(self, access: "AccessLog | None" = None, tracer: Tracer | None = None) -> None:
        self.access = access
        self._tracer = tracer
        self.in_flight = 0
        self.problems: Counter[str] = Counter()
        self.unknown = RouteTraffic(UNKNOWN)
        self.routes: list[RouteTraffic] = [self.unknown]

    def route(self, path: str) -> RouteTraffic:
        """The traffic of the route *path*, spelt as in the description, with all its methods."""
        found = next((one for one in self.routes if one.route == path), None)
        if found is None:
            found = RouteTraffic(path)
            self.routes.append(found)
        return found

    def begin(self, request_id: str, headers: Iterable[tuple[bytes, bytes]]) -> Exchange:
        """A request, whose `end` must follow."""
        self.in_flight += 1
        exchange = Exchange(request_id, self.unknown)
        if self._tracer is not None:
            exchange.span = self._tracer.request(headers)
        return exchange

    def end(self, exchange: Exchange, method: str, status: int) -> None:
        """Its answer was sent; *status* 0: it was given up."""
        self.in_flight -= 1
        seconds, route = perf_counter() - exchange.begun, exchange.route
        route.answers[method, status] += 1
        route.seconds.observe(seconds)
        if self.access is not None:
            self.access.tell(exchange, method, status, seconds)
        if exchange.span is not None:
            exchange.span.end(
                method=method, route=route.route, status=status, request_id=exchange.request_id
            )


class AccessLog:
    """A line for each request, or for a sample of them, as the other lines of the log are."""

    def __init__(
        self,
        writer: LineWriter,
        *,
        is_json: bool,
        every: int,
        today: Callable[[], float] = time.time,
    ) -> None:
        """One of *every* is told, and each that failed by our fault or took a second."""
        self._writer = writer
        self._line = _JSON if is_json else _TEXT
        self._moment = _JSON_MOMENT if is_json else _TEXT_MOMENT
        self._no_key = "null" if is_json else "None"
        self._key = '"%s"' if is_json else "%s"
        self._every = every
        self._today = today
        self._untold = every - 1  # the first is told
        self._second, self._prefix = 0, ""

    def tell(self, exchange: Exchange, method: str, status: int, seconds: float) -> None:
        """Write the line of *exchange*, if it is one to be told."""
        self._untold += 1
        if self._untold < self._every and status < 500 and seconds < _SLOW:
            return
        self._untold = 0
        now = self._today()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, time.strftime(self._moment, time.gmtime(second))
        requestor = exchange.requestor
        # Every text of it is one that needs no escape: names of keys and request ids are checked
        # when they come in, routes and methods are ours. Made by one format, a line costs a
        # quarter of what an encoder takes, which a request pays for.
        line = self._line % (
            self._prefix,
            (now - second) * 1000,
            method,
            exchange.route.route,
            status,
            seconds * 1000,
            self._no_key if requestor is None else self._key % requestor.name,
            exchange.request_id,
        )
        self._writer.put(line.encode())

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._writer.lost

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


_JSON_MOMENT: Final = "%Y-%m-%dT%H:%M:%S"
_JSON: Final = (
    '{"timestamp":"%s.%03dZ","level":"info","event":"request","method":"%s","route":"%s",'
    '"status":%d,"ms":%.2f,"key":%s,"request_id":"%s"}\n'
)
_TEXT_MOMENT: Final = "%Y-%m-%d %H:%M:%S"
_TEXT: Final = (
    "%s.%03d [info     ] request                        method=%s route=%s status=%d ms=%.2f"
    " key=%s request_id=%s\n"
)


def access_log(level: AccessLevel, log_format: str, file: int) -> AccessLog | None:
    """The log of that *level*, to the file descriptor *file*; None where it is off."""
    if level == "off":
        return None
    every = 1 if level == "on" else _SAMPLE
    return AccessLog(LineWriter(file), is_json=log_format == "json", every=every)
