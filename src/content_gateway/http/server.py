"""The server: uvicorn with the hardened protocol, listening, and stopping in good order.

Knows how a listener is opened, how what is under way finishes when the process is told to stop,
and which of uvicorn's habits are switched off. What a connection may do is left to
protocol.py."""

import asyncio
import ctypes
import resource
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import uvicorn

from content_gateway.errors import WrongSettings
from content_gateway.http.connections import most_connections
from content_gateway.http.limits import ClientLimits
from content_gateway.http.protocol import HardenedProtocol, Shared


class Server(uvicorn.Server):
    """uvicorn, stopped by SIGTERM or SIGINT without ending the process behind our back."""

    owns_signals = True

    def __init__(self, config: uvicorn.Config, bounds: ClientLimits) -> None:
        super().__init__(config)
        self.server_state: Shared = Shared(bounds)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Turn the signals into a graceful stop; the caller closes everything else afterwards."""
        with super().capture_signals() if self.owns_signals else nullcontext():
            yield
            self._captured_signals.clear()  # else uvicorn raises them again

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, let what is under way finish, and cut off what takes too long."""
        for connection in self.server_state.connections:
            connection.shutdown()
        self.server_state.is_stopping = True
        for listener in sockets or ():
            _take_no_more(listener)
        await asyncio.sleep(self.server_state.bounds.drain)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises WrongSettings when the address cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as wrong:
        raise WrongSettings(f"host, port: cannot listen on {host}:{port}: {wrong}") from wrong
    # What is accepted inherits it; asyncio sets it only where the protocol was named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _take_no_more(listener: socket.socket) -> None:
    """Let *listener* finish what it has; closed at once, it would reset connections it took."""
    # A BPF program that drops each TCP segment with the SYN flag; 26 is SO_ATTACH_FILTER.
    code = struct.pack("HBBI" * 4, 0x30, 0, 0, 13, 0x45, 0, 1, 2, 6, 0, 0, 0, 6, 0, 0, 2**32 - 1)
    program = ctypes.create_string_buffer(code)
    with suppress(OSError):  # Linux only
        listener.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 4, ctypes.addressof(program)))


def make_server(
    app: Any,
    bounds: ClientLimits | None = None,
    *,
    connections: int = 0,
    is_local: bool = False,
    slow_rate: int = ClientLimits().slow_rate,
) -> Server:
    """A server for the ASGI application *app*; run it with `serve(sockets=[listen(...)])`.

    It takes *connections* at a time (0: as many as the open files of the process allow), and with
    *is_local* it answers to hosts of this machine only. *slow_rate* is that of ClientLimits."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    if bounds is None:
        bounds = ClientLimits(
            connections=most_connections(connections), is_local=is_local, slow_rate=slow_rate
        )
    config = uvicorn.Config(
        app,
        http=HardenedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=bounds.stop,
    )
    return Server(config, bounds)
