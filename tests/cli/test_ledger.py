"""`content-gateway ledger`: a backup under load loses nothing that was acknowledged before it, a
restore keeps what was there, and a check says what is wrong."""

import asyncio
import json
import os
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, cids, content, environment_of, run
from tests.cli.test_pin_import import begin_import, kept
from tests.fakes.origin import Origin
from tests.process import running
from tests.waiting import until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a ledger of thirty pins."""
    folder = tmp_path / "data"
    assert run(folder, "pin", "import", "-", given="\n".join(cids(30))).returncode == 0
    return folder


def rows(ledger: Path) -> dict[str, list[Any]]:
    """Everything in every table of a ledger."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: database.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2').fetchall()
            for (name,) in tables
            if name != "sqlite_sequence"
        }


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as database:
        database.execute(statement)


async def test_a_backup_under_load_has_every_acknowledged_pin(
    tmp_path: Path, origin: Origin
) -> None:
    """Taken five times beside a service while another process adds 20,000 pins: each copy is sound,
    is one moment of the ledger, and has every pin that was in it before the backup began. The
    last, restored elsewhere, brings all of its content back in from the network."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    origin.blocks.update(content(number) for number in range(50))
    first = "\n".join(cids(50))
    assert (await asyncio.to_thread(run, folder, "pin", "import", "-", given=first)).returncode == 0
    (tmp_path / "cids.txt").write_text("\n".join(cids(20_000)))
    async with running("dev", folder):
        adding = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("pin", "import", str(tmp_path / "cids.txt")),
            env=environment_of(folder, {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        sizes = []
        for number in range(5):
            await until(lambda: len(kept(folder)) > 2_000 * number, seconds=60)  # noqa: B023
            before = kept(folder)
            copy = tmp_path / f"copy-{number}.sqlite"
            done = await asyncio.to_thread(run, folder, "ledger", "backup", str(copy), "--json")
            assert done.returncode == 0, done.stderr
            after = kept(folder)
            with closing(sqlite3.connect(copy)) as database:
                found = database.execute("SELECT cid FROM pins JOIN contents ON id = content")
                held = {cid for (cid,) in found}
            assert before <= held <= after
            assert json.loads(done.stdout)["pins"] == len(held)
            checked = await asyncio.to_thread(
                run, folder, "ledger", "check", DATABASE__URL=f"sqlite:///{copy}"
            )
            assert checked.returncode == 0, checked.stdout
            sizes.append(len(held))
        assert await adding.wait() == 0
    assert sizes[0] < sizes[-1]
    shutil.copy(tmp_path / "copy-0.sqlite", tmp_path / "sent.sqlite")
    done = await asyncio.to_thread(
        run, elsewhere, "ledger", "restore", str(tmp_path / "sent.sqlite")
    )
    assert done.returncode == 0, done.stderr
    assert rows(elsewhere / "ledger.sqlite") == rows(tmp_path / "copy-0.sqlite")


async def test_the_resync_brings_back_what_the_backend_lacks(
    tmp_path: Path, origin: Origin
) -> None:
    """A ledger in which all is pinned, restored beside an empty block store: `reconcile now`
    fetches every content again."""
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    origin.blocks.update(content(number) for number in range(30))
    settings = {"EMBEDDED__GATEWAYS": json.dumps([origin.url])}

    def ran(where: Path, *arguments: str) -> str:
        done = run(where, *arguments, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def move() -> None:
        assert run(folder, "pin", "import", "-", given="\n".join(cids(30))).returncode == 0
        ran(folder, "reconcile", "now")
        ran(folder, "ledger", "backup", str(tmp_path / "copy.sqlite"))
        ran(elsewhere, "ledger", "restore", str(tmp_path / "copy.sqlite"))
        asked = len(origin.requests)
        shown = json.loads(ran(elsewhere, "reconcile", "now", "--json"))
        assert shown["contents"]["pinned"] == 30
        assert len(origin.requests) >= asked + 30
        assert json.loads(ran(elsewhere, "blocks", "stat", "--json"))["pins"] == 30

    await asyncio.to_thread(move)


def test_a_backup_is_for_its_owner_and_replaces_nothing_unasked(data: Path) -> None:
    """0600; a file that is there is replaced with --force only; nothing is left beside it."""
    copy = data.parent / "copies" / "ledger.sqlite"
    copy.parent.mkdir()
    done = run(data, "ledger", "backup", str(copy))
    assert done.returncode == 0, done.stderr
    assert "30 pins of 30 contents, 0 keys" in done.stdout
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert rows(copy) == rows(data / "ledger.sqlite")
    was = copy.read_bytes()
    assert run(data, "pin", "add", str(content(99)[0])).returncode == 0
    refused = run(data, "ledger", "backup", str(copy))
    assert refused.returncode == 1
    assert "--force replaces it" in refused.stderr
    assert copy.read_bytes() == was
    assert run(data, "ledger", "backup", "--force", str(copy)).returncode == 0
    assert rows(copy) == rows(data / "ledger.sqlite")
    assert list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize("way", ["ledger.sqlite", "link.sqlite"])
def test_a_backup_never_takes_the_place_of_its_ledger(data: Path, way: str) -> None:
    """Not with --force, nor by another name: a service that runs would lose its file."""
    (data / "link.sqlite").symlink_to("ledger.sqlite")
    was = (data / "ledger.sqlite").stat().st_ino
    refused = run(data, "ledger", "backup", "--force", str(data / way))
    assert refused.returncode == 1
    assert "the ledger itself" in refused.stderr
    assert (data / "ledger.sqlite").stat().st_ino == was


def test_nothing_is_made_where_no_ledger_is(tmp_path: Path) -> None:
    """Neither by a backup nor by a check, which say where they looked."""
    for arguments in (("backup", str(tmp_path / "copy")), ("check",)):
        done = run(tmp_path / "none", "ledger", *arguments)
        assert done.returncode == 1
        assert f"There is no ledger at {tmp_path / 'none' / 'ledger.sqlite'}" in done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_a_restore_over_a_running_service_is_refused(data: Path) -> None:
    """The service goes on with the ledger it has."""
    copy = data.parent / "copy.sqlite"
    assert (await asyncio.to_thread(run, data, "ledger", "backup", str(copy))).returncode == 0
    async with running("dev", data):
        before = rows(data / "ledger.sqlite")["pins"]
        done = await asyncio.to_thread(run, data, "ledger", "restore", str(copy))
        assert done.returncode == 1
        assert done.stderr == "A service runs on this ledger: stop it first.\n"
        assert rows(data / "ledger.sqlite")["pins"] == before
        added = await asyncio.to_thread(run, data, "pin", "add", str(content(77)[0]))
        assert added.returncode == 0


def test_what_was_there_is_kept_aside(data: Path) -> None:
    """With its WAL, so that all of its pins are in it; and what to do next is said."""
    copy = data.parent / "copy.sqlite"
    assert run(data, "ledger", "backup", str(copy)).returncode == 0
    assert run(data, "pin", "add", str(content(99)[0])).returncode == 0
    was = rows(data / "ledger.sqlite")
    (data / "ledger.sqlite.import-0123456789abcdef").write_text("how far an import into it is")
    done = run(data, "ledger", "restore", str(copy))
    assert done.returncode == 0, done.stderr
    assert not list(data.glob("*.import-*"))
    assert "reconcile now" in done.stdout
    assert len(rows(data / "ledger.sqlite")["pins"]) == 30
    (aside,) = (path for path in data.glob("ledger.sqlite.before-*Z"))
    assert str(aside) in done.stdout
    assert rows(aside) == was
    assert stat.S_IMODE((data / "ledger.sqlite").stat().st_mode) == 0o600
    # And back again.
    assert run(data, "ledger", "restore", str(aside)).returncode == 0
    assert len(rows(data / "ledger.sqlite")["pins"]) == 31
    assert run(data, "ledger", "check").returncode == 0


async def test_pins_of_a_killed_service_stay_where_they_were(data: Path) -> None:
    """They are in the WAL that it left: they go into its ledger before that goes aside, so that no
    moment is wrong to be killed in, and not into the one that is restored."""
    copy = data.parent / "copy.sqlite"
    assert (await asyncio.to_thread(run, data, "ledger", "backup", str(copy))).returncode == 0
    child = await begin_import(data, "\n".join(cids(500)))
    await until(lambda: len(kept(data)) >= 400, seconds=60)
    child.kill()
    await child.wait()
    assert (data / "ledger.sqlite-wal").stat().st_size > 0
    held = len(kept(data))
    done = await asyncio.to_thread(run, data, "ledger", "restore", str(copy), "--json")
    assert done.returncode == 0, done.stderr
    assert len(rows(data / "ledger.sqlite")["pins"]) == 30
    aside = Path(json.loads(done.stdout)["aside"])
    assert len(rows(aside)["pins"]) == held
    alone = data.parent / "alone.sqlite"
    shutil.copy(aside, alone)
    assert len(rows(alone)["pins"]) == held


def test_keys_that_work_again_are_named(data: Path) -> None:
    """Those that were revoked or rotated after the backup; where what was there cannot be read,
    that they may be is said."""
    for name in ("stays", "goes", "turns"):
        assert run(data, "keys", "create", "--name", name).returncode == 0
    copy = data.parent / "copy.sqlite"
    assert run(data, "ledger", "backup", str(copy)).returncode == 0
    assert run(data, "keys", "revoke", "goes").returncode == 0
    assert run(data, "keys", "rotate", "turns").returncode == 0
    done = run(data, "ledger", "restore", str(copy))
    assert "revoke or rotate them now: goes, turns\n" in done.stdout
    done = run(data, "ledger", "restore", str(copy), "--json")
    assert json.loads(done.stdout)["revived"] == []
    (data / "ledger.sqlite").write_bytes(b"broken" * 10_000)
    done = run(data, "ledger", "restore", str(copy))
    assert done.returncode == 0, done.stderr
    assert "nobody knows which" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_restores_belongs_to_the_service(data: Path) -> None:
    """To the folder's owner, or to that of the ledger which was there: a service of its own user
    could not open it otherwise."""
    copy, folder = data.parent / "copy.sqlite", data.parent / "new"
    assert run(data, "ledger", "backup", str(copy)).returncode == 0
    folder.mkdir(0o700)
    os.chown(folder, 12_345, 12_346)
    assert run(folder, "ledger", "restore", str(copy)).returncode == 0
    assert run(folder, "ledger", "restore", str(copy)).returncode == 0
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in folder.glob("ledger.sqlite*")}
    assert owners == {(12_345, 12_346)}


def test_what_is_no_ledger_is_not_restored(data: Path) -> None:
    """Text, an empty file, another database, a newer ledger, a torn one, a pipe, the ledger itself:
    each is refused in words, and the ledger stays as it was."""
    folder, was = data.parent, rows(data / "ledger.sqlite")
    assert run(data, "ledger", "backup", str(folder / "good")).returncode == 0
    (folder / "text").write_text("no database at all" * 100)
    (folder / "empty").touch()
    with closing(sqlite3.connect(folder / "other")) as database:
        database.execute("CREATE TABLE pins (cid)")
        database.execute("PRAGMA user_version = 3")
    shutil.copy(folder / "good", folder / "newer")
    with closing(sqlite3.connect(folder / "newer")) as database:
        database.execute("PRAGMA user_version = 1000")
    whole = bytearray((folder / "good").read_bytes())
    (folder / "torn").write_bytes(whole[: len(whole) // 2])
    whole[4096 * 3 : 4096 * 6] = os.urandom(4096 * 3)
    (folder / "damaged").write_bytes(whole)
    os.mkfifo(folder / "pipe")
    for name, reason in {
        "text": "file is not a database",
        "empty": "no ledger",
        "other": "no ledger",
        "newer": "newer version",
        "torn": "",
        "damaged": "",
        "pipe": "no regular file",
        "data/ledger.sqlite": "the ledger itself",
    }.items():
        done = run(data, "ledger", "restore", str(folder / name))
        assert done.returncode == 1, name
        assert reason in done.stderr, (name, done.stderr)
        assert "Traceback" not in done.stderr
        assert rows(data / "ledger.sqlite") == was
    assert not list(data.glob("*.part*"))
    assert not list(data.glob("*.before-*"))


def test_a_check_says_what_is_wrong(data: Path) -> None:
    """Status 1, and each finding with how often and where; as JSON one object."""
    sound = run(data, "ledger", "check")
    assert (sound.returncode, sound.stdout.splitlines()[-1]) == (0, "Nothing is wrong.")
    change(data, "DELETE FROM pins WHERE content = 3")
    change(data, "DELETE FROM contents WHERE id IN (5, 6)")
    change(data, "UPDATE contents SET state = 'unpinning' WHERE id = 9")
    before = (data / "ledger.sqlite").read_bytes()
    done = run(data, "ledger", "check", "--json")
    assert done.returncode == 1
    found = {each["finding"]: each for each in json.loads(done.stdout)["findings"]}
    assert found["pins without their content"]["count"] == 2
    assert found["contents that should be pinned, and that nobody holds"]["sample"] == [
        str(content(2)[0])
    ]
    assert found["contents that are being unpinned, and that somebody holds"]["count"] == 1
    assert run(data, "ledger", "check").stdout.splitlines()[-1] == "Something is wrong."
    assert (data / "ledger.sqlite").read_bytes() == before


def test_a_count_of_pins_that_is_wrong_is_found_and_put_right(data: Path) -> None:
    """Where an earlier version, which counted none, wrote beside a newer one: a limit of pins would
    refuse too early, or never. Whose count it is, and with which command it is mended, is said."""
    change(data, "UPDATE requestors SET pins = pins - 7")
    was = rows(data / "ledger.sqlite")
    done = run(data, "ledger", "check", "--json")
    (found,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, found["count"], found["sample"]) == (1, 1, ["operator"])
    assert found["remedy"] == "content-gateway ledger recount"
    assert "`content-gateway ledger recount` puts it right" in run(data, "ledger", "check").stdout
    mended = run(data, "ledger", "recount", "--json")
    assert json.loads(mended.stdout) == {"ledger": str(data / "ledger.sqlite"), "corrected": 1}
    assert run(data, "ledger", "check").returncode == 0
    now = rows(data / "ledger.sqlite")
    assert [pins for *_, pins in now.pop("requestors")] == [30]
    assert was.pop("requestors")
    assert now == was
    assert json.loads(run(data, "ledger", "recount", "--json").stdout)["corrected"] == 0


def test_what_contradicts_itself_is_backed_up_and_restored(data: Path) -> None:
    """A ledger in which a fact is wrong is worth more than none: it is copied whole, and told."""
    change(data, "UPDATE contents SET state = 'unpinning' WHERE id = 9")
    copy = data.parent / "copy.sqlite"
    for command in ("backup", "restore"):
        done = run(data, "ledger", command, str(copy))
        assert done.returncode == 0, done.stderr
        assert "Something is wrong in it. `ledger check` says: 1 contents" in done.stderr
    assert rows(copy) == rows(data / "ledger.sqlite")


def test_a_broken_ledger_is_not_backed_up(data: Path) -> None:
    """A copy that is as broken as the ledger helps nobody: refused, and nothing is written."""
    whole = bytearray((data / "ledger.sqlite").read_bytes())
    whole[4096 * 3 : 4096 * 6] = os.urandom(4096 * 3)
    (data / "ledger.sqlite").write_bytes(whole)
    done = run(data, "ledger", "backup", str(data.parent / "copy.sqlite"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not list(data.parent.glob("copy*"))
    assert run(data, "ledger", "check").returncode == 1
