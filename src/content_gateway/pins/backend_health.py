"""Reports the health of the pin backend, to the log and through the ledger to other processes.

An outage says nothing about a content, so it is stored once and not with each of ten million. A
change is stored at once, otherwise the state every ten seconds while the backend is used. What to
do in an outage is left to the reconciler."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from content_gateway.errors import GatewayError, OwnFault, StorageUnavailable, UpstreamError
from content_gateway.model.backend_health import BackendHealth, Node
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.pins.availability import Availability, is_unreachable

_STORE_INTERVAL: Final = 10.0
_RATE_SECONDS: Final = 300.0
_MAX_NODES: Final = 64
# Statuses that a cluster reports for a peer that did not answer.
_SILENT: Final = frozenset({"cluster_error", "undefined"})

log = structlog.get_logger(__name__)


class HealthLedger(Protocol):
    """Where the health of the backend is stored. Raises StorageUnavailable."""

    async def store(self, health: BackendHealth) -> None:
        """Replace the stored health."""


class HealthMonitor:
    """The health as one process sees it; *returned* is called when an outage is over."""

    def __init__(
        self,
        availability: Availability,
        ledger: HealthLedger | None,
        *,
        returned: Callable[[], None],
        clock: Callable[[], float],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._availability = availability
        self._ledger = ledger
        self._returned = returned
        self._clock = clock
        self._monotonic = ticks
        self._answered_at: float | None = None
        self._since: float | None = None
        self._reason: str | None = None
        self._is_ours = False
        self._warnings = 0
        self._nodes: dict[str, Node] = {}
        self._pinned: deque[tuple[float, int]] = deque(maxlen=round(_RATE_SECONDS))
        self._began = ticks()
        self._stored_at: float | None = None
        self._has_changed = self._has_answers = False

    def record_answer(self, error: Exception | None, *, is_write: bool) -> None:
        """Record the result of a status check or a write; *error* is None if it succeeded."""
        if is_unreachable(error, is_write=is_write):
            if self._availability.record_failure(is_write=is_write):
                self._unanswered(error)
        else:
            self._answered_at, self._has_answers = self._clock(), True
            if self._availability.record_success(is_write=is_write):
                log.warning("pin backend is back")
                self._returned()
            if not self._availability.is_unreachable and self._since is not None:
                self._since, self._reason, self._warnings = None, None, 0
                self._has_changed = True
        if error is not None and not isinstance(error, UpstreamError | OwnFault | TimeoutError):
            log.error("the pin backend's adapter stumbled", exc_info=error)

    def _unanswered(self, error: GatewayError) -> None:
        if self._since is None:
            self._since = self._clock()
        self._reason, self._is_ours = error.detail, isinstance(error, OwnFault)
        self._has_changed = True
        self._warnings += 1
        # True for powers of two: the log has the tries 1, 2, 4, 8 ...
        if self._warnings & (self._warnings - 1) == 0:
            log.warning("pin backend is unreachable", reason=error.detail, tries=self._warnings)

    def record_peers(self, statuses: Iterable[BackendStatus]) -> None:
        """Record which nodes of the backend took part in *statuses*."""
        at = datetime.fromtimestamp(self._clock(), UTC)
        for status in statuses:
            for peer in status.peers:
                if peer.name in self._nodes or len(self._nodes) < _MAX_NODES:
                    self._nodes[peer.name] = Node(peer.name, peer.status not in _SILENT, at)

    def record_outcomes(self, statuses: Iterable[BackendStatus | None]) -> None:
        """Count the contents that became pinned, for the rate that operators see."""
        pinned = sum(1 for each in statuses if each and each.status is TrackerStatus.PINNED)
        if pinned:
            second = float(int(self._monotonic()))
            if self._pinned and self._pinned[-1][0] == second:
                pinned += self._pinned.pop()[1]
            self._pinned.append((second, pinned))

    async def store(self) -> None:
        """Store the health in the ledger after a change, or when the stored one is ten seconds old.

        If the ledger cannot be written, the next call tries again."""
        ticks = self._monotonic()
        is_time = self._stored_at is None or ticks - self._stored_at >= _STORE_INTERVAL
        if self._ledger is None or not (self._has_changed or (self._has_answers and is_time)):
            return
        self._has_changed = self._has_answers = False
        self._stored_at = ticks
        try:
            await self._ledger.store(self._snapshot(ticks))
        except StorageUnavailable as wrong:
            log.warning("word of the backend was not kept", reason=wrong.detail)
            self._has_changed = True

    def _snapshot(self, ticks: float) -> BackendHealth:
        seconds = max(1.0, min(_RATE_SECONDS, ticks - self._began))
        return BackendHealth(
            kept_at=datetime.fromtimestamp(self._clock(), UTC),
            answered_at=_moment(self._answered_at),
            since=_moment(self._since),
            next_at=_moment(self._availability.until) if self._since is not None else None,
            is_rejecting_writes=self._availability.is_rejecting_writes,
            is_ours=self._is_ours and self._since is not None,
            reason=self._reason,
            pinned=sum(number for at, number in self._pinned if at > ticks - seconds),
            seconds=seconds,
            nodes=list(self._nodes.values()),
        )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
