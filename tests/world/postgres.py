"""A PostgreSQL of its own for a test process, with a fresh database for each test.

Started when the first test wants it, in a temporary folder, on a socket and a loopback port, as an
ordinary user: where the tests run as root, in a user namespace. A database is a copy of one that
has the ledger's schema already. Without a PostgreSQL the tests skip (`make peers`)."""

import asyncio
import atexit
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from tests.world.peers import _die_with_parent, absent, find_peer, free_port

USER: Final = "gateway"
VERSIONS: Final = ("15", "18")
_TEMPLATE: Final = "template_ledger"
_START_SECONDS: Final = 60.0
# As nobody else: PostgreSQL refuses root. Its files stay root's, as the namespace maps one user.
_AS_USER: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_QUICK: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum_naptime": "5s",
}


def as_ordinary_user(command: Sequence[str | Path]) -> list[str]:
    """*command*, as a user that is not root."""
    words = [str(word) for word in command]
    if os.geteuid() != 0:
        return words
    return [*_AS_USER, "setpriv", "--pdeathsig", "KILL", "--", *words]


class Postgres:
    """A server of *version*, whose programs are in *programs*; its data is in *folder*."""

    def __init__(self, programs: Path, folder: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self._programs = programs
        self._settings = settings
        self._server: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()

    @property
    def url(self) -> str:
        """Of the database that each server has."""
        return self.url_of("postgres")

    def url_of(self, database: str, user: str = USER) -> str:
        """Of *database*, by its loopback port."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Make its data folder."""
        command: list[str | Path] = [
            *(self._programs / "initdb", "-D", self.folder / "data", "--no-sync"),
            *("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"),
        ]
        done = subprocess.run(as_ordinary_user(command), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.decode(errors='replace')}")

    def start(self) -> None:
        """Start it, and return once it takes connections."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        command: list[str | Path] = [self._programs / "postgres", "-D", self.folder / "data"]
        words = [f"-c{name}={value}" for name, value in (options | self._settings).items()]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                as_ordinary_user([*command, *words]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call
            )
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as wrong:
                if time.monotonic() > end or self._server.poll() is not None:
                    tail = (self.folder / "log").read_text()[-2000:]
                    raise RuntimeError(f"PostgreSQL did not start: {wrong}\n{tail}") from wrong
                time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, as a power cut would; what is on disk stays."""
        if self._server is not None:
            self._server.kill()
            self._server.wait(10)
            self._server = None

    @property
    def is_running(self) -> bool:
        """Whether its first process is there; a full disk may have ended it."""
        return self._server is not None and self._server.poll() is None

    def shut_down(self) -> None:
        """End it in an orderly way, without waiting for its clients (SIGINT, "fast")."""
        if self._server is not None:
            self._server.send_signal(2)
            self._server.wait(30)
            self._server = None

    def run(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of *statement*, which is the superuser's."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = "template1", options: str = "") -> str:
        """The name of a new database, a copy of *template*."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} {options}")
        return name

    def make_template(self) -> None:
        """A database with the ledger's schema, to be copied."""
        self.run(f"CREATE DATABASE {_TEMPLATE}")

        async def upgrade() -> None:
            async with PostgresLedger(ServerOptions(self.url_of(_TEMPLATE)), LedgerOptions()):
                pass

        with asyncio.Runner() as runner:
            runner.run(upgrade())

    def new_ledger(self) -> str:
        """The URL of a new database with the ledger's schema."""
        return self.url_of(self.new_database(_TEMPLATE))


def programs_of(version: str) -> Path | None:
    """Where the programs of that version are, None if it was not installed."""
    link = find_peer(f"postgresql-{version}")
    return None if link is None else link.resolve()


def require_programs(version: str) -> Path:
    """The programs of that version; without them the test skips."""
    reason = f"PostgreSQL {version} is not installed: run `make peers`"
    return programs_of(version) or absent(reason)


_shared: dict[str, Postgres] = {}


def shared(version: str) -> Postgres:
    """The server of this process, which all of its tests share; it is not safe in a power cut."""
    if version not in _shared:
        programs = require_programs(version)
        folder = Path(tempfile.mkdtemp(prefix="pg"))
        server = Postgres(programs, folder, _QUICK)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        server.create()
        server.start()
        atexit.register(server.stop)
        # In a thread of its own: a test's event loop may be running in this one.
        _in_a_thread(server.make_template)
        _shared[version] = server
    return _shared[version]


def _in_a_thread(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@contextmanager
def durable(version: str, **settings: str) -> Iterator[Postgres]:
    """A server of its own that loses nothing, with these *settings*."""
    with (
        tempfile.TemporaryDirectory(prefix="pg") as name,
        durable_in(Path(name), version, **settings) as server,
    ):
        yield server


@contextmanager
def durable_in(folder: Path, version: str, **settings: str) -> Iterator[Postgres]:
    """The same, with its data in *folder*."""
    programs = require_programs(version)
    server = Postgres(programs, folder, {"shared_buffers": "64MB", **settings})
    server.create()
    server.start()
    try:
        _in_a_thread(server.make_template)
        yield server
    finally:
        server.stop()
