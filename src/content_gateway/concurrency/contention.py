"""Whether one requestor is alone, or several compete.

Knows who asked last and when it was somebody else before. What follows for a requestor is left to
fair_semaphore.py and http/request_turns.py."""

import asyncio
from typing import Final

# After so many seconds without another's request a requestor is alone. Shorter, and a client that
# asks now and then would wait each time behind all that one alone may have.
ALONE_AFTER: Final = 10.0


class Contention:
    """Who asked *last*, and until when several count as competing.

    *until* is a time of the loop's clock, 0.0 while one requestor is alone. Callers compare *last*
    and call `note` only for another requestor: a call for each request costs more."""

    def __init__(self) -> None:
        self.last = ""
        self.until = 0.0

    def note(self, requestor: str) -> None:
        """*requestor* asks, who is not *last*."""
        if self.last:
            self.until = asyncio.get_running_loop().time() + ALONE_AFTER
        self.last = requestor

    def is_over(self) -> bool:
        """Whether one requestor is alone now; *until* is reset then."""
        if asyncio.get_running_loop().time() >= self.until:
            self.until = 0.0
        return not self.until
