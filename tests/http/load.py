"""Clients that ask all the time, on kept connections and on fresh ones, and count exactly."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.http.raw import PATIENCE, Wire, get


@dataclass
class Load:
    """What the clients met: *answered* requests, *repeated* ones and *failures*.

    Repeated is a request on a kept connection that the server had closed without a word: a client
    asks again then (RFC 9112 section 9.3.1). Whatever else is no answer is a failure."""

    port: int
    answered: int = 0
    repeated: int = 0
    failures: list[str] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, clients: int) -> None:
        """Start as many clients of each kind."""
        for ask in (self.fresh, self.kept):
            self._threads += [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """No more requests; returns when those that were sent have their answers."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def fresh(self) -> None:
        """A new connection for each request."""
        while not self._is_over.is_set():
            try:
                with Wire(self.port) as wire:
                    self._count(wire.ask(get("/version")).status)
            except (OSError, EOFError, AssertionError) as error:
                self._fail("fresh", error)

    def kept(self) -> None:
        """One connection, until an answer says that it ends."""
        while not self._is_over.is_set():
            try:
                with Wire(self.port) as wire:
                    self._ask_often(wire)
            except (OSError, EOFError, AssertionError) as error:
                self._fail("kept", error)

    def _ask_often(self, wire: Wire) -> None:
        is_used = False
        while not self._is_over.is_set():
            try:
                answer = wire.ask(get("/version"))
            except EOFError as end:
                if not is_used or end.args[0]:
                    raise
                with self._lock:
                    self.repeated += 1
                return
            self._count(answer.status)
            is_used = True
            if answer.closes:
                return

    def _count(self, status: int) -> None:
        with self._lock:
            self.answered += 1
            if status != 200:
                self.failures.append(f"status {status}")

    def _fail(self, how: str, error: Exception) -> None:
        with self._lock:
            self.failures.append(f"{how}: {error!r}")
        self._is_over.wait(0.01)


@contextmanager
def load_on(port: int, *, clients: int = 4) -> Iterator[Load]:
    """As many clients of each kind; at the end all of them have their last answers."""
    load = Load(port)
    load.begin(clients)
    try:
        yield load
    finally:
        load.end()
