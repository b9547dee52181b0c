"""The bounds of what one client may take of the server, and their defaults.

Values only: what is bounded where is left to protocol.py, lingering_close.py and streams.py."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may take: *idle* is how long it may neither ask nor read, *linger* how long
    it may still read when we hang up, *drain* how long what it sent as we stop may take to arrive,
    *stop* how long we then wait for what is under way. *connections* is how many there may be in
    all; with *is_local* only hosts of this machine are answered to. The kernel keeps *send_bytes*
    for a client to read, *large_send_bytes* for one that reads a large answer; it may keep that
    waiting for *slow_seconds*, and has a second more for each *slow_rate* bytes that it takes."""

    head_seconds: float = 10.0
    head_bytes: int = 16 * 1024
    fields: int = 64
    path_bytes: int = 2048
    per_address: int = 2_000
    idle: int = 30
    linger: float = 1.0
    drain: float = 0.25
    stop: int = 15
    connections: int = 1_000_000
    is_local: bool = False
    send_bytes: int = 16 * 1024
    large_send_bytes: int = 256 * 1024
    slow_seconds: float = 10.0
    slow_rate: int = 16 * 1024
