"""What this service let through, step by step: the part of all counts that it writes.

Kept for as long as it counts, so that a store that has forgotten it gets it again. What others have
not been told yet goes in numbered batches, and a batch that may have arrived or not goes again
under its number. Knows steps of this machine's clock only; how they are written is left to
rows.py."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from content_gateway.concurrency.sliding_window import STEPS, step_at
from content_gateway.valkey.rows import WINDOWS, Row

# By the id of a key: how many were let through, and the limits of a minute and a day, 0 for none.
Taken: TypeAlias = Mapping[str, tuple[int, int, int]]

# Keys in one step, as many as a process remembers; of more than these no counts travel.
_MOST_KEYS: Final = 20_000


@dataclass(frozen=True, slots=True)
class CountBatch:
    """What others have not been told: *rows*, under a *number* that grows by one."""

    number: int
    rows: tuple[Row, ...]


class OwnCounts:
    """The counts of this service in the last minute and day."""

    def __init__(self) -> None:
        # By window and step: of each key how many, and its limit.
        self._counts: dict[tuple[int, int], dict[str, tuple[int, int]]] = {}
        self._untold: dict[tuple[int, int], dict[str, int]] = {}
        self._batch: CountBatch | None = None
        self._number = 0

    @property
    def has_untold(self) -> bool:
        """Whether there is something that others were not told."""
        return self._batch is not None or bool(self._untold)

    def take(self, taken: Taken, now: float) -> None:
        """Count what was let through just *now*."""
        for index, seconds in enumerate(WINDOWS):
            place = seconds, step_at(now, seconds)
            if place not in self._counts:
                self._forget(seconds, place[1] - STEPS)
            counts = self._counts.setdefault(place, {})
            untold = self._untold.setdefault(place, {})
            for key, (number, *limits) in taken.items():
                if limits[index] and (key in counts or len(counts) < _MOST_KEYS):
                    counts[key] = (counts.get(key, (0, 0))[0] + number, limits[index])
                    untold[key] = untold.get(key, 0) + number
            if not untold:
                del self._untold[place]

    def batch(self, most: int) -> CountBatch | None:
        """At most so many rows that others have not been told, the same until `arrived`."""
        if self._batch is None and self._untold:
            self._number += 1
            self._batch = CountBatch(self._number, tuple(self._take_untold(most)))
        return self._batch

    def arrived(self) -> None:
        """The last batch has reached the store."""
        self._batch = None

    def total(self, row: Row) -> Row:
        """All that this service let through in the step of *row*, but for what is in no batch."""
        place = row.seconds, row.step
        number, limit = self._counts.get(place, {}).get(row.key, (row.number, row.limit))
        untold = self._untold.get(place, {}).get(row.key, 0)
        return row._replace(number=number - untold, limit=limit)

    def totals(self) -> Iterator[Row]:
        """The same of all that counts."""
        counts = [(place, tuple(one)) for place, one in self._counts.items()]
        for (seconds, step), keys in counts:
            for key in keys:
                row = self.total(Row(key, seconds, step, 0, 0))
                if row.number:
                    yield row

    def _take_untold(self, most: int) -> Iterable[Row]:
        for (seconds, step), keys in tuple(self._untold.items()):
            counts = self._counts[seconds, step]
            for key in tuple(keys)[:most]:
                most -= 1
                yield Row(key, seconds, step, keys.pop(key), counts[key][1])
            if not keys:
                del self._untold[seconds, step]
            if most <= 0:
                return

    def _forget(self, seconds: int, least: int) -> None:
        """Drop the steps of that window before *least*: they count no more, told or not."""
        for place in tuple(chain(self._counts, self._untold)):
            if place[0] == seconds and place[1] < least:
                self._counts.pop(place, None)
                self._untold.pop(place, None)
