"""`content-gateway ledger copy`: from SQLite to PostgreSQL and back again it is the same ledger,
however often it is killed on the way."""

import asyncio
import os
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from content_gateway.api_keys import IssuedKeys
from content_gateway.model.content_state import (
    BackendStatus,
    Event,
    LastRequest,
    Outcome,
    Peer,
    TrackerStatus,
)
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.pins import NO_LABEL, Label
from content_gateway.model.records import Records, Resolved, StoredEntry
from content_gateway.model.wallet import ETHEREUM
from tests.cli.command import COMMAND, environment_of, run
from tests.ledger.stands import PostgresStand, SqliteStand
from tests.ledgers import Clock, cid, quota
from tests.world import postgres

TABLES = ("api_keys", "requestors", "contents", "pins", "audit", "resyncs", "resolutions", "ipns")


async def fill(stand: SqliteStand, clock: Clock) -> None:
    """Keys, pins in every state, with and without labels, answers, and what was refused."""
    async with stand.ledger(clock) as ledger:
        keys = IssuedKeys(ledger.keys)
        created = await keys.create("team", ["pin"], None, limits={"pins": 100})
        assert created is not None
        _, record = created
        await keys.rotate("team")
        label = Label("Straße \u2713", ("/dnsaddr/x",), {"b": "1", "a": "\u00e4"})
        for number in range(300):
            who = (record.id, "anna", "ben")[number % 3]
            given = label if number % 4 == 0 else NO_LABEL
            await ledger.pins.add(who, cid(number), f"spelt {number}", given)
            if number % 7 == 0:
                await ledger.pins.add("carla", cid(number), str(cid(number)), NO_LABEL)
        items = await ledger.work.lease("a", 30.0, quota(50))
        ends = [
            Outcome(Event.SEEN_PINNED, None, BackendStatus(TrackerStatus.PINNED, 2, 3, PEERS)),
            Outcome(Event.SEEN_FAILED, 60.0, None, "no", attempted=True),
            Outcome(Event.SEEN_PINNING, 5.0),
        ]
        await ledger.work.begin("a", items[0], LastRequest.PIN, None)
        done = [(item, ends[place % 3]) for place, item in enumerate(items[:40])]
        await ledger.work.record_outcomes("a", done)
        for number in range(0, 60, 3):
            await ledger.pins.remove(record.id, cid(number))
        await keys.revoke(record.id)
        async with ledger.key_activity() as activity:
            activity.used(record.id)
            activity.refused("anna", "blocked")
        async with ledger.last_known() as known:
            at = datetime.fromtimestamp(clock.now, UTC)
            known.store("site.eth", ETHEREUM, Resolved(Records("0x" + "aa" * 20), at))
            known.store_ipns(IpnsName.parse("example.org"), StoredEntry("/ipfs/x", at))


PEERS = (Peer("one", "pinned"), Peer("two", "pinned"))


def rows(path: Path) -> dict[str, list[Any]]:
    """Everything that is copied, of a SQLite ledger."""
    with closing(sqlite3.connect(path)) as database:
        # Leases stay behind, and whose turn something was in that is not reconciled.
        database.execute(
            "UPDATE contents SET lease_owner = NULL,"
            " turn_of = CASE WHEN next_at IS NULL THEN 0 ELSE turn_of END"
        )
        return {
            name: database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for name in (*TABLES, "sqlite_sequence")
        }


async def test_a_copy_of_a_copy_is_the_original(tmp_path: Path) -> None:
    """Every column of every row; and each of the three is sound."""
    clock, stand = Clock(), SqliteStand(tmp_path)
    await fill(stand, clock)
    there = PostgresStand(postgres.shared("15"), is_empty=True)
    first, back = f"sqlite:///{tmp_path}/ledger.sqlite", f"sqlite:///{tmp_path}/back.sqlite"
    copied = await asyncio.to_thread(run, tmp_path, "ledger", "copy", first, there.url)
    assert copied.returncode == 0, copied.stderr
    assert "Copied, and equal: 1 api_keys, 4 requestors, 300 contents" in copied.stdout
    settings = {"DATABASE__URL": there.url, "PINS__BACKEND": "kubo"}
    checked = await asyncio.to_thread(run, tmp_path, "ledger", "check", **settings)
    assert "Nothing is wrong." in checked.stdout, checked.stdout
    copied = await asyncio.to_thread(run, tmp_path, "ledger", "copy", there.url, back)
    assert copied.returncode == 0, copied.stderr
    assert rows(tmp_path / "back.sqlite") == rows(tmp_path / "ledger.sqlite")
    async with there.ledger(clock) as ledger:  # and it goes on from there
        clock.now += 1
        pin = await ledger.pins.add("anna", cid(9_999), "x", NO_LABEL)
        assert pin is not None
        assert (await ledger.pins.status("anna", cid(9_999))) is not None
        clock.now += 31
        assert len(await ledger.work.lease("b", 30.0, quota(1_000))) > 200


