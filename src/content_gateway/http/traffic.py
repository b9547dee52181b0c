"""What was asked and how it was answered: counted by route, and told line by line.

Knows a request from its head to the end of its answer, and which of them the access log tells.
How numbers are read is left to wiring/metrics.py, lines to telemetry/line_writer.py."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Literal, TypeAlias

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyUse
from content_gateway.telemetry.line_writer import LineWriter
from content_gateway.telemetry.numbers import Histogram
from content_gateway.telemetry.tracing import RequestSpan, Tracer

AccessLevel: TypeAlias = Literal["off", "sampled", "on"]
UNKNOWN: Final = "unknown"  # the route of a path that is described nowhere
_SAMPLE: Final = 100  # one of so many is told, and beside them those that are slow or failed
_SLOW: Final = 1.0
# Of those that are slow or failed: at once, and a second from then on. In an overload each refusal
# is one, and the log must not cost more than what was refused.
_BURST: Final = 100
_PER_SECOND: Final = 10.0
_AT_ONCE: Final = 256  # that are counted together: half a millisecond's work
_GATHER: Final = 0.1  # seconds that they wait for each other at most


class RouteTraffic:
    """The answers of one route: how many by method and status, and the seconds that we took."""

    __slots__ = ("answers", "route", "seconds")

    def __init__(self, route: str) -> None:
        self.route: Final = route
        self.answers: Counter[tuple[str, int]] = Counter()
        self.seconds = Histogram()


class Exchange:
    """One request under way; its route, requestor and *use* are known once they were found.

    *use* is what its key has used of its limits, None where it has none. What is behind *span* is
    known at its end; *status* 0: its client has not had all of the answer. For some of
    its *seconds* it was *held*: on purpose, or for its client, and not because of us."""

    __slots__ = (
        *("begun", "request_id", "requestor", "route", "use", "span", "held", "_clock"),
        *("method", "status", "seconds"),
    )

    def __init__(self, request_id: str, route: RouteTraffic, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.begun = clock()
        self.held = 0.0
        self.request_id = request_id
        self.route = route
        self.requestor: Requestor | None = None
        self.use: KeyUse | None = None
        self.span: RequestSpan | None = None
        self.method: str
        self.status: int
        self.seconds: float

    @contextmanager
    def holding(self) -> Iterator[None]:
        """What this block takes counts as *held*."""
        since = self._clock()
        try:
            yield
        finally:
            self.held += self._clock() - since


class Traffic:
    """The traffic of one service. *problems* counts errors by their code, *in_flight* the requests
    that are not answered yet.

    Requests that have ended are counted and told some hundred at a time, by `flush`: one after the
    other, between all that a request does, takes twice as long."""

    def __init__(
        self,
        access: "AccessLog | None" = None,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.access = access
        self._tracer = tracer
        self.clock = clock  # of the times of requests, in seconds
        self.in_flight = 0
        self.problems: Counter[str] = Counter()
        self.unknown = RouteTraffic(UNKNOWN)
        self.routes: list[RouteTraffic] = [self.unknown]
        self._ended: list[Exchange] = []
        self._timer: asyncio.TimerHandle | None = None

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
        exchange = Exchange(request_id, self.unknown, self.clock)
        if self._tracer is not None:
            exchange.span = self._tracer.request(headers)
        return exchange

    def end(self, exchange: Exchange, method: str, status: int) -> None:
        """Its answer was sent; *status* 0: not to its end, as the client left, or read too slowly,
        or the answer broke off."""
        self.in_flight -= 1
        exchange.method, exchange.status = method, status
        exchange.seconds = self.clock() - exchange.begun
        if exchange.span is not None:  # here, where its context is
            route, request_id = exchange.route.route, exchange.request_id
            exchange.span.end(method=method, route=route, status=status, request_id=request_id)
        self._ended.append(exchange)
        if len(self._ended) >= _AT_ONCE:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self.flush)

    def flush(self) -> None:
        """Count and tell all that have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ended, self._ended = self._ended, []
        by_route = defaultdict[RouteTraffic, list[Exchange]](list)
        for exchange in ended:
            by_route[exchange.route].append(exchange)
        for route, those in by_route.items():
            route.answers.update([(one.method, one.status) for one in those])
            route.seconds.observe_all([one.seconds - one.held for one in those])
        if self.access is not None:
            self.access.tell(ended)

    def close(self) -> None:
        """Count and tell what is left."""
        self.flush()
        if self.access is not None:
            self.access.close()


