"""What is written to the store and read from it: its names, its values, and the steps in them.

Steps there are of the store's own clock, so that no machine's clock has to agree with another's:
each adds a whole number of steps to its own. What is read is checked, and what cannot be right is
left out. Knows no connection."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import floor
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from content_gateway.concurrency.sliding_window import STEPS, step_at

MINUTE: Final = 60
DAY: Final = 86_400
WINDOWS: Final = (MINUTE, DAY)
START: Final = "0-0"  # of a stream

# By the id of a key: its limit of a minute with the steps that count, and that of a day.
_Steps: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
Counts: TypeAlias = dict[str, tuple[_Steps, _Steps]]

Command: TypeAlias = tuple[str | int, ...]

# How long what is written stays where nobody writes it again.
_EXPIRES: Final = {MINUTE: 3 * MINUTE, DAY: DAY + 3600}
# News are for those who are connected and read them within a second; the hashes are for the others.
_NEWS_MILLISECONDS: Final = 60_000
_NEWS_EXPIRES: Final = 180
_MOST: Final = 1_000_000_000  # as in settings/groups.py
_LONGEST_KEY: Final = 128
_MOST_WRITTEN: Final = 4 * STEPS  # steps of both windows: of what counts, and what is late
# Of a step: beyond it the store's clock was set, and not only read a little late.
_JUMP: Final = 0.75

_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class Row(NamedTuple):
    """So many requests of *key* were let through in one *step* of its window of *seconds*, which
    has that *limit*."""

    key: str
    seconds: int
    step: int
    number: int
    limit: int

    @property
    def is_possible(self) -> bool:
        """Whether it can be true."""
        return (
            0 < len(self.key) <= _LONGEST_KEY
            and self.seconds in WINDOWS
            and 0 < self.number <= _MOST
            and 0 < self.limit <= _MOST
        )


class News(NamedTuple):
    """A batch of the service *sender*, the *number*th of those that it told."""

    id: str
    sender: str
    number: int
    rows: Sequence[Row]


class Invalid(Exception):
    """What the store says has another form than its commands answer in."""


class Steps:
    """How steps of this machine's clock become those of the store's, and back."""

    def __init__(self) -> None:
        self._shifts: dict[int, int] = {}
        self._between = 0.0
        # By window and step of ours, that of theirs, by the shift when it was first written: else
        # the same counts would stand in two steps there when that clock is set.
        self._written: dict[tuple[int, int], int] = {}

    @property
    def are_known(self) -> bool:
        """Whether the store's clock was heard."""
        return bool(self._shifts)

    def hear(self, theirs: float, ours: float) -> None:
        """The store's clock says *theirs* when ours says *ours*; in seconds."""
        self._between = theirs - ours
        for seconds in WINDOWS:
            between = self._between / (seconds / STEPS)
            shift = self._shifts.get(seconds)
            # The same as long as it will do: what was written has its steps by it.
            if shift is None or abs(between - shift) > _JUMP:
                self._shifts[seconds] = floor(between + 0.5)

    def time(self, now: float) -> float:
        """What the store's clock says when ours says *now*, in seconds since 1970."""
        return now + self._between

    def theirs(self, row: Row) -> Row:
        """*row* with the step of the store's clock."""
        place = row.seconds, row.step
        if place not in self._written:
            self._written[place] = row.step + self._shifts[row.seconds]
            while len(self._written) > _MOST_WRITTEN:
                del self._written[next(iter(self._written))]
        return row._replace(step=self._written[place])

    def counts(self, rows: Iterable[Row], now: float) -> Counts:
        """*rows*, with steps of the store's clock, by their keys and with steps of ours."""
        found: dict[str, dict[int, dict[int, int]]] = {}
        limits: dict[tuple[str, int], int] = {}
        for row in rows:
            newest, step = step_at(now, row.seconds), row.step - self._shifts[row.seconds]
            # It was told a moment ago: clocks that differ by less than a step say nothing else.
            step = newest if step >= newest - 1 else step
            steps = found.setdefault(row.key, {}).setdefault(row.seconds, {})
            steps[step] = steps.get(step, 0) + row.number
            limits[row.key, row.seconds] = row.limit
        return {
            key: (
                (limits.get((key, MINUTE), 0), tuple(windows.get(MINUTE, {}).items())),
                (limits.get((key, DAY), 0), tuple(windows.get(DAY, {}).items())),
            )
            for key, windows in found.items()
        }

    def live(self, now: float) -> Iterator[tuple[int, int]]:
        """Each window, and each step of the store's clock that counts in it."""
        for seconds in WINDOWS:
            newest = step_at(now, seconds) + self._shifts[seconds]
            # One more: that clock may be in its next step already.
            for step in range(newest - STEPS + 1, newest + 2):
                yield seconds, step