async def test_nothing_is_copied_over_a_ledger(tmp_path: Path) -> None:
    clock, stand = Clock(), SqliteStand(tmp_path)
    await fill(stand, clock)
    first = f"sqlite:///{tmp_path}/ledger.sqlite"
    there = postgres.shared("15").new_ledger()
    for place in (there, first):
        refused = await asyncio.to_thread(run, tmp_path, "ledger", "copy", first, place)
        assert refused.returncode != 0
        assert "already" in refused.stderr
    missing = f"sqlite:///{tmp_path}/nothing.sqlite"
    refused = await asyncio.to_thread(run, tmp_path, "ledger", "copy", missing, there)
    assert "There is no ledger" in refused.stderr


async def test_nobody_opens_half_a_copy(tmp_path: Path) -> None:
    there = PostgresStand(postgres.shared("15"), is_empty=True)
    clock, stand = Clock(), SqliteStand(tmp_path)
    await fill(stand, clock)
    first = f"sqlite:///{tmp_path}/ledger.sqlite"
    copied = await asyncio.to_thread(run, tmp_path, "ledger", "copy", first, there.url)
    assert copied.returncode == 0
    await there.run("UPDATE ledger_schema SET least = 1000000")
    settings = {"DATABASE__URL": there.url, "PINS__BACKEND": "kubo"}
    refused = await asyncio.to_thread(run, tmp_path, "keys", "list", **settings)
    assert refused.returncode != 0
    await there.run("DELETE FROM ipns")  # what was killed there goes on there
    again = await asyncio.to_thread(run, tmp_path, "ledger", "copy", first, there.url)
    assert again.returncode == 0, again.stderr
    await there.run("UPDATE ledger_schema SET least = 1000000")
    await there.run("UPDATE contents SET error = 'other' WHERE id = 7")
    differs = await asyncio.to_thread(run, tmp_path, "ledger", "copy", first, there.url)
    assert differs.returncode != 0
    assert "contents of both differ" in differs.stderr


@pytest.mark.deep
@pytest.mark.timeout(1_800)
async def test_many_pins_there_and_back_killed_three_times(tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and back, row by row the same; COPY_PINS takes more."""
    number = int(os.environ.get("COPY_PINS", "200000"))
    stand = SqliteStand(tmp_path)
    async with stand.ledger(Clock()) as ledger:
        await ledger.pins.add("anna", cid(2**40), "x", NO_LABEL)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as database:
        database.execute("BEGIN")
        database.executemany(
            "INSERT INTO contents (cid, state, updated_at, replicas, wanted, size, turn_of)"
            " VALUES (?, 'pinned', ?, 3, 3, 1000, 1)",
            ((str(cid(n)), n) for n in range(number)),
        )
        database.execute(
            "INSERT INTO pins (requestor, content, created_at)"
            " SELECT 'anna', id, id FROM contents WHERE id > 1"
        )
        database.execute("UPDATE requestors SET pins = ?", (number + 1,))
        database.execute("COMMIT")
    there = PostgresStand(postgres.shared("15"), is_empty=True)
    first, back = f"sqlite:///{tmp_path}/ledger.sqlite", f"sqlite:///{tmp_path}/back.sqlite"
    kills = 0
    for source, place in ((first, there.url), (there.url, back)):
        for _ in range(2 if place == back else 1):
            child = subprocess.Popen(
                [*COMMAND, "ledger", "copy", source, place], env=environment_of(tmp_path, {})
            )
            await asyncio.sleep(number / 100_000)
            child.kill()
            kills += await asyncio.to_thread(child.wait) == -9
        copied = await asyncio.to_thread(run, tmp_path, "ledger", "copy", source, place)
        assert copied.returncode == 0, copied.stderr
    assert kills == 3
    assert rows(tmp_path / "back.sqlite") == rows(tmp_path / "ledger.sqlite")
