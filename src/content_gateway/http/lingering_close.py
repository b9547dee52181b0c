"""The transport below the protocol: writes to a client, and the lingering close.

Knows sockets and the kernel's send buffer (tcp(7)). HTTP is left to protocol.py."""

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
from content_gateway.http.outbox import Outbox

# What socket calls raise after the socket was closed, or on systems other than Linux.
_GONE: Final = (AttributeError, OSError, ValueError)

log = structlog.get_logger(__name__)


class LingeringTransport:
    """A transport that lets clients read the answer before it closes, and joins head and body.

    Closing a socket that has received unread bytes sends a TCP reset, which can destroy the answer
    before the client has read it (RFC 9112 section 9.6). So our side is closed first (FIN), and the
    socket `ClientLimits.linger` seconds later. A client that acknowledges nothing is closed by the
    kernel (TCP_USER_TIMEOUT). uvicorn writes head and body apart: two packets."""

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: FlowControl,
        bounds: ClientLimits,
        outbox: Outbox,
    ) -> None:
        self.abort = transport.abort
        self.bounds = bounds
        self.is_closed = False
        self._head = b""
        self._unsent = b""
        self._outbox = outbox
        self._socket = transport.get_extra_info("socket")
        self._transport, self._flow, self._seconds = transport, flow, bounds.linger
        with suppress(*_GONE):
            timeout = socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, bounds.idle * 1000
            self._socket.setsockopt(*timeout)
        # The default send buffer grows to 4 MiB for a client that does not read (tcp_wmem).
        self.use_large_buffer(False)

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor, -1 if it is closed."""
        descriptor: int = self._socket.fileno()
        return descriptor

    def write(self, data: bytes) -> None:
        """Send *data*; a head is kept until the next call, or `flush`."""
        if self._head:
            data, self._head = self._head + data, b""
        # "100 Continue" has no body behind it, and the client waits for it.
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._head = data
            return
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send *data* now, behind what `send_soon` was given."""
        if self._unsent:
            data, self._unsent = self._unsent + data, b""
        if len(data) > self._buffer_bytes:
            # With less than a whole answer in flight the client's kernel delays its
            # acknowledgement, and the rest waits for that.
            self.use_large_buffer(True)
        self._transport.write(data)

    def send_soon(self, data: bytes) -> None:
        """Send *data* at the end of this turn of the loop."""
        if not self._unsent:
            self._outbox.put(self.send_rest)
        self._unsent += data

    def send_rest(self) -> None:
        """Send now what `send_soon` was given."""
        data, self._unsent = self._unsent, b""
        if data and not self._transport.is_closing():
            self.send(data)

    def flush(self) -> None:
        """Send a kept head that no body follows."""
        if self._head:
            self.write(b"")

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self.is_closed or self._transport.is_closing()

    def reset(self) -> None:
        """Close by a TCP reset, so that no client takes half an answer for a whole one."""
        # Linger on with 0 seconds: close sends a reset and drops the send buffer (socket(7)).
        with suppress(*_GONE):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def unread(self) -> int:
        """How many bytes the client has not acknowledged: asyncio's, and on Linux the kernel's
        too."""
        queued = b"\0\0\0\0"
        with suppress(*_GONE):
            # tcp(7) calls it SIOCOUTQ; the number is the same.
            queued = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, queued)
        return self._transport.get_write_buffer_size() + int.from_bytes(queued, sys.byteorder)

    def use_large_buffer(self, is_large: bool, /) -> None:
        """Set the size of the kernel's send buffer: for a large answer, or the usual one."""
        # Infinite when large, so that `send` does not set it again.
        self._buffer_bytes = sys.maxsize if is_large else self.bounds.send_bytes
        size = self.bounds.large_send_bytes if is_large else self.bounds.send_bytes
        with suppress(*_GONE):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _await_reading(self, unread: int, waited: float) -> None:
        """Close in `linger` seconds, or once the client, reading fast enough, has read all.

        *unread* is how much it had not read when last checked, *waited* the seconds for which it
        has been too slow. Closed at once, the kernel would keep the unread bytes, uncounted by our
        limits."""

        def check() -> None:
            left, seconds = self.unread(), waited + self._seconds
            # The FIN counts as one byte.
            if left <= 1 or self._transport.is_closing():
                self._transport.close()
            elif unread - left >= self.bounds.slow_rate * self._seconds:
                self._await_reading(left, 0.0)
            elif waited < self.bounds.slow_seconds:
                self._await_reading(unread, seconds)
            else:
                address = (self._transport.get_extra_info("peername") or ("",))[0]
                log.info("a slow reader was cut off", address=address)
                self.reset()

        asyncio.get_running_loop().call_later(self._seconds, check)

    def close(self) -> None:
        """Close our side now and the socket later; what is received until then is dropped."""
        if self.is_closing():
            return
        self.flush()
        self.send_rest()
        self.is_closed = True
        self._await_reading(self.unread(), 0.0)
        with suppress(OSError):  # the client may be gone already
            self._transport.write_eof()
        self._flow.resume_reading()  # unread bytes at the close would cause a reset
