"""A server at full speed, on a thread of its own: what it sends costs the loop no time of ours.

Says one thing, then another again and again until the other side hangs up; reads whatever comes.
Where an event loop must be watched, a server in the same loop would be seen as well."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Flood:
    """What it says *first* to each request, then for *ever*, *pause* seconds apart.

    Counts the bytes of the latter, its connections, and how many of them were left."""

    def __init__(self, first: bytes, ever: bytes = b"", *, pause: float = 0.0) -> None:
        self.first, self.ever, self.pause = first, ever, pause
        self.sent = 0
        self.connections = self.hung_up = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._ended.is_set():
                connection.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(30)
            connection.recv(65_536)
            connection.sendall(self.first)
            while self.ever and not self._ended.wait(self.pause):
                connection.sendall(self.ever)
                self.sent += len(self.ever)
            while not self._ended.is_set() and connection.recv(65_536):
                connection.sendall(self.first)
        self.hung_up += 1

    def close(self) -> None:
        """End every connection and wait for the threads."""
        self._ended.set()
        with contextlib.suppress(OSError):  # wakes whoever accepts
            socket.create_connection(self._listener.getsockname(), timeout=5).close()
        self._listener.close()
        for thread in self._threads[:1]:
            thread.join(timeout=30)


@contextlib.contextmanager
def flooding(first: bytes, ever: bytes = b"", *, pause: float = 0.0) -> Iterator[Flood]:
    """A running flood."""
    flood = Flood(first, ever, pause=pause)
    try:
        yield flood
    finally:
        flood.close()
