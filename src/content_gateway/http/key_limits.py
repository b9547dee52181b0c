"""The limits of keys: who may ask for what, how often, and what every answer tells of it.

Counts the requests of each key over the last minute and day, refuses those beyond, and writes the
header fields that clients read: RateLimit and RateLimit-Policy
(draft-ietf-httpapi-ratelimit-headers-10), and the older X-RateLimit-* and X-DailyLimit-*. Counts
are this process's own. What a key may use is left to model/allowance.py."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from content_gateway.api_keys import Requestor
from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.errors import ScopeMissing
from content_gateway.http.kinds import QUOTA_EXCEEDED, RATE_LIMITED
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.model.allowance import Allowance

MINUTE: Final = 60
DAY: Final = 86_400
# Keys whose counts are kept, the ones used last. Where any key is taken there is no end of them.
MAX_KEYS: Final = 10_000


class KeyUse:
    """What one key has used: *requests* since the start, and its windows where it has limits."""

    __slots__ = ("_policy", "_windows", "allowance", "day", "minute", "name", "requests")

    def __init__(self, requestor: Requestor) -> None:
        self.name = requestor.name
        self.allowance = allowance = requestor.allowance
        self.requests = 0
        self.minute = _window(allowance.requests_per_minute, MINUTE)
        self.day = _window(allowance.requests_per_day, DAY)
        named = ((b'"minute"', b"X-RateLimit", self.minute, MINUTE),
                 (b'"day"', b"X-DailyLimit", self.day, DAY))  # fmt: skip
        self._windows = [
            (name, _names(fields.lower()), window)
            for name, fields, window, _ in named
            if window is not None
        ]
        self._policy = b", ".join(
            b"%b;q=%d;w=%d" % (name, window.limit, seconds)
            for name, _, window, seconds in named
            if window is not None
        )

    def fields(self, now: float) -> Headers:
        """The header fields that tell the limits, and what is left of them."""
        headers: Headers = [(b"ratelimit-policy", self._policy)]
        left = []
        for name, (limit, remaining, reset), window in self._windows:
            rest, seconds = window.limit - window.used, window.frees_in(now)
            left.append(b"%b;r=%d;t=%d" % (name, rest, seconds))
            headers += (
                (limit, b"%d" % window.limit),
                (remaining, b"%d" % rest),
                (reset, b"%d" % seconds),
            )
        headers.append((b"ratelimit", b", ".join(left)))
        return headers

    def take(self, now: float) -> None:
        """Count one request; HttpRefusal where it is one too many."""
        for kind, window in ((RATE_LIMITED, self.minute), (QUOTA_EXCEEDED, self.day)):
            if window is not None and not window.take(now):
                wait = (b"retry-after", b"%d" % window.frees_in(now))
                raise HttpRefusal(kind, wait, *self.fields(now))


class KeyLimits:
    """The use of every key that was seen lately."""

    def __init__(self, *, streams: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """*streams* is how many a client without a key may have."""
        self._keyless = Allowance(streams=streams)
        self._clock = clock
        self._uses: dict[str, KeyUse] = {}

    def admit(self, requestor: Requestor, operation: str) -> KeyUse | None:
        """Count a request of *requestor* for *operation*; its use, None where it has no limits.

        Raises ScopeMissing where its type does not grant the operation, HttpRefusal (429) where a
        limit is reached."""
        use = self._uses.get(requestor.id)
        if use is None or use.allowance is not requestor.allowance:
            use = self._renewed(requestor, use)
        use.requests += 1
        is_limited = use.minute is not None or use.day is not None
        if is_limited:
            use.take(self._clock())
        allowance = use.allowance
        if allowance.operations is not None and not allowance.grants(operation):
            raise ScopeMissing("The type of the API key does not grant this operation.")
        return use if is_limited else None

    def fields(self, use: KeyUse) -> Headers:
        """The header fields that tell what is left of *use*."""
        return use.fields(self._clock())

    def use_of(self, requestor: Requestor) -> KeyUse:
        """What *requestor* has used so far."""
        return self._uses.get(requestor.id) or KeyUse(requestor)

    def used(self) -> Iterator[KeyUse]:
        """The use of every key that was seen lately."""
        return iter(tuple(self._uses.values()))

    def allowance_of(self, charged: str) -> Allowance:
        """The allowance of whoever is *charged*: a requestor by its id, or a network."""
        use = self._uses.get(charged)
        return self._keyless if use is None else use.allowance

    def _renewed(self, requestor: Requestor, known: KeyUse | None) -> KeyUse:
        """The use of a key that is seen the first time, or whose limits may be others now."""
        if known is not None and known.allowance == requestor.allowance:
            known.allowance = requestor.allowance
            return known
        use = self._uses[requestor.id] = KeyUse(requestor)
        if len(self._uses) > MAX_KEYS:
            del self._uses[next(iter(self._uses))]
        return use


def _window(limit: int, seconds: int) -> SlidingWindow | None:
    return SlidingWindow(limit, seconds) if limit else None


def _names(prefix: bytes) -> tuple[bytes, bytes, bytes]:
    return prefix + b"-limit", prefix + b"-remaining", prefix + b"-reset"