class Names:
    """The keys of the store that begin with *prefix*, those of the service *sender* within."""

    def __init__(self, prefix: str, sender: str) -> None:
        # In braces, so that all are in one slot where the store is a cluster of one shard.
        self._prefix = f"{{{prefix}}}"
        self._sender = sender
        self.news = f"{self._prefix}:news"

    def counts(self, seconds: int, step: int) -> str:
        """The hash of that step."""
        return f"{self._prefix}:{seconds}:{step}"

    def write(self, rows: Iterable[Row]) -> Iterator[Command]:
        """Say how much this service let through in all in the steps of *rows*."""
        hashes: dict[tuple[int, int], list[str]] = {}
        for row in rows:
            fields = hashes.setdefault((row.seconds, row.step), [])
            fields += (f"{self._sender}:{row.key}", f"{row.number}:{row.limit}")
        for (seconds, step), fields in hashes.items():
            name = self.counts(seconds, step)
            yield ("HSET", name, *fields)
            yield ("EXPIRE", name, _EXPIRES[seconds])

    def tell(self, number: int, rows: Sequence[Row], at: float) -> Iterator[Command]:
        """Tell the others of *rows*, by the store's clock *at*."""
        oldest = max(0, int(at * 1000) - _NEWS_MILLISECONDS)
        said = msgspec.json.encode(rows).decode()
        fields = ("sender", self._sender, "number", number, "rows", said)
        yield ("XADD", self.news, "MINID", "~", oldest, "*", *fields)
        yield ("EXPIRE", self.news, _NEWS_EXPIRES)


_rows = msgspec.json.Decoder(list[tuple[str, int, int, int, int]])


def time_in(reply: Any) -> float:
    """The store's clock, as TIME answers; raises Invalid."""
    try:
        seconds, microseconds = map(int, reply)
    except (TypeError, ValueError) as wrong:
        raise Invalid("TIME") from wrong
    if not 0 <= seconds < 2**40:
        raise Invalid("TIME")
    return seconds + microseconds / 1e6


def last_id(reply: Any) -> str:
    """The id of the last entry, as XREVRANGE answers; raises Invalid."""
    try:
        return START if not reply else _id(reply[0][0])
    except (TypeError, IndexError, KeyError) as wrong:
        raise Invalid("XREVRANGE") from wrong


def is_behind(one: str, other: str) -> bool:
    """Whether the entry with the id *one* comes before that with the id *other*."""
    return tuple(map(int, one.split("-"))) < tuple(map(int, other.split("-")))


def news_in(reply: Any) -> list[News]:
    """What others told, as XREAD answers; an entry that makes no sense has no rows.

    Raises Invalid."""
    try:
        entries = reply[0][1] if reply else []
        return [_news(_id(entry[0]), entry[1]) for entry in entries]
    except (TypeError, ValueError, IndexError, KeyError) as wrong:
        raise Invalid("XREAD") from wrong


def counts_in(reply: Any, seconds: int, step: int) -> tuple[int, list[Row]]:
    """Where to go on, 0 at the end, and what all services let through in that step, as HSCAN
    answers; without what makes no sense. Raises Invalid."""
    try:
        cursor, fields = int(reply[0]), reply[1]
        pairs = list(zip(fields[::2], fields[1::2], strict=True))
    except (TypeError, ValueError, IndexError) as wrong:
        raise Invalid("HSCAN") from wrong
    rows = []
    for field, value in pairs:
        try:
            number, limit = map(int, value.split(b":"))
            row = Row(field.decode().partition(":")[2], seconds, step, number, limit)
        except (AttributeError, ValueError):
            continue
        if row.is_possible:
            rows.append(row)
    return cursor, rows


def _news(entry: str, told: Any) -> News:
    try:
        fields = dict(zip(told[::2], told[1::2], strict=True))
        sender, number = fields[b"sender"].decode(), int(fields[b"number"])
        rows = [Row(*one) for one in _rows.decode(fields[b"rows"])]
    except (AttributeError, TypeError, ValueError, KeyError):  # msgspec's are ValueErrors
        return News(entry, "", 0, ())
    return News(entry, sender, number, [row for row in rows if row.is_possible])


def _id(said: Any) -> str:
    text = said.decode("ascii", "replace") if isinstance(said, bytes) else ""
    if not _ID.fullmatch(text):
        raise Invalid("an id of a stream")
    return text
