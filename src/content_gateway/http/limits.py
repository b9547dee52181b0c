"""The limits of what one client may use of the server, and their defaults.

Values only; protocol.py, lingering_close.py and streams.py enforce them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of one client, in seconds and bytes.

    *idle* is how long a connection may send and read nothing; *linger* how long a client may still
    read after we have closed our side. At a stop, requests that arrive within *drain* are answered,
    and all under way have *stop* to finish. *connections* limits all clients together; with
    *is_local* only requests for hosts of this machine are answered, and for those below *sites*
    (`.example.limo`), where there is nothing but sites. The kernel's send buffer has
    *send_bytes*, or *large_send_bytes* during a large answer. Such an answer may wait for its
    client for *slow_seconds*, and a second more for each *slow_rate* bytes that are read."""

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
    sites: tuple[str, ...] = ()
    send_bytes: int = 16 * 1024
    large_send_bytes: int = 256 * 1024
    slow_seconds: float = 10.0
    slow_rate: int = 16 * 1024
