"""How long after a request a status check is worth its while, taken from the status checks: rules
without I/O.

A backend that is fed many contents needs a while for each, and looks that come too early make it
longer. Knows only how looks went; an idle time makes it forget, so that a single content is soon
seen again."""

import math
from typing import Final

_LONGER: Final = 1.05
_SHORTER: Final = 0.97
_HALVES_IN: Final = 10.0


class PollInterval:
    """Between *least* and *most* seconds."""

    def __init__(self, least: float, most: float) -> None:
        self._least = least
        self._most = max(least, most)
        self._seconds = least
        self._learned_at = 0.0

    def seconds(self, now: float) -> float:
        """How many seconds after a request made *now* it is time for a first status check."""
        idle = max(0.0, now - self._learned_at)
        return max(self._least, self._seconds * math.exp2(-idle / _HALVES_IN))

    def record(self, now: float, *, at_first: bool) -> None:
        """A content was seen to be there: with the first status check since the request, or a later
        one."""
        factor = _SHORTER if at_first else _LONGER
        self._seconds = min(self._most, max(self._least, self.seconds(now) * factor))
        self._learned_at = now
