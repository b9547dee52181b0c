"""The real ledger in SQLite, its threads on the simulation's loop, with faults of a database.

The writer commits when its time has come, in the real code's groups; faults are put between it and
SQLite: a locked database, a full disk, a commit whose answer is lost. What the tables hold is read
as a `Snapshot`, which is all that the checks know; another adapter of the ledger's ports needs an
`open_ledger` and a `Snapshot` of its own, and nothing else here changes."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from content_gateway.concurrency.write_queue import Write
from content_gateway.errors import StorageUnavailable
from content_gateway.ledger.sqlite.audit import AuditLog
from content_gateway.ledger.sqlite.backend_health import SqliteBackendHealth
from content_gateway.ledger.sqlite.contents import SqliteWorkQueue
from content_gateway.ledger.sqlite.database import LEDGER, LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.ledger.sqlite.resyncs import SqliteResyncs
from content_gateway.sqlite.database import Job, T
from content_gateway.sqlite.database_files import DatabaseFiles
from content_gateway.sqlite.group_commit import GroupWriter
from tests.simulation.loop import SimulatedLoop

MAX_GROUP: Final = 6
_OPTIONS: Final = replace(
    LEDGER,
    file=replace(LEDGER.file, has_checkpointer=False, wal_bytes=4 * 1024 * 1024),
    max_group=MAX_GROUP,
    gather_seconds=0.0,
    busy_ms=1,  # one transaction after the other runs on the loop: to wait for a lock is in vain
    cache_kib=500,
)
_SNAPSHOT: Final = (
    "SELECT id, cid, state, generation, next_at, lease_owner, last_request, requested_at,"
    " attempts, (SELECT count(*) FROM pins WHERE content = id) FROM contents"
)
_PINS: Final = "SELECT requestor, content, created_at FROM pins"


class Trouble(Enum):
    """What can be wrong with the way from one process to the database."""

    NONE = auto()
    SLOW = auto()  # a commit, or its answer, takes seconds
    HANGING = auto()  # a commit takes longer than a lease
    LOCKED = auto()  # another connection holds the lock
    FULL = auto()  # nothing can be committed
    UNANSWERED = auto()  # commits are durable, and the answers are lost
    FLAKY = auto()  # any of these, commit by commit
    UNREADABLE = auto()  # reads fail


class Content(NamedTuple):
    """A row of the table of contents; times are milliseconds since 1970."""

    id: int
    cid: str
    state: str
    generation: int
    next_at: int | None
    lease_owner: str | None
    last_request: str | None
    requested_at: int | None
    attempts: int
    holders: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is committed: contents by number, and the time of creation of each pin."""

    contents: Mapping[int, Content]
    pins: Mapping[tuple[str, int], int]


class Rows:
    """Reads the file at *path* for the checks, and is never in trouble."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)

    def read(self) -> Snapshot:
        """What is committed now."""
        contents = map(Content._make, self._connection.execute(_SNAPSHOT))
        pins = self._connection.execute(_PINS)
        return Snapshot(
            {content.id: content for content in contents},
            {(requestor, content): at for requestor, content, at in pins},
        )

    def counts(self) -> dict[str, int]:
        """How many pins each requestor has by the ledger's own count."""
        return dict(self._connection.execute("SELECT requestor, pins FROM requestors"))

    def text(self) -> str:
        """All contents, for people."""
        return "\n".join(map(str, self._connection.execute(_SNAPSHOT)))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Link:
    """The way from one process to the database: its *trouble*, and what that does."""

    def __init__(self, chance: random.Random, committed: Callable[[], None]) -> None:
        """*committed* is called after each commit, before anybody has the answer."""
        self.trouble = Trouble.NONE
        self.chance = chance
        self.committed = committed

    def seconds(self) -> float:
        """How long a commit takes to begin, or its answer to arrive."""
        chance = self.chance
        if self.trouble is Trouble.HANGING:
            return chance.choice((chance.uniform(0, 2), chance.uniform(5, 45)))
        if self.trouble in (Trouble.SLOW, Trouble.FLAKY):
            return chance.choice((chance.uniform(0, 0.1), chance.uniform(0, 6), 4.85))
        return chance.uniform(0, 5) if chance.random() < 0.03 else chance.uniform(0, 0.01)

    def strikes(self, *troubles: Trouble) -> bool:
        """Whether one of *troubles* strikes now."""
        if self.trouble is Trouble.FLAKY:
            return self.chance.random() < 0.15
        return self.trouble in troubles


