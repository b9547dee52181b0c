"""How often one gateway is asked: as often as it answers, and not while it asks to be left alone.

Knows `Retry-After` (RFC 9110 section 10.2.3) and that a refusal for too many requests is no verdict
on a block. The rate is found by trying: none until a gateway refuses, then what it was seen to
answer, less after each refusal and slowly more without. Who asks what is left to the gateway."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# What a gateway may ask for in the middle of a pin; whoever wants more is left for a later try.
LONGEST_PAUSE: Final = 60.0
# How long a gateway is left alone at most, whatever it asks for.
LONGEST_REST: Final = 600.0
# As many pauses in a row, without an answer in between: it takes nothing at all.
MOST_PAUSES: Final = 5
_FIRST_PAUSE: Final = 0.25
_MOST_DOUBLINGS: Final = 8
_WINDOW: Final = 1.0
_MOST_COUNTED: Final = 10_000
_LESS: Final = 0.85
_ABOVE: Final = 1.3  # what was seen lies a little below what was tried
_FIRST_RATE: Final = 5.0  # at least, of one that refuses for the first time
_LEAST_RATE: Final = 0.5
_MOST_RATE: Final = 2_000.0
# How the rate grows in a second: far below the one that was last refused, and near it.
_FAR: Final = 0.75
_MORE_WHEN_FAR: Final = 1.6
_MORE_WHEN_NEAR: Final = 1.01
# Without a refusal for so long there is more room than was thought, and it is found sooner.
_QUIET: Final = 15.0
_MORE_WHEN_QUIET: Final = 1.1
_CATCH_UP: Final = 0.002  # seconds: a timer that fires late costs no rate


class RateLimit:
    """When the next request to one gateway may be sent."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._rate: float | None = None  # requests a second; None while it never refused
        self._ceiling = _MOST_RATE  # the rate that was last refused
        self._next = 0.0
        self._paused_until = 0.0
        self._refused_at = float("-inf")
        self._raised_at = 0.0
        self._awake_since = 0.0  # the end of the last pause
        self._pauses = 0  # one after the other, without an answer in between
        self._waiting = 0
        self._order = asyncio.Lock()
        self._answered: deque[float] = deque(maxlen=_MOST_COUNTED)

    @property
    def pause(self) -> float:
        """Seconds that it asked to be left alone for, still."""
        return max(0.0, self._paused_until - self._clock())

    @property
    def delay(self) -> float:
        """Seconds until a request that is made now would be sent, about."""
        queue = (self._waiting + 1) / self._rate if self._rate and self._waiting else 0.0
        return self.pause + queue

    @property
    def takes_nothing(self) -> bool:
        """Whether it has refused again and again, or asks for more time than a try has."""
        pause = self.pause
        return pause > LONGEST_PAUSE or (self._pauses >= MOST_PAUSES and pause > 0)

    async def turn(self) -> None:
        """Return when a request may be sent; in the order of the calls."""
        if self._rate is None and not self._waiting and not self.pause:
            return
        self._waiting += 1
        try:
            async with self._order:
                while (wait := max(self._paused_until, self._next) - self._clock()) > 0:
                    await self._sleep(wait)
                self._take()
        finally:
            self._waiting -= 1

    def now(self) -> float:
        """The time, for `refused`."""
        return self._clock()

    def answered(self) -> None:
        """Take note of an answer that is no refusal."""
        self._pauses = 0
        self._answered.append(self._clock())

    def refused(self, asked_at: float, seconds: float | None) -> None:
        """A request of *asked_at* was one too many; *seconds* it asked for, None if it did not."""
        now = self._clock()
        own = _FIRST_PAUSE * 2.0 ** min(self._pauses, _MOST_DOUBLINGS)
        if asked_at < self._refused_at:
            own = 0.0  # it was on its way already when the last one was refused
        elif seconds is not None and not self._pauses:
            own = 0.0  # it is believed once; one that says 0 again and again is not
        pause = min(max(own, seconds or 0.0), LONGEST_REST)
        seen = self._seen(now)
        self._awake_since = self._paused_until = max(self._paused_until, now + pause)
        if asked_at < self._refused_at:
            return
        if self._rate is None:
            self._rate = max(seen, _FIRST_RATE)
        else:
            # Soon after a pause little was seen yet, which proves little.
            self._ceiling = min(self._rate, max(seen * _ABOVE, self._rate / 2))
            self._rate = max(_LEAST_RATE, self._ceiling * _LESS)
        self._pauses += 1
        self._refused_at = self._raised_at = now

    def _take(self) -> None:
        """Count the request that is sent now."""
        if self._rate is None:
            return
        now = self._clock()
        if self._rate < _FAR * self._ceiling:
            more = _MORE_WHEN_FAR
        else:
            more = _MORE_WHEN_NEAR if now - self._refused_at < _QUIET else _MORE_WHEN_QUIET
        # What is not asked for proves nothing: after a rest it goes on from where it was.
        self._rate *= more ** min(now - self._raised_at, 1.0)
        self._rate = min(self._rate, _MOST_RATE)
        self._raised_at = now
        self._next = max(self._next, now - _CATCH_UP) + 1 / self._rate

    def _seen(self, now: float) -> float:
        """Answers a second in the time just gone, as far as it was asked in it."""
        since = max(now - _WINDOW, self._awake_since)
        number = sum(at > since for at in self._answered)
        return number / _WINDOW


def parse_retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Seconds until the time in a Retry-After field, from *now*; None where there is none.

    RFC 9110 section 10.2.3: a number of seconds or an HTTP-date. One in the past is 0."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
