"""Whether the pin backend is unreachable, as far as its answers tell.

Knows that a backend may answer looks and take no requests: then an answered look proves nothing. A
single call without an answer is a pause; only where the next one has none either is it an outage
after which something may be lost. What is done meanwhile is decided by the reconciler."""

from collections.abc import Callable
from typing import Final, TypeGuard

from content_gateway.errors import (
    GatewayError,
    StorageUnavailable,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)

_OUTAGE_AFTER: Final = 2


def is_unreachable(error: Exception | None, *, is_write: bool) -> TypeGuard[GatewayError]:
    """Whether *error* says that the backend is unreachable, and nothing about a content.

    A status check that was answered invalidly is none; a write answered so may be the
    content's. A full disk of our own, where the embedded store is the backend, is one as well."""
    signs = UpstreamUnavailable | UpstreamTimeout if is_write else UpstreamError
    return isinstance(error, signs | StorageUnavailable)


class Availability:
    """What has been heard of one backend; *backoff* gives the seconds of a pause, by its number."""

    def __init__(self, backoff: Callable[[int], float], clock: Callable[[], float]) -> None:
        self._backoff = backoff
        self._clock = clock
        self._failures = 0  # one after the other, without an answer in between
        self._until = self._pause = 0.0
        self._failed_on_write = False

    @property
    def is_unreachable(self) -> bool:
        """Whether it was unreachable when it was last asked."""
        return self._failures > 0

    @property
    def until(self) -> float:
        """When it is asked again (seconds since 1970), while it is unreachable."""
        return self._until

    @property
    def is_backing_off(self) -> bool:
        """Whether it is to be left alone now."""
        # A clock that was set back must not make the pause longer.
        return 0 < self._until - self._clock() <= self._pause

    @property
    def is_rejecting_writes(self) -> bool:
        """Whether it takes no requests, while looks may be answered."""
        return self.is_unreachable and self._failed_on_write

    def record_failure(self, *, is_write: bool) -> bool:
        """A status check or a write had no answer; whether that begins another pause."""
        if self.is_backing_off:
            return False
        self._pause = self._backoff(self._failures)
        self._until = self._clock() + self._pause
        self._failures += 1
        self._failed_on_write = is_write
        return True

    def record_success(self, *, is_write: bool) -> bool:
        """A status check or a write was answered; whether that ends an outage worth the
        name."""
        if not self._failures or (self._failed_on_write and not is_write):
            return False
        was_real = self._failures >= _OUTAGE_AFTER
        self._failures, self._until = 0, 0.0
        return was_real
