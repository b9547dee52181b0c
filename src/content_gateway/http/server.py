"""The server: uvicorn with the hardened protocol, and a graceful stop.

Knows how a listener is opened, how a load balancer gets time to look elsewhere and requests under
way finish after SIGTERM, and which features of uvicorn are switched off. What one connection may do
is left to protocol.py."""

import asyncio
import ctypes
import errno
import os
import resource
import socket
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from types import FrameType
from typing import Any, Final

import uvicorn

from content_gateway.errors import OwnFault, WrongSettings
from content_gateway.http.connections import most_connections
from content_gateway.http.limits import ClientLimits
from content_gateway.http.protocol import HardenedProtocol
from content_gateway.http.server_state import SharedState

_TICK: Final = 0.1  # as uvicorn's main loop has it
# Where an address cannot be bound now, and may be in a moment.
_MAY_PASS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE)


class Server(uvicorn.Server):
    """uvicorn, whose `serve` returns after SIGTERM or SIGINT instead of ending the process.

    For *drain* seconds before it stops it goes on as before, and only *on_drain*, and
    `server_state.is_draining`, tell that the end is near. A second signal ends that time. Listeners
    that are *inherited* stay open in the process that they came from. Without *owns_signals* it is
    stopped by `should_exit` alone."""

    owns_signals = True

    def __init__(
        self,
        config: uvicorn.Config,
        bounds: ClientLimits,
        *,
        announce: Callable[[], None],
        drain: float,
        on_drain: Callable[[], None],
        inherited: bool,
    ) -> None:
        super().__init__(config)
        self.server_state: SharedState = SharedState(bounds)
        self._announce = announce
        self._drain = drain
        self._on_drain = on_drain
        self.inherited = inherited

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then announce it: from now on signals stop the server gracefully."""
        await super().startup(sockets)
        self._announce()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let SIGTERM and SIGINT stop the server; the caller then closes everything else."""
        with super().capture_signals() if self.owns_signals else nullcontext():
            yield
            # uvicorn raises them again at the end, which would end the process before databases
            # are closed.
            self._captured_signals.clear()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop, or to drain before that; a second signal ends the drain."""
        if self.should_exit and self._drain:
            self._drain = 0.0
        else:
            super().handle_exit(sig, frame)

    async def main_loop(self) -> None:
        """Serve until it is time to stop, and then as long as the drain takes."""
        await super().main_loop()
        self.server_state.is_draining = True
        self._on_drain()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for tick in count():
            if loop.time() - began >= self._drain:
                break
            await asyncio.sleep(_TICK)
            await self.on_tick(tick)  # which keeps the Date field right
        self._drain = 0.0  # from now on a second SIGINT does what uvicorn does with it

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, let requests finish, and after `ClientLimits.stop` seconds cut them
        off."""
        for connection in self.server_state.connections:
            connection.shutdown()
        self.server_state.is_draining = self.server_state.is_stopping = True
        if self.inherited:
            # What is in the queue, and whoever connects now, is for the next process.
            for server in self.servers:
                server.close()
        else:
            for listener in sockets or ():
                _refuse_new_connections(listener)
        # What clients sent before they could know is read and answered meanwhile.
        await asyncio.sleep(self.server_state.bounds.drain)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def listen(host: str, port: int, settings: str = "host, port") -> socket.socket:
    """A listening TCP socket; raises WrongSettings where the address cannot be bound, and OwnFault
    where that may pass: somebody else has the port, or the address is not there yet.

    *settings* are those that say where."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as wrong:
        number = wrong.errno or 0
        # Python adds the address to the text; of a name that is not known the number is below 0.
        reason = os.strerror(number) if number > 0 else wrong.strerror
        text = f"{settings}: cannot listen on {host}:{port}: {reason}"
        if number in _MAY_PASS:
            raise OwnFault(text) from wrong
        raise WrongSettings(text) from wrong
    prepare(listener)
    return listener


def prepare(listener: socket.socket) -> None:
    """Give a listening TCP socket the options that the server needs."""
    # Accepted sockets inherit it. asyncio sets it only on sockets made with IPPROTO_TCP, and
    # create_server leaves the protocol at 0.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _refuse_new_connections(listener: socket.socket) -> None:
    """Let *listener* accept what is in its queue, and nothing new.

    This keeps the promise that a connection which was accepted gets its answer: closing a listener
    resets the connections in its queue, whose clients have a connection already and may have sent a
    request. Linux has no other call that only refuses new ones (docs/adr/0013)."""
    # Classic BPF, four instructions (code, jump if true, jump if false, operand): load byte 13 of
    # the TCP header (its flags); if bit 2 (SYN) is set drop, else accept the whole segment.
    # 26 is SO_ATTACH_FILTER, which the socket module does not name.
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
    sites: tuple[str, ...] = (),
    slow_rate: int = ClientLimits().slow_rate,
    announce: Callable[[], None] = lambda: None,
    drain: float = 0.0,
    on_drain: Callable[[], None] = lambda: None,
    inherited: bool = False,
) -> Server:
    """A server for the ASGI application *app*; run it with `serve(sockets=[listen(...)])`.

    *connections* is the limit of open connections; 0 means as many as RLIMIT_NOFILE allows. With
    *is_local* only requests for hosts of this machine are answered, and for those below *sites*.
    *slow_rate* is that of ClientLimits. These four are unused with *bounds*. *announce* is called
    once requests are accepted, and signals heard. *drain*, *on_drain* and *inherited* are those of
    Server."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    if bounds is None:
        bounds = ClientLimits(
            connections=most_connections(connections),
            is_local=is_local,
            sites=sites,
            slow_rate=slow_rate,
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
    return Server(
        config, bounds, announce=announce, drain=drain, on_drain=on_drain, inherited=inherited
    )
