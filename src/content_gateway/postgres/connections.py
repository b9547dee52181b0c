"""A bounded number of connections to one PostgreSQL database, opened when they are needed.

Every statement has a deadline on both sides: the server ends it (statement_timeout), and where
nothing is heard the socket is shut here. What is broken is thrown away. While the server cannot be
reached, whoever asks is refused at once, and one connection is tried with backoff. Knows what a
database must be to hold a ledger, and whether a pooler stands before it (PgBouncer in transaction
mode): then there are no session settings, prepared statements or LISTEN."""

import asyncio
import random
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
import structlog

from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.postgres.errors import is_of_no_use, refusal, wrong_settings

Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

OLDEST_VERSION: Final = 150_000
_CONNECT_SECONDS: Final = 5
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 2.0
_GRACE: Final = 1.0  # seconds that the server has to say that it gave up, before we do
_PREPARE_AFTER: Final = 3  # uses of a statement
# libpq's own words: a link that drops packets is noticed by the kernel too. They come first, so
# that what database.url says wins.
_DEFAULTS: Final = {
    "application_name": "content-gateway",
    "connect_timeout": str(_CONNECT_SECONDS),
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
_FACTS: Final = (
    "SELECT pg_backend_pid(), current_setting('server_version_num')::int,"
    " current_setting('server_encoding'), pg_is_in_recovery(),"
    " current_setting('transaction_read_only') = 'on',"
    " current_setting('synchronous_commit'), current_setting('fsync')"
)

log = structlog.get_logger(__name__)


# Every statement of the service finds its rows by an index. A plan that was made while a table was
# small, or never analysed, would read all of it for ever after: 43 pins a second instead of 4,000.
BY_INDEX: Final = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """*name* is what people call the database; at most *size* connections to *url*, on which a
    statement may take *seconds*. Where it *reads_much* the server chooses how, else by an index."""

    url: str
    name: str
    size: int
    seconds: float
    reads_much: bool = False


def conninfo_of(url: str) -> str:
    """*url*, in any of libpq's forms, with our defaults for what it leaves open.

    Raises WrongSettings where libpq cannot read it."""
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
        words: dict[str, Any] = _DEFAULTS | given | {"client_encoding": "UTF8"}
        return psycopg.conninfo.make_conninfo("", **words)
    except psycopg.Error as wrong:
        raise WrongSettings(f"database.url: it cannot be read: {wrong}") from None


class ConnectionPool:
    """The connections of one event loop; `open` before the first is asked for."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._conninfo = conninfo_of(options.url)
        self._idle: list[Connection] = []
        self._number = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._backoff = 0.0
        self._not_before = 0.0
        self._is_over = False
        self._is_warned = False
        self.is_pooled = False

    async def open(self) -> None:
        """Connect, and check what is there; raises WrongSettings."""
        try:
            connection = await self._connect()
        except psycopg.Error as wrong:
            raise wrong_settings(wrong) from wrong
        self._idle.append(connection)
        self._number += 1

    async def close(self) -> None:
        """Close those that are idle, and refuse whoever asks from now on."""
        self._is_over = True
        while self._idle:
            await self._idle.pop().close()
        while self._waiting:
            self._wake()

    @asynccontextmanager
    async def one(self, done: str, seconds: float | None = None) -> AsyncIterator[Connection]:
        """A connection, in autocommit; after *seconds* its socket is shut. *done*: "read" or
        "written", for the reason.

        Raises StorageUnavailable where there is none, and for any error of PostgreSQL inside."""
        limit = self._options.seconds if seconds is None else seconds
        try:
            connection = await self._take(limit)
        except psycopg.Error as wrong:
            raise refusal(wrong, self._options.name, done) from wrong
        except WrongSettings as other:  # another server has taken its place
            log.error("the database is another one by now", reason=other.detail)
            name = self._options.name
            raise StorageUnavailable(f"The {name} cannot be {done} now.") from other
        error: Exception | None = None
        watch = asyncio.get_running_loop().call_later(limit + _GRACE, _shut, connection)
        try:
            yield connection
        except psycopg.Error as wrong:
            error = wrong
            raise
        finally:
            watch.cancel()
            await self._give_back(connection, error)

    async def connect_alone(self) -> Connection:
        """A connection that is not counted, for LISTEN; raises psycopg.Error."""
        return await self._connect()

    async def _take(self, seconds: float) -> Connection:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            if self._is_over:
                raise StorageUnavailable(f"The {self._options.name} is closed.")
            if self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
                self._number -= 1
                continue
            if self._number < self._options.size:
                if loop.time() < self._not_before:
                    raise StorageUnavailable(f"The {self._options.name} cannot be reached now.")
                return await self._begin()
            await self._wait(end)

    async def _wait(self, end: float) -> None:
        """Wait for a connection to be given back; raises StorageUnavailable at *end*."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout_at(end):
                await future
        except BaseException as gone:
            if future.done() and not future.cancelled():
                self._wake()  # it was meant for whoever waits longer
            with suppress(ValueError):
                self._waiting.remove(future)
            if isinstance(gone, TimeoutError):
                raise StorageUnavailable(f"The {self._options.name} is busy.") from gone
            raise

    async def _begin(self) -> Connection:
        """A new connection, counted; a failure lets nobody try again for a while."""
        self._number += 1
        try:
            connection = await self._connect()
        except BaseException as wrong:
            self._number -= 1
            self._wake()
            if isinstance(wrong, psycopg.Error):
                self._postpone()
            raise
        self._backoff = 0.0
        return connection

    def _postpone(self) -> None:
        self._backoff = min(_LONGEST_BACKOFF, max(_FIRST_BACKOFF, 2 * self._backoff))
        wait = self._backoff * random.uniform(0.5, 1.0)  # noqa: S311 - out of step, not secret
        self._not_before = asyncio.get_running_loop().time() + wait

    async def _give_back(self, connection: Connection, error: Exception | None) -> None:
        if not connection.closed and (
            connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE
            or is_of_no_use(connection, error)
            or self._is_over
        ):
            await connection.close()
        if connection.closed:
            self._number -= 1
        else:
            self._idle.append(connection)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    async def _connect(self) -> Connection:
        """A connection to a database that may hold a ledger; raises psycopg.Error, WrongSettings.

        The deadline is ours: libpq's own counts for each host and address by itself."""
        connecting = psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        try:
            async with asyncio.timeout(3 * _CONNECT_SECONDS):
                connection = await connecting
        except TimeoutError as late:
            raise psycopg.OperationalError("the server did not answer in time") from late
        watch = asyncio.get_running_loop().call_later(_CONNECT_SECONDS, _shut, connection)
        try:
            await self._prepare(connection)
        except BaseException:
            await connection.close()
            raise
        finally:
            watch.cancel()
        return connection

    async def _prepare(self, connection: Connection) -> None:
        """Check what *connection* leads to, and set what it needs; raises WrongSettings."""
        row = await (await connection.execute(_FACTS)).fetchone()
        assert row is not None  # noqa: S101 - a SELECT without FROM has one row
        pid, version, encoding, in_recovery, reads_only, commit, fsync = row
        if version < OLDEST_VERSION:
            raise WrongSettings(
                f"database.url: PostgreSQL {version // 10_000} is too old: 15 or later is needed"
            )
        if encoding != "UTF8":
            raise WrongSettings(
                f"database.url: the database is encoded as {encoding}, and must be UTF8"
            )
        if in_recovery or reads_only:
            raise psycopg.errors.ReadOnlySqlTransaction(
                "the server is a read-only standby; name the primary too, and"
                " target_session_attrs=read-write"
            )
        if fsync != "on" and not self._is_warned:
            self._is_warned = True
            log.warning("the server has fsync = off: what is acknowledged may be lost")
        # A pooler makes up the number that it tells its clients (PgBouncer, pooler/objects.c).
        self.is_pooled = pid != connection.pgconn.backend_pid
        connection.prepare_threshold = None if self.is_pooled else _PREPARE_AFTER
        if not self.is_pooled:
            await _set(connection, "statement_timeout", f"{round(self._options.seconds * 1000)}")
            await _set(connection, "jit", "off")  # compiling takes longer than what we ask
            for way in () if self._options.reads_much else BY_INDEX:
                await _set(connection, way, "off")
            # Else locks of a process that hangs would stay.
            await _set(connection, "idle_in_transaction_session_timeout", "30s")
            if commit == "off":
                await _set(connection, "synchronous_commit", "on")


async def _set(connection: Connection, name: LiteralString, value: str) -> None:
    await connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def _shut(connection: Connection) -> None:
    """End whatever *connection* waits for: its socket reads as closed from now on.

    Shut and not closed: the event loop still watches its descriptor."""
    with suppress(OSError, psycopg.Error):
        log.warning("a statement had no answer in time, its connection is shut")
        duplicate = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        finally:
            duplicate.close()
