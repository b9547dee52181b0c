"""The limits of keys: who may ask for what, how often, and what every answer tells of it.

Counts the requests of each key over the last minute and day, refuses those beyond, and writes the
header fields that clients read: RateLimit and RateLimit-Policy
(draft-ietf-httpapi-ratelimit-headers-10), and the older X-RateLimit-* and X-DailyLimit-*. What a
key may use is left to model/allowance.py, what other processes have counted to shared_counts.py."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from content_gateway.api_keys import Requestor
from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.errors import ScopeMissing
from content_gateway.http.header_block import fields_of
from content_gateway.http.kinds import QUOTA_EXCEEDED, RATE_LIMITED
from content_gateway.http.problems import HttpRefusal
from content_gateway.model.allowance import Allowance

MINUTE: Final = 60
DAY: Final = 86_400
# Keys whose counts are kept: the last so many that were used, and up to as many before them. Where
# any key is taken there is no end of them.
MAX_KEYS: Final = 10_000


class KeyUse:
    """What one key has used: *requests* since the start, and its windows where it has limits."""

    __slots__ = (
        "_left",
        "_lines",
        "_told_until",
        "allowance",
        "day",
        "minute",
        "name",
        "requests",
        "windows",
    )

    def __init__(self, requestor: Requestor, before: "KeyUse | None" = None) -> None:
        """With what the same key has used *before*, under other limits."""
        self.name = requestor.name
        self.allowance = allowance = requestor.allowance
        self.requests: int = 0
        minute = day = None
        if before is not None:
            self.requests, minute, day = before.requests, before.minute, before.day
        self.minute: SlidingWindow | None = _window(allowance.requests_per_minute, MINUTE, minute)
        self.day: SlidingWindow | None = _window(allowance.requests_per_day, DAY, day)
        # The longest first: where both refuse, it is the one to wait for.
        self.windows = tuple(one for one in (self.day, self.minute) if one is not None)
        self._lines: bytes
        self._left: Callable[[KeyUse], tuple[int, ...]]
        self._told_until = 0.0  # until then these two are what `_template` made

    def take(self, now: float) -> None:
        """Count one request; HttpRefusal where it is one too many, which then counts nowhere."""
        for number, window in enumerate(self.windows):
            if not window.take(now):
                for other in self.windows[:number]:
                    other.give_back()
                kind = RATE_LIMITED if window is self.minute else QUOTA_EXCEEDED
                wait = (b"retry-after", b"%d" % window.frees_in(now))
                raise HttpRefusal(kind, wait, *fields_of(self.lines(now)))

    def lines(self, now: float) -> bytes:
        """The lines of the header fields that tell the limits, and what is left; it has a limit."""
        if now >= self._told_until:
            # What is left changes with each request, and all else by the second.
            self._lines, self._left = self._template(now)
            self._told_until = now + 1.0
        return self._lines % self._left(self)

    def _template(self, now: float) -> "tuple[bytes, Callable[[KeyUse], tuple[int, ...]]]":
        """Their lines, with two places for what is left of each window, and what fills them."""
        policies, lefts, lines, places = [], [], [], list[str]()
        for name, seconds, prefix, window in (
            (b"minute", MINUTE, b"x-ratelimit", self.minute),
            (b"day", DAY, b"x-dailylimit", self.day),
        ):
            if window is not None:
                reset = window.frees_in(now)
                places.append(f"{name.decode()}.left")
                policies.append(b'"%b";q=%d;w=%d' % (name, window.limit, seconds))
                lefts.append(b'"%b";r=%%d;t=%d' % (name, reset))
                lines += [
                    b"%b-limit: %d" % (prefix, window.limit),
                    b"%b-reset: %d" % (prefix, reset),
                    b"%b-remaining: %%d" % prefix,
                ]
        lines.append(b"ratelimit-policy: " + b", ".join(policies))
        lines.append(b"ratelimit: " + b", ".join(lefts))
        template = b"".join(line + b"\r\n" for line in lines)
        return template, attrgetter(*places, *places)


class KeyLimits:
    """The use of every key that was seen lately."""

    def __init__(self, *, streams: int = 0) -> None:
        """*streams* is how many a client without a key may have."""
        self._keyless = Allowance(streams=streams)
        self._uses: dict[str, KeyUse] = {}
        self._older: dict[str, KeyUse] = {}  # not used since there were MAX_KEYS others
        # Called with each key that was let in and has limits: for whoever tells other processes.
        self.counted: Callable[[str, KeyUse], None] | None = None

    def admit(self, requestor: Requestor, operation: str, now: float) -> KeyUse | None:
        """Count a request of *requestor* for *operation* at *now*, by one monotonic clock; its use,
        None where it has no limits.

        Raises ScopeMissing where its type does not grant the operation, HttpRefusal (429) where a
        limit is reached."""
        use = self._uses.get(requestor.id)
        if use is None or use.allowance is not requestor.allowance:
            use = self._renewed(requestor)
        use.requests += 1
        if use.windows:
            use.take(now)
            if self.counted is not None:
                self.counted(requestor.id, use)
        allowance = use.allowance
        if allowance.operations is not None and not allowance.grants(operation):
            raise ScopeMissing("The type of the API key does not grant this operation.")
        return use if use.windows else None

    def admit_more(
        self, requestor: Requestor, number: int, now: float
    ) -> tuple[int, Exception | None]:
        """Count up to *number* more requests of *requestor*, which was admitted *now*, each as one;
        how many its limits let in, and the refusal (429) of the next one."""
        use = self._known(requestor.id) or self._renewed(requestor)
        for taken in range(number):
            try:
                use.take(now)
            except HttpRefusal as refusal:
                return taken, refusal
            if use.windows and self.counted is not None:
                self.counted(requestor.id, use)
        return number, None

    def know(self, requestor: Requestor) -> None:
        """Have the limits of *requestor* hold, though it came with no request: by a command."""
        self._renewed(requestor)

    def use_of(self, requestor: Requestor) -> KeyUse:
        """What *requestor* has used so far."""
        return self._known(requestor.id) or KeyUse(requestor)

    def used(self) -> Iterator[tuple[str, KeyUse]]:
        """The id and the use of every key that was seen lately, here or by another process."""
        return iter((*self._uses.items(), *self._older.items()))

    def used_elsewhere(self, key: str, minute: int, day: int) -> KeyUse:
        """The use of the key with the id *key*, which another process let in; those are its limits
        there, where it was not seen here."""
        allowance = Allowance(requests_per_minute=minute, requests_per_day=day)
        return self._known(key) or self._renewed(Requestor(key, frozenset(), "", allowance))

    def allowance_of(self, charged: str) -> Allowance:
        """The allowance of whoever is *charged*: a requestor by its id, or a network."""
        use = self._known(charged)
        return self._keyless if use is None else use.allowance

    def _known(self, key: str) -> KeyUse | None:
        return self._uses.get(key) or self._older.get(key)

    def _renewed(self, requestor: Requestor) -> KeyUse:
        """The use of a key that is seen the first time or after long, or whose limits may be others
        now."""
        key = requestor.id
        use = self._uses.pop(key, None) or self._older.pop(key, None)
        if use is None or not use.name or use.allowance != requestor.allowance:
            use = KeyUse(requestor, use)
        use.allowance = requestor.allowance
        if len(self._uses) >= MAX_KEYS:
            self._uses, self._older = {}, self._uses
        self._uses[key] = use
        return use


def _window(limit: int, seconds: int, before: SlidingWindow | None) -> SlidingWindow | None:
    if before is None or not limit:
        return SlidingWindow(limit, seconds) if limit else None
    return before if before.limit == limit else before.resized(limit)
