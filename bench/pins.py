"""Pins over HTTP: how many new ones a second, how many repeats, and what ten million cost.

Every pin is durable when it is answered. The backend is unreachable, so that the ledger is measured
and not a cluster; the reconciler runs, and probes. Ledgers with many pins are made by SQL, with
pins of one requestor that are final."""

import itertools
import os
import sqlite3
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.load import KEY, Load
from bench.servers import Started, bare, on_one_core, service
from content_gateway.api_keys import OpenKeys
from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid

CLIENTS: Final = 64
ROUNDS: Final = 9
SECONDS: Final = 1.0
_LETTERS: Final = "234567abcdefghijklmnopqrstuvwxyz"
_PEERS: Final = '[{"name":"embedded","status":"pinned","at":null,"error":null}]'
NOBODY: Final = {
    "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
    "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
}
LEDGER: Final = "ledger.sqlite"
_PIECE: Final = 1024 * 1024
FEW, MANY = 1_000, int(os.environ.get("BENCH_PINS", "10000000"))


@dataclass(frozen=True)
class Rates:
    """New pins and repeats a second, medians; both also as parts of a bare ASGI function."""

    new: float
    new_of_bare: float
    repeats: float
    of_bare: float


@dataclass(frozen=True)
class Tails:
    """The 99th percentile of an add, in ms, with few pins in the ledger and with many."""

    few: float
    many: float
    ratio: float


async def rates(folder: Path) -> Rates:
    """The two rates, the servers taking turns on one core, with the clients on another."""
    new, new_ratios, repeated, ratios = [], [], [], []
    async with bare() as plain, service(folder / "rates", NOBODY) as ours:
        with on_one_core(plain, ours):
            for number in range(ROUNDS + 1):
                added = await _new(ours)
                again = await Load(ours.port, repeats(ours.port), CLIENTS).run(SECONDS)
                least = await Load(plain.port, repeats(plain.port), CLIENTS).run(SECONDS)
                if number:  # the first round warms both up
                    new.append(added.rate)
                    new_ratios.append(added.rate / least.rate)
                    repeated.append(again.rate)
                    ratios.append(again.rate / least.rate)
    median = statistics.median
    return Rates(median(new), median(new_ratios), median(repeated), median(ratios))


async def tails(folder: Path) -> Tails:
    """The price of many pins: two services on two ledgers take turns.

    Both files are read in before each turn: a kernel may take pages away that were not used for a
    minute, and then the disk's reading would be measured, one page for each new CID."""
    few, many, ratios = [], [], []
    async with _with_pins(folder / "few", FEW) as small, _with_pins(folder / "many", MANY) as large:
        for number in range(ROUNDS + 1):
            read_in(folder / "few" / LEDGER)
            with_few = await _new(small)
            read_in(folder / "many" / LEDGER)
            with_many = await _new(large)
            if number:
                few.append(with_few.percentile(99))
                many.append(with_many.percentile(99))
                ratios.append(many[-1] / few[-1])
    return Tails(statistics.median(few), statistics.median(many), statistics.median(ratios))


async def _new(server: Started) -> Load:
    return await Load(server.port, additions(server.port), CLIENTS).run(SECONDS)


def additions(port: int) -> Iterator[bytes]:
    """POSTs of CIDs that nobody has pinned; written before the clock runs."""
    cids = [Cid(RAW, SHA2_256, os.urandom(32)) for _ in range(20_000)]
    return iter([_post(port, cid) for cid in cids])


def repeats(port: int) -> Iterator[bytes]:
    """POSTs of the same hundred CIDs, again and again."""
    digests = (number.to_bytes(32, "big") for number in range(100))
    return itertools.cycle([_post(port, Cid(RAW, SHA2_256, digest)) for digest in digests])


def _post(port: int, cid: Cid) -> bytes:
    head = f"POST /ipfs/pin/add/{cid} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    return f"{head}x-api-key: {KEY.decode()}\r\n\r\n".encode()


@asynccontextmanager
async def _with_pins(folder: Path, number: int) -> AsyncIterator[Started]:
    async with service(folder):
        pass  # it makes the tables
    await fill(folder / LEDGER, number)
    async with service(folder, NOBODY) as started:
        yield started


def read_in(ledger: Path) -> None:
    """Have the kernel keep all of *ledger* in memory, for now."""
    with ledger.open("rb", buffering=0) as file:
        while file.read(_PIECE):
            pass


async def fill(ledger: Path, number: int) -> None:
    """Put *number* final pins into the ledger, as if they had been made one after the other.

    Their CIDs are none, but spread evenly over all that CIDs of raw blocks can be. They come in
    ascending order, as that is ten times as quick, but a third of them after the others: then the
    pages of the index are two thirds full, as they are where CIDs come at random. When this
    returns, all of it is on the disk."""
    requestor = OpenKeys().remembered(KEY.decode()).id
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = -1500000")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for later in (False, True):
            connection.execute(
                "WITH RECURSIVE n(i) AS"
                " (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :number - 1)"
                " INSERT INTO contents (cid, state, replicas, wanted, peers, updated_at)"
                " SELECT 'bafkrei' || substr('abcdefgh', 1 + i * 8 / :number, 1)"
                " || substr(:letters, 1 + i * 256 / :number % 32, 1)"
                " || substr(:letters, 1 + i * 8192 / :number % 32, 1) || printf('%049x', i),"
                " 'pinned', 1, 1, :peers, 1700000000000 + i FROM n WHERE (i % 3 = 2) = :later",
                {"number": number, "letters": _LETTERS, "peers": _PEERS, "later": later},
            )
        connection.execute(
            "INSERT INTO pins (requestor, content, created_at)"
            " SELECT ?, id, 1700000000000000 + id * 1000 FROM contents",
            (requestor,),
        )
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with ledger.open("rb+") as file:
        os.fsync(file.fileno())
