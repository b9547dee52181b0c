"""The limit of open connections of one server, and which one is closed when it is reached.

Every connection is an open file, and the service needs files of its own: with none left, no ledger
can be searched and no upstream asked. So their number is limited, and a new connection takes the
place of the one that has been idle for longest. What a refused one is sent is left to
protocol.py."""

from typing import Final, Protocol

import structlog

from content_gateway.files.descriptors import is_for_files, most_files

# Kept free for the databases, the connection pools to upstreams and what Python itself opens.
OWN_FILES: Final = 1_024

log = structlog.get_logger(__name__)


class OpenConnection(Protocol):
    """A connection that can be closed while it is idle."""

    def make_room(self) -> None:
        """Close it now; no request is under way on it."""


class Connections:
    """The open connections of one server, at most *most*."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        # In insertion order: the one that has been idle for longest comes first.
        self._idle: dict[OpenConnection, None] = {}

    def add(self, member: OpenConnection, descriptor: int = -1) -> bool:
        """Count *member*, which is idle; False where the limit is reached and no other is idle.

        The limit is reached too if its file *descriptor* is one of those kept for files."""
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

    def mark_busy(self, member: OpenConnection) -> None:
        """A request of *member* is under way: it is not closed for another."""
        self._idle.pop(member, None)

    def mark_idle(self, member: OpenConnection) -> None:
        """The request of *member* was answered."""
        self._idle[member] = None

    def remove(self, member: OpenConnection) -> None:
        """*member* was closed; count it no longer."""
        self._number -= 1
        self._idle.pop(member, None)


def most_connections(chosen: int) -> int:
    """The limit of open connections: *chosen*, or what RLIMIT_NOFILE allows if that is less or
    *chosen* is 0. The caller raises RLIMIT_NOFILE before."""
    files = most_files()
    allowed = files - min(OWN_FILES, files // 2)
    return min(chosen, allowed) if chosen else allowed
