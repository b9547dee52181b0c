"""Whether the pin backend is unreachable, judged by its answers.

Knows that a backend may answer status checks and reject requests: then an answered status check
does not end the outage. A single failure is only backed off from; a second one in a row makes it an
outage, after which the backend may have lost something; the reconciler decides what follows."""

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
    """Whether *error* is about the backend, and says nothing about a content.

    An invalid answer to a status check counts as no answer; an invalid answer to a write may be
    caused by the content. Our own full disk counts too: there the embedded store is the backend."""
    signs = UpstreamUnavailable | UpstreamTimeout if is_write else UpstreamError
    return isinstance(error, signs | StorageUnavailable)


class Availability:
    """The availability of one backend; *backoff(n)* is the pause in seconds after n failures."""

    def __init__(self, backoff: Callable[[int], float], clock: Callable[[], float]) -> None:
        self._backoff = backoff
        self._clock = clock
        self._failures = 0  # in a row
        self._until = self._pause = 0.0
        self._failed_on_write = False

    @property
    def is_unreachable(self) -> bool:
        """Whether the last call failed."""
        return self._failures > 0

    @property
    def until(self) -> float:
        """When the next probe is due (seconds since 1970), while it is unreachable."""
        return self._until

    @property
    def is_backing_off(self) -> bool:
        """Whether the pause after the last failure is not over."""
        # If the clock was set back, the rest may look longer than the whole pause: then it is over.
        return 0 < self._until - self._clock() <= self._pause

    @property
    def is_rejecting_writes(self) -> bool:
        """Whether the last failure was a write, so that status checks may still be answered."""
        return self.is_unreachable and self._failed_on_write

    def record_failure(self, *, is_write: bool) -> bool:
        """A status check or a write failed; returns whether that starts another pause. Calls that
        were under way when it started do not count again."""
        if self.is_backing_off:
            return False
        self._pause = self._backoff(self._failures)
        self._until = self._clock() + self._pause
        self._failures += 1
        self._failed_on_write = is_write
        return True

    def record_success(self, *, is_write: bool) -> bool:
        """A status check or a write was answered; returns whether that ends an outage."""
        if not self._failures or (self._failed_on_write and not is_write):
            return False
        was_real = self._failures >= _OUTAGE_AFTER
        self._failures, self._until = 0, 0.0
        return was_real
