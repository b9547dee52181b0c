"""When keys were last used, and what they were refused: noted in memory, written once a minute.

A request pays for a note and never for a write. Up to a minute of notes is lost with a process that
is killed, and nothing else. Refusals are counted by hour in the audit log, so that a flood of them
neither fills it nor costs a write each. Writing is left to the adapters."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Self, TypeAlias

import structlog

from content_gateway.codecs.timestamps import milliseconds
from content_gateway.errors import GatewayError

_MINUTE: Final = 60_000  # milliseconds
_HOUR: Final = 60 * _MINUTE
FLUSH_SECONDS: Final = 60.0
# Pairs of a requestor and a code that are told apart in an hour. Where any key is taken, one client
# may be as many requestors as it likes.
_MAX_PAIRS: Final = 1_000
_OTHERS: Final = "others"

# Refusals by requestor, code and hour (milliseconds since 1970, when it begins).
Counts: TypeAlias = Mapping[tuple[str, str, int], int]

log = structlog.get_logger(__name__)


class NotedActivity:
    """The activity that is not written yet; owns the task that writes it, between its entrance and
    its exit, which writes the rest."""

    def __init__(
        self,
        write: Callable[[Mapping[str, int], Counts], Awaitable[None]],
        *,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        """*write* the minutes by the id of a key, and the counts."""
        self._write = write
        self._today = today
        self._flush_seconds = flush_seconds
        self._used: dict[str, int] = {}  # the minute, by the id of a key
        self._refused: Counter[tuple[str, str, int]] = Counter()
        self._hour = 0
        self._pairs: set[tuple[str, str]] = set()  # of this hour
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._flush_repeatedly(), name="key activity")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.flush()

    def used(self, requestor: str) -> None:
        """Note that a key was used now."""
        self._used[requestor] = milliseconds(self._today()) // _MINUTE * _MINUTE

    def refused(self, requestor: str, code: str) -> None:
        """Note that *requestor* was refused something now, for the reason *code*."""
        hour = milliseconds(self._today()) // _HOUR * _HOUR
        if hour != self._hour:
            self._hour = hour
            self._pairs.clear()
        pair = (requestor, code)
        if pair not in self._pairs:
            if len(self._pairs) >= _MAX_PAIRS:
                pair = (_OTHERS, code)
            self._pairs.add(pair)
        self._refused[(*pair, hour)] += 1

    async def flush(self) -> None:
        """Write what was noted, in one transaction; kept for the next time where that fails."""
        if not self._used and not self._refused:
            return
        used, self._used = self._used, {}
        refused, self._refused = self._refused, Counter()
        try:
            await self._write(used, refused)
        except GatewayError as failed:
            log.warning("the use of keys was not written", reason=failed.detail)
            self._used = used | self._used
            self._refused.update(refused)

    async def _flush_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._flush_seconds)
            await self.flush()