class AccessLog:
    """A line for each request, or for a sample of them, as the other lines of the log are."""

    def __init__(self, writer: LineWriter, *, is_json: bool, every: int) -> None:
        """One of *every* is told; and those that failed by our fault or took us a second, as far as
        their rate allows, with how many of them were left out."""
        self._writer = writer
        self._line = _JSON if is_json else _TEXT
        self._no_key = "null" if is_json else "None"
        self._key = '"%s"' if is_json else "%s"
        self._held_ms = ',"held_ms":%.2f' if is_json else " held_ms=%.2f"
        self._left_out_before = ',"left_out":%d' if is_json else " left_out=%d"
        self._every = every
        self._untold = every - 1  # the first is told
        self._room, self._since = float(_BURST), 0.0  # for those that failed or are slow
        self._left_out = 0  # of those, since the last line
        self._second, self._prefix = 0, ""

    def tell(self, ended: Iterable[Exchange]) -> None:
        """Write the lines of those of *ended* that are to be told."""
        since = time.time() - perf_counter()  # of the clock that exchanges have
        told = ended if self._every == 1 else filter(self._is_told, ended)
        lines = [self._line_of(one, since + one.begun + one.seconds) for one in told]
        if lines:
            self._writer.put(lines)

    def _is_told(self, exchange: Exchange) -> bool:
        self._untold += 1
        if self._untold >= self._every:
            self._untold = 0
            return True
        if exchange.status < 500 and exchange.seconds - exchange.held < _SLOW:
            return False
        now = exchange.begun + exchange.seconds
        self._room = min(_BURST, self._room + max(0.0, now - self._since) * _PER_SECOND)
        self._since = max(now, self._since)
        if self._room < 1:
            self._left_out += 1
            return False
        self._room -= 1
        return True

    def _line_of(self, exchange: Exchange, now: float) -> bytes:
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, time.strftime(_SECOND, time.gmtime(second))
        requestor = exchange.requestor
        # Every text of it is one that needs no escape: names of keys and request ids are checked
        # when they come in, routes and methods are ours. Made by one format, a line costs a
        # quarter of what an encoder takes, which a request pays for.
        line = self._line % (
            self._prefix,
            (now - second) * 1000,
            exchange.method,
            exchange.route.route,
            exchange.status,
            exchange.seconds * 1000,
            self._no_key if requestor is None else self._key % requestor.name,
            exchange.request_id,
            self._more(exchange) if exchange.held or self._left_out else "",
        )
        return line.encode()

    def _more(self, exchange: Exchange) -> str:
        """What few lines have: for how long it was held, how many lines were left out."""
        more = ""
        if exchange.held:
            more = self._held_ms % (exchange.held * 1000)
        if self._left_out:
            more += self._left_out_before % self._left_out
            self._left_out = 0
        return more

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._writer.lost

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


_SECOND: Final = "%Y-%m-%dT%H:%M:%S"
_JSON: Final = (
    '{"timestamp":"%s.%03dZ","level":"info","event":"request","method":"%s","route":"%s",'
    '"status":%d,"ms":%.2f,"key":%s,"request_id":"%s"%s}\n'
)
_TEXT: Final = (
    "%s.%03dZ [info     ] request                        method=%s route=%s status=%d ms=%.2f"
    " key=%s request_id=%s%s\n"
)


def access_log(level: AccessLevel, log_format: str, file: int) -> AccessLog | None:
    """The log of that *level*, to the file descriptor *file*; None where it is off."""
    if level == "off":
        return None
    every = 1 if level == "on" else _SAMPLE
    return AccessLog(LineWriter(file), is_json=log_format == "json", every=every)