class _TroubledConnection:
    """A writer's connection on which transactions fail to begin, to commit, or to tell of it."""

    def __init__(self, connection: sqlite3.Connection, link: Link) -> None:
        self._connection = connection
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        link = self._link
        if statement == "BEGIN IMMEDIATE" and link.strikes(Trouble.LOCKED):
            raise sqlite3.OperationalError("database is locked")
        if statement != "COMMIT":
            return self._connection.execute(statement, *values)
        if link.strikes(Trouble.FULL):
            raise sqlite3.OperationalError("database or disk is full")
        answer = self._connection.execute(statement)
        link.committed()
        if link.strikes(Trouble.UNANSWERED):
            raise sqlite3.OperationalError("disk I/O error")
        return answer


class SimulatedWriter(GroupWriter):
    """The group writer without its thread: a group is served after the time that commits take."""

    link: Link

    def start(self) -> None:
        loop = _Slow(self.link)
        self._loop = loop  # type: ignore[assignment]
        self._is_serving = False
        self._serve_later = loop.later

    async def close(self) -> None:
        await self._writes.close()

    def _hand_over(self, write: Write) -> None:
        super()._hand_over(write)
        self._came()

    def _came(self) -> None:
        if not self._is_serving:
            self._is_serving = True
            self._serve_later(self.link.seconds(), self._serve_one)

    def _serve_one(self) -> None:
        self._serve(self._queue.get_nowait())
        self._is_serving = False
        if not self._queue.empty():
            self._came()


class _Slow:
    """The running loop, to which answers come late over *link*."""

    def __init__(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.later = loop.call_later
        self.create_future = loop.create_future
        self._link = link

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> None:
        self.later(self._link.seconds(), callback, *args)


class _SoundFiles(DatabaseFiles):
    """Nobody takes the files away here, and to look after them would cost a fifth of the time."""

    def check(self) -> None: ...

    def check_path(self) -> None: ...

    def check_turn(self) -> None: ...


class SimulatedDatabase(LedgerDatabase):
    """The ledger's file at *path*, over *link*."""

    def __init__(self, path: Path, link: Link) -> None:
        super().__init__(path, _OPTIONS, SimulatedWriter)
        self._files = self._searches._files = _SoundFiles(path, _OPTIONS.name)
        assert isinstance(self.writes, SimulatedWriter)
        self.writes.link = self._link = link

    def _open(self) -> None:
        super()._open()
        self._writer = _TroubledConnection(self._writer, self._link)  # type: ignore[assignment]

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._watch.cancel()
        return self

    def read(self, job: Job[T]) -> T:
        if self._link.strikes(Trouble.UNREADABLE):
            raise StorageUnavailable("The ledger cannot be read now.")
        return super().read(job)

    def cut(self) -> None:
        """What the kernel does for a process that was killed: close its files."""
        for name in ("_writer", "_reader"):
            if (connection := getattr(self, name, None)) is not None:
                connection.close()
        for connection in self._searches._idle:
            connection.close()
        self._files.close()


class Ports:
    """The ports of the ledger that a process works with."""

    def __init__(
        self, database: LedgerDatabase, *, grace: float, clock: Callable[[], float]
    ) -> None:
        self.pins = SqlitePins(database, grace=grace, audit=AuditLog(0), clock=clock)
        self.queue = SqliteWorkQueue(database, grace=grace, clock=clock)
        self.resyncs = SqliteResyncs(database, clock=clock)
        self.health = SqliteBackendHealth(database)
