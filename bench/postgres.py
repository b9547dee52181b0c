"""Pins over HTTP with the ledger in PostgreSQL: beside SQLite, and with ten million of them.

Everything is on disk when it is answered. The server is one of its own, on the cores that the
service and the clients have too. The clients, and what they send, are those of pins.py."""

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.load import KEY, Load
from bench.pins import CLIENTS, FEW, MANY, NOBODY, ROUNDS, SECONDS, Tails, additions, repeats
from bench.servers import Started, bare, on_one_core, service
from content_gateway.api_keys import OpenKeys
from tests.world.postgres import Postgres, durable

_SETTINGS: Final = {"shared_buffers": "1GB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True)
class SharedRates:
    """New pins and repeats a second, medians; new ones as a part of SQLite's, repeats of a bare
    ASGI function."""

    new: float
    new_of_sqlite: float
    repeats: float
    of_bare: float


async def rates(folder: Path) -> SharedRates:
    """The rates, the servers taking turns on one core, with the clients on another."""
    new, new_ratios, repeated, ratios = [], [], [], []
    with durable("15", **_SETTINGS) as server:
        url = server.new_ledger()
        async with (
            bare() as plain,
            service(folder / "file", NOBODY) as file,
            service(folder / "shared", _on(url)) as shared,
        ):
            with on_one_core(plain, file, shared):
                for number in range(ROUNDS + 1):
                    in_file, there = await _new(file), await _new(shared)
                    again = await Load(shared.port, repeats(shared.port), CLIENTS).run(SECONDS)
                    least = await Load(plain.port, repeats(plain.port), CLIENTS).run(SECONDS)
                    if number:  # the first round warms all up
                        new.append(there.rate)
                        new_ratios.append(there.rate / in_file.rate)
                        repeated.append(again.rate)
                        ratios.append(again.rate / least.rate)
    median = statistics.median
    return SharedRates(median(new), median(new_ratios), median(repeated), median(ratios))


async def tails(folder: Path) -> Tails:
    """The price of many pins: two services on two databases of one server take turns."""
    few, many, ratios = [], [], []
    with durable("15", **_SETTINGS) as server:
        async with (
            _with_pins(server, folder / "few", FEW) as small,
            _with_pins(server, folder / "many", MANY) as large,
        ):
            for number in range(ROUNDS + 1):
                with_few, with_many = await _new(small), await _new(large)
                if number:
                    few.append(with_few.percentile(99))
                    many.append(with_many.percentile(99))
                    ratios.append(many[-1] / few[-1])
    return Tails(statistics.median(few), statistics.median(many), statistics.median(ratios))


async def _new(server: Started) -> Load:
    return await Load(server.port, additions(server.port), CLIENTS).run(SECONDS)


def _on(url: str) -> dict[str, str]:
    return NOBODY | {"CONTENT_GATEWAY_DATABASE__URL": url}


@asynccontextmanager
async def _with_pins(server: Postgres, folder: Path, number: int) -> AsyncIterator[Started]:
    url = server.new_ledger()
    await asyncio.to_thread(fill, server, url.rpartition("/")[2], number)
    async with service(folder, _on(url)) as started:
        yield started


def fill(server: Postgres, database: str, number: int) -> None:
    """Put *number* final pins into *database*, spread evenly over all that CIDs can be."""
    requestor = OpenKeys().remembered(KEY.decode()).id
    server.run(
        f"INSERT INTO requestors (requestor, pins) VALUES ('{requestor}', {number})", database
    )
    server.run(
        "INSERT INTO contents (cid, state, replicas, wanted, updated_at) SELECT 'bafkrei'"
        " || left(encode(sha256(i::text::bytea), 'hex'), 52), 'pinned', 1, 1, 1700000000000 + i"
        f" FROM generate_series(1, {number}) AS i",
        database,
    )
    server.run(
        "INSERT INTO pins (requestor, content, created_at)"
        " SELECT (SELECT number FROM requestors), id, 1700000000000000 + id * 1000 FROM contents",
        database,
    )
    server.run("UPDATE requestors SET last_at = (SELECT max(created_at) FROM pins)", database)
    server.run("VACUUM ANALYZE", database)
    server.run("CHECKPOINT", database)
