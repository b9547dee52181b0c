"""Transactions on one PostgreSQL database: what is asked, what is only sent, and what is retried.

Statements whose answers nobody needs yet wait to be sent with the next that somebody does (libpq's
pipeline), so that a transaction costs as many round trips as it has questions. All run under READ
COMMITTED: each statement sees what was committed before it began. Which rows are locked in which
order is left to the stores."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, LiteralString, Self, TypeVar

import psycopg

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import StorageUnavailable
from content_gateway.postgres.connections import BY_INDEX, Connection, ConnectionPool, PoolOptions
from content_gateway.postgres.errors import may_succeed_again, refusal

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Sequence[Any] | dict[str, Any]

SEARCH_SECONDS: Final = 10.0
_SEARCHERS: Final = 4
_WAITING_SEARCHES: Final = 64
_TRIES: Final = 5
# Behind a pooler each transaction says what the session says elsewhere.
_SETTINGS: Final[LiteralString] = (
    "SELECT set_config('statement_timeout', %s, true), set_config('synchronous_commit',"
    " replace(current_setting('synchronous_commit'), 'off', 'on'), true), "
    + ", ".join(f"set_config('{way}', 'off', true)" for way in BY_INDEX)
)


class LostRace(Exception):
    """What a job raises whose reads are out of date: it is rolled back, and runs again."""


class Transaction:
    """An open transaction; it is committed at the end of the job that it was given to.

    A statement that *is_hot* is planned once for each connection, whatever its values are: it must
    find its rows by the same indexes whatever is in the tables. Others are planned each time. Lists
    of texts are given as `%b`: as text each of them is searched for what has to be escaped."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(
        self, statement: LiteralString, values: Values = (), *, is_hot: bool = False
    ) -> list[Row]:
        """The rows that *statement* returns."""
        cursor = self._connection.cursor(binary=True)
        await cursor.execute(statement, values, prepare=None if is_hot else False)
        return await cursor.fetchall()

    async def ask_all(self, *questions: tuple[LiteralString, Values]) -> list[list[Row]]:
        """The rows of several statements that are hot, one after the other in one round trip."""
        cursors = []
        for statement, values in questions:
            cursor = self._connection.cursor(binary=True)
            await cursor.execute(statement, values)
            cursors.append(cursor)
        return [await cursor.fetchall() for cursor in cursors]

    async def send(
        self, statement: LiteralString, values: Values = (), *, is_hot: bool = False
    ) -> None:
        """Have *statement* run, whose rows nobody wants, behind all before it."""
        await self._connection.execute(statement, values, prepare=None if is_hot else False)


Job = Callable[[Transaction], Awaitable[T]]


class Database:
    """One database, open between its entrance and its exit.

    Work that has begun goes on where its caller is cancelled."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.connections = ConnectionPool(options)
        self._searches = ConnectionPool(
            PoolOptions(options.url, options.name, _SEARCHERS, options.seconds, reads_much=True)
        )
        self._turns = FairSemaphore(
            _SEARCHERS,
            waiting=_WAITING_SEARCHES,
            patience=SEARCH_SECONDS,
            detail="Too many searches are waiting.",
            crowd=1,
        )
        self._running: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Raises WrongSettings where the database cannot be used."""
        await self.connections.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._searches.close()
        await self.connections.close()

    async def ask(
        self, statement: LiteralString, values: Values = (), *, is_hot: bool = False
    ) -> list[Row]:
        """The rows of one *statement* that reads; raises StorageUnavailable."""
        return await self.read(
            lambda transaction: transaction.ask(statement, values, is_hot=is_hot)
        )

    async def read(self, job: Job[T]) -> T:
        """What *job* reads, each statement what was committed before it; StorageUnavailable."""
        return await self._shielded(self._read(job))

    async def transact(self, job: Job[T]) -> T:
        """What *job* returns, once its changes are committed.

        *job* runs again where its transaction has lost against another one. Raises what *job*
        raises, and then nothing is changed, and StorageUnavailable; where the connection broke
        while it was committed, nobody knows whether it was."""
        return await self._shielded(self._transact(job))

    async def search(
        self,
        job: Job[T],
        *,
        seconds: float = SEARCH_SECONDS,
        is_ours: bool = False,
        requestor: str = "",
    ) -> T:
        """What *job* returns, which reads one snapshot and may take *seconds*.

        Raises StorageUnavailable, and Overloaded when too many of that requestor's wait."""
        permit = self._turns.request(requestor, is_ours=is_ours)
        await permit.granted()
        task = asyncio.create_task(self._search(job, seconds), name="search")
        self._keep(task)
        task.add_done_callback(lambda _: permit.release())
        return await asyncio.shield(task)

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work, name=self.options.name)
        self._keep(task)
        return await asyncio.shield(task)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it if nobody waits

    async def _read(self, job: Job[T]) -> T:
        try:
            async with self.connections.one("read") as connection, connection.pipeline():
                if not self.connections.is_pooled:
                    return await job(Transaction(connection))
                await self._begin(connection)
                result = await job(Transaction(connection))
                await connection.execute("COMMIT")
                return result
        except psycopg.Error as wrong:
            raise refusal(wrong, self.options.name, "read") from wrong

    async def _transact(self, job: Job[T]) -> T:
        for number in range(_TRIES):
            try:
                async with AsyncExitStack() as stack:
                    connection = await stack.enter_async_context(self.connections.one("written"))
                    return await self._committed(connection, job)
            except LostRace as lost:
                if number == _TRIES - 1:
                    raise StorageUnavailable(f"The {self.options.name} is too busy.") from lost
            except psycopg.Error as wrong:
                if not may_succeed_again(wrong) or number == _TRIES - 1:
                    raise refusal(wrong, self.options.name, "written") from wrong
            await asyncio.sleep(0.01 * number)
        raise AssertionError

    async def _committed(self, connection: Connection, job: Job[T]) -> T:
        try:
            async with connection.pipeline():
                await self._begin(connection)
                result = await job(Transaction(connection))
                await connection.execute("COMMIT")
        except BaseException:
            if not connection.closed and _is_open(connection):
                await connection.execute("ROLLBACK")
            raise
        return result

    async def _begin(self, connection: Connection) -> None:
        await connection.execute("BEGIN")
        if self.connections.is_pooled:
            await connection.execute(_SETTINGS, (f"{round(self.options.seconds * 1000)}",))

    async def _search(self, job: Job[T], seconds: float) -> T:
        try:
            async with self._searches.one("read", seconds) as connection:
                try:
                    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    await connection.execute(
                        "SELECT set_config('statement_timeout', %s, true)",
                        (f"{round(seconds * 1000)}",),
                    )
                    return await job(Transaction(connection))
                finally:
                    if not connection.closed and _is_open(connection):
                        await connection.execute("ROLLBACK")
        except psycopg.errors.QueryCanceled as late:
            raise StorageUnavailable("The search takes too long.") from late
        except psycopg.Error as wrong:
            raise refusal(wrong, self.options.name, "read") from wrong


def _is_open(connection: Connection) -> bool:
    idle = psycopg.pq.TransactionStatus.IDLE
    return connection.info.transaction_status is not idle
