"""What a key may use: its limits, and the operations that its type grants. No I/O.

Knows how a key's own limits narrow those of its type, and which would widen them. Counting is left
to http/key_limits.py, pins to the ledger, what is configured to wiring/."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one key; 0 is none.

    *requests_per_minute* and *requests_per_day* are counted over the last 60 seconds and 24 hours,
    *pins* are all that it has, *lookups* and *streams* those at the same time. *operations* are the
    operationIds that its type grants, None without a type: what its scopes grant."""

    requests_per_minute: int = 0
    requests_per_day: int = 0
    pins: int = 0
    lookups: int = 0
    streams: int = 0
    operations: frozenset[str] | None = None

    def grants(self, operation: str) -> bool:
        """Whether the type grants *operation*; GET /key, which tells all this, always."""
        granted = self.operations
        return granted is None or operation in granted or ALL in granted or operation == TELLING

    @property
    def limits(self) -> dict[str, int]:
        """The limits that there are, by name."""
        return {name: limit for name in LIMITS if (limit := getattr(self, name))}

    def narrowed(self, own: Mapping[str, int]) -> "Allowance":
        """With a key's *own* limits where they are lower."""
        lower: dict[str, Any] = {
            name: limit
            for name, limit in own.items()
            if name in LIMITS and limit and not self._is_within(name, limit)
        }
        return replace(self, **lower)

    def widened_by(self, own: Mapping[str, int]) -> list[str]:
        """The names of the *own* limits that are none (0) or higher than these."""
        return [
            name
            for name, limit in own.items()
            if (there := getattr(self, name)) and not 0 < limit <= there
        ]

    def _is_within(self, name: str, limit: int) -> bool:
        """Whether what is there is as low as *limit* already."""
        there: int = getattr(self, name)
        return 0 < there <= limit


LIMITS: Final = tuple(field.name for field in fields(Allowance) if field.type in (int, "int"))
UNLIMITED: Final = Allowance()
ALL: Final = "*"
TELLING: Final = "getKey"
