"""One entry of the IPNS cache: what a name points at, and how long that is fresh and valid.

Knows the bounds on look-ups. Entries are updated by link_cache.py, followed by resolver.py."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from content_gateway.model.content_path import ContentPath

DEFAULT_TTL: Final = timedelta(seconds=60)
NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _answered() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True)
class IpnsPolicy:
    """Seconds, and how many names are cached and looked up at once.

    *first_wait* is how long the first caller of a name waits for an answer. A TTL counts at least
    as *least_lifetime* and at most as *most_lifetime*; *domain_stale* is how long a DNSLink record
    is served beyond its TTL when DNS fails. *retry_after* passes after a failure,
    *between_refreshes* between two refreshes of a name. *source_limit* is the deadline of one
    source, *turn_limit* how long a look-up waits for its turn. Records of up to *kept_record* bytes
    are kept whole, for who hands them on."""

    first_wait: float = 1.5
    least_lifetime: float = 5.0
    most_lifetime: float = 3600.0
    domain_stale: float = 3600.0
    retry_after: float = 10.0
    between_refreshes: float = 5.0
    source_limit: float = 10.0
    turn_limit: float = 5.0
    max_names: int = 20_000
    max_in_flight: int = 256
    max_waiting: int = 1_000
    kept_record: int = 0


@dataclass(slots=True, eq=False)
class CacheEntry:
    """What is known of one name.

    *target* is what it points at, None while that is unknown or nothing we serve. *rank* is that of
    the best record seen, *record* its bytes if they are kept, *ttl* for how long it may be cached
    and *seen_at* (monotonic) when a source had it last. *failure* says why the last look-up failed,
    None if it did not; where *is_absent* because every source said that there is none. The entry is
    valid until *usable_until* (UTC) and fresh until *fresh_until* (monotonic). *answered* is
    unset from the beginning of a look-up, at *asked_at* (monotonic), to its first result, and
    *finished_at* (UTC) the last. The first callers wait until *first_wait_ends* (monotonic)."""

    target: ContentPath | None = None
    rank: tuple[int, datetime] | None = None
    record: bytes | None = None
    ttl: timedelta = DEFAULT_TTL
    seen_at: float = float("-inf")
    usable_until: datetime = NEVER
    fresh_until: float = 0.0
    asked_at: float = float("-inf")
    finished_at: datetime = NEVER
    first_wait_ends: float = 0.0
    failure: str | None = None
    is_absent: bool = False
    answered: asyncio.Event = field(default_factory=_answered)

    @property
    def is_awaited(self) -> bool:
        """Whether a look-up is under way that has no result yet."""
        return not self.answered.is_set()

    async def answers_within(self, seconds: float) -> bool:
        """Whether the look-up that is under way has its first result by then; waits for it."""
        try:
            async with asyncio.timeout(seconds):
                await self.answered.wait()
        except TimeoutError:
            return False
        return True
