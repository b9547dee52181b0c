"""One IPNS link: where a name points next, how long that holds, and how often we may ask.

Knows the bounds on asking. Filling links is left to link_cache.py, following them
to resolver.py."""

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
    """Seconds, and how many names to remember and to look up at once.

    *least_lifetime* is how often at most the owner of a name can make us ask, *domain_stale* how
    long a domain's link serves beyond its TTL when DNS fails, *turn_limit* how long a look-up waits
    until it may begin."""

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


@dataclass(slots=True, eq=False)
class CacheEntry:
    """What is known of one name.

    *target* is where it points, None while that is unknown or is nothing we serve; *rank* is that
    of the best record seen, *failure* what went wrong in the last look, None if it went well. It
    may be used until *usable_until* (UTC) and unasked until *fresh_until* (monotonic).
    *answered* is unset from the beginning of a look, at *asked_at* (monotonic), until it has
    brought something; *finished_at* (UTC) is when the last one did. Its first callers wait until
    *first_wait_ends* (monotonic)."""

    target: ContentPath | None = None
    rank: tuple[int, datetime] | None = None
    usable_until: datetime = NEVER
    fresh_until: float = 0.0
    asked_at: float = float("-inf")
    finished_at: datetime = NEVER
    first_wait_ends: float = 0.0
    failure: str | None = None
    answered: asyncio.Event = field(default_factory=_answered)

    @property
    def is_awaited(self) -> bool:
        """True while a look is under way that has brought nothing yet."""
        return not self.answered.is_set()
