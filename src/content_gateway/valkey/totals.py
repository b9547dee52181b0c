"""All totals at once, as a service writes and reads them when it connects.

In parts, each of which is one question: what others let through in a day is too much for one, and
would hold the event loop up. Knows the parts only; when it is time for them is left to exchange.py,
commands and replies to rows.py."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from content_gateway.valkey.connection import Link, StoreUnreachable
from content_gateway.valkey.rows import Command, Names, Row, counts_in

# Both of these bound how long one turn of the event loop takes.
_MOST_ROWS: Final = 500
_MOST_FIELDS: Final = 250  # of a hash at a time
_HASHES_AT_ONCE: Final = 8
# Of all hashes: a store that goes on for ever is none of ours.
_MOST_SCANS: Final = 20_000

T = TypeVar("T")


async def write(link: Link, names: Names, rows: Iterable[Row]) -> None:
    """Write *rows*, the totals of this service; raises StoreUnreachable."""
    for part in _in_parts(rows, _MOST_ROWS):
        await link.ask([*names.write(part)])


async def read(link: Link, names: Names, steps: Iterable[tuple[int, int]]) -> AsyncIterator[Row]:
    """What everybody let through in *steps*, each with its window.

    Raises StoreUnreachable, Invalid."""
    scans = 0
    for some in _in_parts(steps, _HASHES_AT_ONCE):
        left = [(*one, 0) for one in some]
        while left:
            scans += len(left)
            if scans > _MOST_SCANS:
                raise StoreUnreachable("it has more counts than can be")
            replies = await link.ask([_scan(names, *one) for one in left])
            after = []
            for (seconds, step, _), reply in zip(left, replies, strict=True):
                cursor, rows = counts_in(reply, seconds, step)
                for row in rows:
                    yield row
                if cursor:
                    after.append((seconds, step, cursor))
            left = after
            await asyncio.sleep(0)


def _scan(names: Names, seconds: int, step: int, cursor: int) -> Command:
    return ("HSCAN", names.counts(seconds, step), cursor, "COUNT", _MOST_FIELDS)


def _in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
