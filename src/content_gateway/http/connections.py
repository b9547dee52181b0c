"""All connections of one server: how many there may be, and which goes when there are too many.

Every connection is an open file, and the service needs files of its own: where none is left, no
ledger can be searched and no upstream asked. So their number is bounded, and who has asked nothing
for the longest time makes room for who comes. Knows no HTTP; what a connection says when it has to
go is left to protocol.py."""

from typing import Final, Protocol

import structlog

from content_gateway.files.descriptors import is_for_files, most_files

# For the databases, the upstreams' pools and what Python itself opens.
OWN_FILES: Final = 1_024

log = structlog.get_logger(__name__)


class OpenConnection(Protocol):
    """A connection."""

    def make_room(self) -> None:
        """End it now; no request is under way on it."""


class Connections:
    """The connections of one server, *most* of them at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        # The one that has been idle for the longest time first.
        self._idle: dict[OpenConnection, None] = {}

    def arrive(self, member: OpenConnection, descriptor: int = -1) -> bool:
        """Count *member*, which is idle; False where there is no room for it, and none is made.

        There is none either where its *descriptor* is of those that are kept for files."""
        self._number += 1
        is_full = self._number > self._most or is_for_files(descriptor)
        oldest = next(iter(self._idle), None) if is_full else None
        self._idle[member] = None
        if not is_full:
            return True
        log.warning(
            "connections are at their limit",
            limit=min(self._most, self._number),
            made_room=oldest is not None,
        )
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.make_room()
        return True

    def work(self, member: OpenConnection) -> None:
        """A request of *member* is under way."""
        self._idle.pop(member, None)

    def rest(self, member: OpenConnection) -> None:
        """It was answered."""
        self._idle[member] = None

    def leave(self, member: OpenConnection) -> None:
        """*member* has gone."""
        self._number -= 1
        self._idle.pop(member, None)


def most_connections(chosen: int) -> int:
    """How many connections there may be in all: *chosen*, or where that is 0 or more than the
    descriptors of this process allow, as many as these do (RLIMIT_NOFILE, raised before)."""
    files = most_files()
    allowed = files - min(OWN_FILES, files // 2)
    return min(chosen, allowed) if chosen else allowed
