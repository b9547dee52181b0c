"""What was asked and how it was answered: counted by route, and told line by line.

Knows a request from its head to the end of its answer, and which of them the access log tells.
How numbers are read is left to wiring/metrics.py, lines to telemetry/line_writer.py."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Final, Literal, TypeAlias

import msgspec

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyUse
from content_gateway.telemetry.line_writer import LineWriter
from content_gateway.telemetry.numbers import Histogram

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

    __slots__ = ("begun", "request_id", "requestor", "route", "use")

    def __init__(self, request_id: str, route: RouteTraffic) -> None:
        self.begun = perf_counter()
        self.request_id = request_id
        self.route = route
        self.requestor: Requestor | None = None
        self.use: KeyUse | None = None


class Traffic:
    """The traffic of one service. *problems* counts errors by their code, *in_flight* the requests
    that are not answered yet."""

    def __init__(self, access: "AccessLog | None" = None) -> None:
        self.access = access
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

    def begin(self, request_id: str) -> Exchange:
        """A request, whose `end` must follow."""
        self.in_flight += 1
        return Exchange(request_id, self.unknown)

    def end(self, exchange: Exchange, method: str, status: int) -> None:
        """Its answer was sent; *status* 0: it was given up."""
        self.in_flight -= 1
        seconds, route = perf_counter() - exchange.begun, exchange.route
        route.answers[method, status] += 1
        route.seconds.observe(seconds)
        if self.access is not None:
            self.access.tell(exchange, method, status, seconds)


class AccessLine(msgspec.Struct, frozen=True):
    """What the access log tells of one request."""

    timestamp: str
    method: str
    route: str
    status: int
    ms: float
    key: str | None
    request_id: str
    level: str = "info"
    event: str = "request"


class AccessLog:
    """A line for each request, or for a sample of them."""

    def __init__(
        self,
        writer: LineWriter,
        *,
        is_json: bool,
        every: int,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """One of *every* is told, and each that failed by our fault or took a second."""
        self._writer = writer
        self._render = msgspec.json.Encoder().encode if is_json else _as_text
        self._every = every
        self._today = today
        self._untold = every - 1  # the first is told

    def tell(self, exchange: Exchange, method: str, status: int, seconds: float) -> None:
        """Write the line of *exchange*, if it is one to be told."""
        self._untold += 1
        if self._untold < self._every and status < 500 and seconds < _SLOW:
            return
        self._untold = 0
        requestor = exchange.requestor
        line = AccessLine(
            timestamp=self._today().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            method=method,
            route=exchange.route.route,
            status=status,
            ms=round(seconds * 1000, 2),
            key=None if requestor is None else requestor.name,
            request_id=exchange.request_id,
        )
        self._writer.put(self._render(line) + b"\n")

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._writer.lost

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


def access_log(level: AccessLevel, log_format: str, file: int) -> AccessLog | None:
    """The log of that *level*, to the file descriptor *file*; None where it is off."""
    if level == "off":
        return None
    every = 1 if level == "on" else _SAMPLE
    return AccessLog(LineWriter(file), is_json=log_format == "json", every=every)


def _as_text(line: AccessLine) -> bytes:
    """As the other lines of the log are."""
    text = (
        f"{line.timestamp[:10]} {line.timestamp[11:19]} [{line.level:9}] {line.event:30}"
        f" method={line.method} route={line.route} status={line.status} ms={line.ms}"
        f" key={line.key} request_id={line.request_id}"
    )
    return text.encode()
