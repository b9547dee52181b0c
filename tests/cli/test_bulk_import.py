"""An import by itself: how lines are cut, how many pins are in progress, and a ledger that
fails."""

import asyncio
import io
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_gateway.cli.bulk_import import UNDER_WAY, Entry, Import, Tally
from content_gateway.cli.import_lines import parse_line
from content_gateway.cli.lines import MAX_LINE, numbered
from content_gateway.errors import Blocked, GatewayError, StorageUnavailable
from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label, Pin
from content_gateway.pins.origins import OriginRules
from tests.cli.command import cids


class Ledger:
    """Keeps pins in memory, after a moment; every so-many-th write is refused while *moody*."""

    def __init__(self, *, moody: int = 0, dark: bool = False) -> None:
        self.pins: dict[str, Label] = {}
        self.moody = moody
        self.dark = dark
        self.under_way = self.most_under_way = self.asked = 0

    async def add(self, spelling: str, label: Label) -> Pin | None:
        cid = Cid.parse(spelling)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.asked += 1
        if self.dark or (self.moody and self.asked % self.moody == 0):
            raise StorageUnavailable("The ledger cannot be written now.")
        if spelling in self.pins:
            return None
        self.pins[spelling] = label
        return Pin(cid, spelling, datetime.now(UTC), label)


async def source_of(spellings: Iterable[str]) -> AsyncIterator[Entry]:
    for number, cid in enumerate(spellings, 1):
        yield Entry(number, cid)


class Pieces(io.RawIOBase):
    """A pipe out of which the bytes come in *pieces*."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = next(self._pieces, b"")
        buffer[: len(piece)] = piece
        return len(piece)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_lines_are_the_same_however_they_arrive(text: bytes, cuts: list[int]) -> None:
    """Cut anywhere, bytes give the lines they have, numbered from 1."""
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges) if start < end]
    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(numbered(io.BufferedReader(Pieces(pieces)))) == list(enumerate(expected, 1))


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    """A line longer than the limit is None, and is read in small pieces; the next one is whole."""
    long = [b"x" * 4_000] * 1_000
    pipe = Pieces([*long, b"\nnext\n", b"y" * MAX_LINE, b"\n", b"z" * MAX_LINE, b"z"])
    tracemalloc.start()
    lines = list(numbered(io.BufferedReader(pipe)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == [(1, None), (2, b"next"), (3, b"y" * MAX_LINE), (4, None)]
    assert peak < 500_000


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (b"", None),
        (b"  # a comment", None),
        (b"cid", ("cid", Label())),
        (b" cid \r", ("cid", Label())),
        (b"cid  my site ", ("cid", Label("my site"))),
        (b"\xef\xbb\xbfcid", ("cid", Label())),
        (b'{"cid":"cid","name":"my site","status":"failed"}', ("cid", Label("my site"))),
        (b' {"cid":"cid","meta":{"a":"b"}}', ("cid", Label(meta={"a": "b"}))),
    ],
)
def test_a_line_is_a_cid_and_perhaps_a_name(line: bytes, meant: object) -> None:
    """Blanks, comments, the marks of other systems' editors."""
    assert parse_line(line, OriginRules()) == meant


@pytest.mark.parametrize("line", [None, b"\xff\xfe", b"cid " + b"n" * 256, b"cid a\0b"])
def test_a_line_that_is_none_is_refused(line: bytes | None) -> None:
    """Too long, not text, a name that is too long or has a NUL in it."""
    with pytest.raises(ValueError, match=r"bytes|UTF-8|characters|NUL"):
        parse_line(line, OriginRules())


async def test_many_pins_are_under_way_at_once_and_never_too_many() -> None:
    """As many as the ledger commits in one group, and no more."""
    ledger, tally = Ledger(), Tally()
    await Import(ledger.add, tally).run(source_of(cids(2_000)))
    assert ledger.most_under_way == UNDER_WAY
    assert (tally.added, tally.there, tally.read) == (2_000, 0, 2_000)


async def test_a_busy_ledger_loses_no_line() -> None:
    """What the ledger refuses is asked again after a pause, until it is kept."""
    ledger, tally = Ledger(moody=7), Tally()
    wanted = cids(500)
    await Import(ledger.add, tally).run(source_of([*wanted, *wanted[:10]]))
    assert sorted(ledger.pins) == sorted(wanted)
    assert (tally.added, tally.there, tally.invalid) == (500, 10, 0)


async def test_a_ledger_that_stays_away_ends_the_import() -> None:
    """Without patience the first refusal ends it, after 300 seconds otherwise; no line is called
    invalid for it."""
    ledger, tally = Ledger(dark=True), Tally()
    with pytest.raises(StorageUnavailable):
        await Import(ledger.add, tally, patience=-1.0).run(source_of(cids(1_000)))
    assert (tally.added, tally.invalid) == (0, 0)
    assert ledger.asked <= 2 * UNDER_WAY


async def test_blocked_content_is_named_and_the_others_are_pinned() -> None:
    """What the operator blocks is one of the lines that cannot be pinned."""
    ledger, tally = Ledger(), Tally()
    first, second = cids(2)

    async def add(spelling: str, label: Label) -> Pin | None:
        if spelling == first:
            raise Blocked
        return await ledger.add(spelling, label)

    await Import(add, tally).run(source_of([first, second]))
    assert tally.refusals == [(1, "It is blocked.")]
    assert list(ledger.pins) == [second]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(5, "Input/output error"), "Input/output error"),
        (StorageUnavailable("It is full."), "It is full."),
        (GatewayError("It changed."), "It changed."),
    ],
)
async def test_a_source_that_breaks_off_is_an_error(error: Exception, told: str) -> None:
    """What came before is pinned, and the end is not taken for the end of the file."""
    ledger, tally = Ledger(), Tally()
    (cid,) = cids(1)

    async def source() -> AsyncIterator[Entry]:
        yield Entry(1, str(cid))
        raise error

    with pytest.raises(GatewayError, match=told):
        await Import(ledger.add, tally).run(source())
    assert list(ledger.pins) == [str(cid)]
    assert tally.added == 1
