"""Requestors in PostgreSQL: their numbers, their locks, and for whom a content with several waits.

Whoever changes the pins of a requestor has its row locked: so processes give each pin a moment of
its own, no page misses a pin that was committed later than a younger one, and limits hold. Knows
the table `requestors`, and the queues of `work`."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from content_gateway.errors import StorageUnavailable
from content_gateway.postgres.transactions import Database, Row, Transaction

T = TypeVar("T")

_MOST_KNOWN: Final = 200_000
_MAX_HOLDERS: Final = 4  # compared at most, to bound the cost of a content that many hold
_MAX_COUNTED: Final = 500
_CREATE: Final = (
    "INSERT INTO requestors (requestor) SELECT name FROM unnest(%s::text[]) AS given(name)"
    ' WHERE NOT EXISTS (SELECT 1 FROM requestors WHERE requestor = name) ORDER BY name COLLATE "C"'
    " ON CONFLICT (requestor) DO NOTHING"
)
PINS_OF_REQUESTOR: Final = "SELECT count(*) FROM pins WHERE pins.requestor = number"
LOCK: Final = (
    "SELECT number, pins, last_at, requestor FROM requestors WHERE number = ANY(%s::bigint[])"
    " ORDER BY number FOR NO KEY UPDATE"
)
_STORE: Final = (
    "UPDATE requestors SET pins = pins + more, last_at = coalesce(newest, last_at)"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS new(one, more, newest)"
    " WHERE number = one AND number = ANY(%s::bigint[])"
)
_ASSIGN: Final = (
    "UPDATE work SET turn_of = shortest.number FROM"  # noqa: S608 - constants
    " (SELECT DISTINCT ON (w.content) w.content, r.number FROM work w CROSS JOIN LATERAL"
    " (SELECT requestor AS number FROM pins WHERE pins.content = w.content"
    f" LIMIT {_MAX_HOLDERS}) r"
    " CROSS JOIN LATERAL (SELECT count(*) AS length FROM (SELECT 1 FROM work o WHERE"
    " o.queue = w.queue AND o.turn_of = r.number AND o.lease_owner IS NULL"
    f" AND o.due_at <= w.due_at AND o.content <> w.content LIMIT {_MAX_COUNTED}) before) line"
    " WHERE w.content = ANY(%s::bigint[])"
    " ORDER BY w.content, line.length, r.number <> w.turn_of) shortest"
    " WHERE work.content = shortest.content AND work.turn_of <> shortest.number"
)

log = structlog.get_logger(__name__)

# Before anything is changed in them, so that all rows are locked in the one order.
LOCK_WORK: Final = (
    "SELECT content FROM work WHERE content = ANY(%s::bigint[]) ORDER BY content FOR UPDATE"
)


@dataclass(slots=True)
class LockedRequestor:
    """A requestor whose row is locked: its *pins*, and when the newest was made (microseconds)."""

    pins: int
    last_at: int | None


class WrongNumber(Exception):
    """What a job raises where a requestor is not in the ledger under its number."""


class Requestors:
    """The numbers of requestors, remembered: they never change in one ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, int] = {}

    async def numbers(self, names: Collection[str]) -> Mapping[str, int]:
        """The number of each of *names*, a new one for who has none.

        In a transaction of its own: one that holds locks must not wait for new requestors, or two
        might wait for each other."""
        missing = [name for name in names if name not in self._known]
        if missing:

            async def job(transaction: Transaction) -> Sequence[tuple[str, int]]:
                await transaction.send(_CREATE, (missing,))
                return [
                    (name, number)
                    for name, number in await transaction.ask(
                        "SELECT requestor, number FROM requestors"
                        " WHERE requestor = ANY(%s::text[])",
                        (missing,),
                    )
                ]

            if len(self._known) + len(missing) > _MOST_KNOWN:
                self._known.clear()
                return await self.numbers(names)
            self._known.update(await self._database.transact(job))
        return {name: self._known[name] for name in names}

    async def transact(self, job: Callable[[Transaction], Awaitable[T]]) -> T:
        """As `Database.transact`, for a *job* that locks requestors whose numbers are from here.

        Where one is not there under its number the tables are not those that we read it in. Nothing
        is written then: the pins might be another requestor's. The numbers are forgotten, so that
        the next transaction goes by what is there now. Raises StorageUnavailable."""
        try:
            return await self._database.transact(job)
        except WrongNumber as wrong:
            self._known.clear()
            log.error(
                "the ledger's tables were emptied or replaced, and nothing was written",
                reason=str(wrong),
            )
            raise StorageUnavailable("The ledger is not what it was.") from wrong


async def lock_requestors(
    transaction: Transaction, numbers: Mapping[str, int]
) -> Mapping[int, LockedRequestor]:
    """Lock these requestors, in the one order, until the transaction ends; raises WrongNumber."""
    return counted_of(await transaction.ask(LOCK, (sorted(numbers.values()),)), numbers)


def counted_of(rows: Iterable[Row], numbers: Mapping[str, int]) -> Mapping[int, LockedRequestor]:
    """The requestors that the rows of LOCK are about, by number.

    Raises WrongNumber unless all *numbers* are there, each of the requestor that it is of."""
    found, names = dict[int, LockedRequestor](), set()
    for number, pins, last_at, name in rows:
        if numbers.get(name) == number:
            found[number] = LockedRequestor(pins, last_at)
            names.add(name)
    if gone := numbers.keys() - names:
        raise WrongNumber(f"{len(gone)} of {len(numbers)} requestors have not the number they had")
    return found


async def store_counts(
    transaction: Transaction, changes: Mapping[int, tuple[int, int | None]]
) -> None:
    """Count so many more pins of each number, and when its newest was made, if any was."""
    numbers = sorted(changes)
    more, newest = zip(*(changes[number] for number in numbers), strict=True)
    values = (numbers, list(more), list(newest), numbers)
    await transaction.send(_STORE, values, is_hot=True)


async def assign_to_shortest_queue(transaction: Transaction, contents: Iterable[int]) -> None:
    """Let each of *contents* that waits wait in the line of the holder who has the fewest before
    it, so that it is served as early as any of its holders allows. Their rows are locked."""
    if wanted := sorted(set(contents)):
        await transaction.send(_ASSIGN, (wanted,))
