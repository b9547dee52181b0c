"""The limit of what is served without a key: so many requests a minute for each address.

An address is one of IPv4, or the /64 of IPv6 (messages.py); behind a proxy that is not trusted it
is the proxy's (trusted_proxies.py). Counts in this process alone; what an operation costs is left
to its turn (request_turns.py) and to its look-ups."""

import time
from collections.abc import Callable
from typing import Final

from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.http.kinds import RATE_LIMITED
from content_gateway.http.problems import HttpRefusal

_SECONDS: Final = 60
# Addresses that are counted: the last so many, and up to as many before them; a window has 0.8 KB,
# so that all of them have 16 MB at most.
MAX_ADDRESSES: Final = 10_000


class AddressLimits:
    """At most *per_minute* requests of each address in any 60 seconds; 0: no limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._clock = clock
        self._windows: dict[str, SlidingWindow] = {}
        self._older: dict[str, SlidingWindow] = {}

    def __len__(self) -> int:
        return len(self._windows) + len(self._older)

    def take(self, address: str) -> None:
        """Count one request of *address*; HttpRefusal (429) where it is one too many."""
        if not self._limit:
            return
        window = self._windows.get(address)
        if window is None:
            window = self._older.pop(address, None) or SlidingWindow(self._limit, _SECONDS)
            if len(self._windows) >= MAX_ADDRESSES:
                self._windows, self._older = {}, self._windows
            self._windows[address] = window
        now = self._clock()
        if not window.take(now):
            raise HttpRefusal(
                RATE_LIMITED,
                (b"retry-after", b"%d" % window.frees_in(now)),
                detail="This address has used up its requests of this minute.",
            )
