"""The ledger's disk is full, others hold its lock, or it is taken away under the service.

What is acknowledged meanwhile must be there afterwards; what cannot be kept is 503. A disk is a
small file system in memory, which needs root."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.faults.asking import Answered, ask, ask_all, session
from tests.faults.ground import NOBODY, VERSION, Ground, PostgresGround, SqliteGround
from tests.faults.row import Figure, Size
from tests.ledgers import cid
from tests.sqlite.test_mounted import mount, unmount
from tests.sqlite.test_taken_away import DAMAGE
from tests.waiting import eventually
from tests.world.postgres import durable_in

_MEGABYTES: Final = {"SQLite": 4, "PostgreSQL": 160}
_BEFORE: Final = 20
_BATCH: Final = 200
_MOST: Final = 40_000
_TIMEOUT: Final = {"CONTENT_GATEWAY_DATABASE__TIMEOUT": "2"}


async def a_full_disk(ground: Ground, size: Size) -> Figure:
    """Pins are added until some are refused; then there is room again. A PostgreSQL that has ended
    for want of room is started again, as its service manager would; the service is not."""
    folder = ground.folder / "disk"
    folder.mkdir()
    room = f"size={_MEGABYTES[ground.name]}m"
    assert mount("-t", "tmpfs", "-o", room, "tmpfs", folder), "nothing can be mounted here"
    try:
        with _on_disk(ground, folder) as there:
            return await _filled(there, folder / "filling", ground.folder)
    finally:
        unmount("--lazy", folder)


@contextmanager
def _on_disk(ground: Ground, folder: Path) -> Iterator[Ground]:
    """A ground like *ground* whose ledger is in *folder*."""
    if isinstance(ground, SqliteGround):
        yield SqliteGround(folder)
        return
    small = {"shared_buffers": "16MB", "min_wal_size": "32MB", "max_wal_size": "48MB"}
    with durable_in(folder, VERSION, **small) as server:
        yield PostgresGround(ground.folder, server)


async def _filled(ground: Ground, filling: Path, logs: Path) -> Figure:
    acknowledged: list[int] = []
    refused: list[Answered] = []
    wrong: set[int] = set()
    number, has_ended = 0, False
    async with ground.serving({**NOBODY, **_TIMEOUT}) as service, session() as asking:

        async def add(count: int) -> None:
            nonlocal number
            own = range(number, number + count)
            urls = [f"{service.url}/ipfs/pin/add/{cid(each)}" for each in own]
            for each, answer in zip(own, await ask_all(asking, "POST", urls, 32), strict=True):
                if answer.status == 200:
                    acknowledged.append(each)
                elif answer.status == 503:
                    refused.append(answer)
                else:
                    wrong.add(answer.status)
            number += count

        await add(_BEFORE)
        await asyncio.to_thread(_fill, filling)
        while not refused and number < _MOST:
            await add(_BATCH)
        reached = len(refused)
        await add(_BATCH)
        filling.unlink()
        if isinstance(ground, PostgresGround) and not ground.server.is_running:
            has_ended = True
            await asyncio.to_thread(ground.server.start)
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def is_back() -> bool:
            url = f"{service.url}/ipfs/pin/add/{cid(number)}"
            return (await ask(asking, "POST", url)).status == 200

        await eventually(is_back, seconds=60)
        back = loop.time() - begun
        with ground.locked():
            url = f"{service.url}/ipfs/pin/add/{cid(number + 1)}"
            locked = await ask(asking, "POST", url)
        after = await ask(asking, "POST", url)
    kept = {found for _, found in ground.rows.pins()}
    lost = sum(str(cid(each)) not in kept for each in acknowledged)
    ended = " (the server ended, and was started)" if has_ended else ""
    return Figure(
        f"{len(acknowledged):,} acknowledged, {len(refused)} refused with 503{ended}: {lost} lost;"
        f" back after {back:.1f} s; locked: {locked.status} after {locked.seconds:.1f} s, then"
        f" {after.status}",
        not lost and reached > 0 and not wrong and (locked.status, after.status) == (503, 200),
    )


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.fsync(file.fileno())


async def a_ledger_taken_away(ground: Ground, size: Size) -> Figure:
    """Each kind of damage beside a running service with pins; then ten new ones, and a repeat."""
    places: list[tuple[Ground, str, Callable[[], None]]] = []
    if isinstance(ground, SqliteGround):
        for damage in DAMAGE if size == "full" else DAMAGE[:3]:
            own = ground.folder / damage.__name__
            own.mkdir()
            place = SqliteGround(own)
            places.append((place, damage.__name__, partial(damage, place.path)))
    elif isinstance(ground, PostgresGround):
        for number, way in enumerate(_WAYS):
            own = ground.folder / f"{number}"
            own.mkdir()
            new = PostgresGround(own, ground.server)
            places.append((new, way, partial(_damage, new, way)))
    told, broken = Counter[int](), Counter[str]()
    for number, (there, name, take_away) in enumerate(places):
        async with there.serving({**NOBODY, **_TIMEOUT}) as service, session() as asking:
            first = range(number * 100, number * 100 + 5)
            urls = [f"{service.url}/ipfs/pin/add/{cid(each)}" for each in first]
            assert {answer.status for answer in await ask_all(asking, "POST", urls)} == {200}
            await asyncio.to_thread(take_away)
            later = (first[0], *range(number * 100 + 10, number * 100 + 20))
            urls = [f"{service.url}/ipfs/pin/add/{cid(each)}" for each in later]
            answers = await ask_all(asking, "POST", urls)
            await service.stop(60)  # what is only in a log that was removed is saved
        kept = _kept(there)
        for each, answer in zip(later, answers, strict=True):
            told[answer.status] += 1
            if answer.status not in (200, 503):
                broken[f"{name}: {answer.status}"] += 1
            elif answer.status == 200 and str(cid(each)) not in kept:
                broken[f"{name}: a yes that is not kept"] += 1
    counted = ", ".join(f"{count} times {status}" for status, count in sorted(told.items()))
    wrong = "".join(f"; {what} ({count})" for what, count in sorted(broken.items()))
    return Figure(
        f"{len(places)} kinds of damage: {counted}{wrong or ', each yes kept'}", not broken
    )


def _kept(ground: Ground) -> set[str | None]:
    try:
        return {found for _, found in ground.rows.pins()}
    except Exception:  # what is not there keeps nothing
        return set()


_TABLES: Final = "pins, contents, work, requestors"
_WAYS: Final = {
    "truncated": f"TRUNCATE {_TABLES}",
    "pins removed": "DELETE FROM pins",
    "tables dropped": f"DROP TABLE {_TABLES}",
    "dropped": "DROP DATABASE {name} WITH (FORCE)",
    "replaced": "DROP DATABASE {name} WITH (FORCE);CREATE DATABASE {name} TEMPLATE template_ledger",
}
"""What the owner of a database can do to it beside a running service."""


def _damage(ground: PostgresGround, way: str) -> None:
    statements = _WAYS[way].format(name=ground.database).split(";")
    for statement in statements:
        inside = ground.database if "DATABASE" not in statement else "postgres"
        ground.server.run(statement, inside)
