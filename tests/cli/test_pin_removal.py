"""Removing all pins of a requestor, in pages, beside others who remove and add."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.cli.pin_removal import count_of, remove_all
from content_gateway.cli.status_line import StatusLine
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import PinNotFound, StorageUnavailable
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.pins import Label
from content_gateway.pins.pinning import Pinning
from tests.ledgers import cid

PINS = 700
LARGE = Label(meta={"app": "x" * 4_000})  # so that a page has a few hundred of them


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        yield database


@pytest.fixture
async def pinning(database: LedgerDatabase) -> Pinning:
    pins = SqlitePins(database, grace=60.0)
    pinning = Pinning(pins, denylist=Denylist(None, None), wake=lambda: None)
    await asyncio.gather(*(pinning.add("anna", str(cid(number)), LARGE) for number in range(PINS)))
    await pinning.add("ben", str(cid(1)))
    return pinning


async def removed(pinning: Pinning) -> int:
    with StatusLine(io.StringIO()) as line:
        return await remove_all(pinning, "anna", by_operator=True, line=line)


async def test_all_pages_are_removed(pinning: Pinning) -> None:
    """And nobody else's pins; a second time there are none."""
    assert await removed(pinning) == PINS
    assert await count_of(pinning, "anna") == 0
    assert await count_of(pinning, "ben") == 1
    assert await removed(pinning) == 0


async def test_two_who_remove_count_each_pin_once(pinning: Pinning) -> None:
    """Both end, with no error; together they removed them all."""
    first, second = await asyncio.gather(removed(pinning), removed(pinning))
    assert first + second == PINS
    assert await count_of(pinning, "anna") == 0


async def test_it_ends_though_others_go_on_adding(pinning: Pinning) -> None:
    """What was there is removed, however fast the key's owner adds more."""

    async def add_more() -> None:
        number = PINS
        while True:
            await pinning.add("anna", str(cid(number)))
            number += 1

    adding = asyncio.create_task(add_more())
    assert await removed(pinning) >= PINS
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    for number in range(PINS):
        with pytest.raises(PinNotFound):
            await pinning.status("anna", cid(number))


async def test_what_an_outage_cuts_off_goes_on_later(
    database: LedgerDatabase, pinning: Pinning
) -> None:
    """The error is told, what was removed stays so, and the rest is removed the next time."""
    await database.write(
        lambda c: c.execute(
            "CREATE TRIGGER broken BEFORE DELETE ON pins"
            " WHEN old.content = 100 BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
        )
    )
    with pytest.raises(StorageUnavailable):
        await removed(pinning)
    left = await count_of(pinning, "anna")
    assert 0 < left < PINS
    await database.write(lambda c: c.execute("DROP TRIGGER broken"))
    assert 0 < await removed(pinning) <= left  # some were under way when the error was told
    assert await count_of(pinning, "anna") == 0
