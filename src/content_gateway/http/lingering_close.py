"""The transport below the protocol: what is sent to a client, and how it ends.

Knows sockets and what the kernel keeps for a client to read (tcp(7)). HTTP is left to
protocol.py, what is sent to whoever answers."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import Final

import structlog
from uvicorn.protocols.http.flow_control import FlowControl

from content_gateway.http.limits import ClientLimits

# What asking a socket raises where it is gone, and where this is not Linux.
_GONE: Final = (AttributeError, OSError, ValueError)

log = structlog.get_logger(__name__)


class LingeringTransport:
    """A transport whose close lets the client read the answer first, and that sends a head
    together with what follows it.

    Closing a socket with unread bytes resets it, and the reset can overtake the answer (RFC
    9112 section 9.6): so our side ends first, and the rest when the client's has ended too, or
    a moment later. A client that does not read is the kernel's to cut off. uvicorn writes head
    and body by themselves, which is two packets where one will do."""

    def __init__(
        self, transport: asyncio.Transport, flow: FlowControl, bounds: ClientLimits
    ) -> None:
        self.abort = transport.abort
        self.bounds = bounds
        self.is_closed = False
        self._head = b""
        self._socket = transport.get_extra_info("socket")
        self._transport, self._flow, self._seconds = transport, flow, bounds.linger
        with suppress(*_GONE):
            timeout = socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, bounds.idle * 1000
            self._socket.setsockopt(*timeout)
        # Else the kernel keeps up to 4 MiB for a client that does not read (tcp(7), tcp_wmem).
        self.widen(False)

    @property
    def descriptor(self) -> int:
        """The socket's number; -1 where it is closed already."""
        descriptor: int = self._socket.fileno()
        return descriptor

    def write(self, data: bytes) -> None:
        """Send *data*; a head not before the next call, or `flush`."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._head = data
            return
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send *data* now, a head too."""
        if len(data) > self._most:
            self.widen(True)  # or the client's kernel waits for more before it acknowledges
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head behind which nothing has come."""
        if self._head:
            self.write(b"")

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self.is_closed or self._transport.is_closing()

    def break_off(self) -> None:
        """End it by a reset, which no client takes for the end of an answer."""
        with suppress(*_GONE):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def unread(self) -> int:
        """How many bytes were sent that the client has not taken, as far as we can tell."""
        kept = b"\0\0\0\0"
        with suppress(*_GONE):
            kept = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, kept)  # tcp(7): SIOCOUTQ
        return self._transport.get_write_buffer_size() + int.from_bytes(kept, sys.byteorder)

    def widen(self, is_wide: bool, /) -> None:
        """Let the kernel keep more for the client to read, or no longer."""
        self._most = sys.maxsize if is_wide else self.bounds.send_bytes
        size = self.bounds.large_send_bytes if is_wide else self.bounds.send_bytes
        with suppress(*_GONE):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _await_reading(self, unread: int, waited: float) -> None:
        """Close in a moment; not while the client still reads what it was sent, at a fair pace.

        Closed at once, the kernel would go on holding that for it, and nobody would count it. (Of
        what was sent, the end of our side is a byte.)"""

        def look() -> None:
            left, seconds = self.unread(), waited + self._seconds
            if left <= 1 or self._transport.is_closing():
                self._transport.close()
            elif unread - left >= self.bounds.slow_rate * self._seconds:
                self._await_reading(left, 0.0)
            elif waited < self.bounds.slow_seconds:  # and whoever sends may be first to notice
                self._await_reading(unread, seconds)
            else:
                address = (self._transport.get_extra_info("peername") or ("",))[0]
                log.info("a slow reader was cut off", address=address)
                self.break_off()

        asyncio.get_running_loop().call_later(self._seconds, look)

    def close(self) -> None:
        """End our side now, all of it soon; what arrives until then is read and dropped."""
        if self.is_closing():
            return
        self.flush()
        self.is_closed = True
        self._await_reading(self.unread(), 0.0)
        with suppress(OSError):  # the client may be gone already
            self._transport.write_eof()
        self._flow.resume_reading()
