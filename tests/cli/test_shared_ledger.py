"""Commands on a ledger in PostgreSQL: they work as on a file, and never show its password."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.command import cids, run
from tests.process import running
from tests.world import postgres
from tests.world.peers import free_port


@pytest.fixture
def settings() -> dict[str, str]:
    return {
        "DATABASE__URL": postgres.shared("15").new_ledger().replace("gateway@", "gateway:hush@"),
        "PINS__BACKEND": "ipfs-cluster",
        "IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
    }


def test_pins_and_keys_are_kept_there(tmp_path: Path, settings: dict[str, str]) -> None:
    """Added, imported, listed, exported, removed; the folder of the command may be any."""
    key = run(tmp_path / "a", "keys", "create", "--name", "team", **settings)
    assert key.returncode == 0
    assert "hush" not in key.stderr
    given = "\n".join(cids(30))
    assert run(tmp_path / "b", "pin", "import", "-", given=given, **settings).returncode == 0
    listed = run(tmp_path / "c", "pin", "ls", "--all", "--json", **settings)
    assert len(listed.stdout.splitlines()) == 30
    exported = run(tmp_path / "c", "pin", "export", **settings)
    assert len(exported.stdout.splitlines()) == 30
    everybody = run(tmp_path / "c", "pin", "ls", "--all-keys", "--json", "--all", **settings)
    assert len(everybody.stdout.splitlines()) == 30
    removed = run(tmp_path / "c", "pin", "rm", "--all", "--yes", **settings)
    assert "30 pins removed" in removed.stdout
    assert "team" in run(tmp_path / "c", "keys", "list", **settings).stdout
    assert len(run(tmp_path / "c", "audit", "ls", **settings).stdout.splitlines()) > 60


def test_it_is_checked_and_upgraded(tmp_path: Path, settings: dict[str, str]) -> None:
    assert run(tmp_path, "pin", "add", cids(1)[0], **settings).returncode == 0
    checked = run(tmp_path, "ledger", "check", **settings)
    assert checked.returncode == 0
    assert "1 pins of 1 contents" in checked.stdout
    assert "Nothing is wrong." in checked.stdout
    assert "nothing to do" in run(tmp_path, "ledger", "upgrade", **settings).stdout
    server, name = postgres.shared("15"), settings["DATABASE__URL"].rpartition("/")[2]
    server.run("DELETE FROM pins", name)
    broken = run(tmp_path, "ledger", "check", **settings)
    assert broken.returncode == 1
    assert "that nobody holds" in broken.stdout
    assert "a wrong count of their pins" in broken.stdout
    assert "right now: 1" in run(tmp_path, "ledger", "recount", **settings).stdout
    assert "wrong count" not in run(tmp_path, "ledger", "check", **settings).stdout


def test_a_backup_is_the_databases_business(tmp_path: Path, settings: dict[str, str]) -> None:
    refused = run(tmp_path, "ledger", "backup", str(tmp_path / "x"), **settings)
    assert refused.returncode == 1
    assert "pg_dump" in refused.stderr


def test_blocks_of_one_machine_are_refused(tmp_path: Path, settings: dict[str, str]) -> None:
    """In words that say what to use instead."""
    refused = run(tmp_path, "serve", **settings | {"PINS__BACKEND": "embedded"})
    assert refused.returncode != 0
    assert 'say "ipfs-cluster" or "kubo"' in refused.stderr


def test_a_database_that_is_away_is_named(tmp_path: Path, settings: dict[str, str]) -> None:
    url = f"postgresql://gateway:hush@127.0.0.1:{free_port()}/x"
    refused = run(tmp_path, "keys", "list", **settings | {"DATABASE__URL": url})
    assert refused.returncode != 0
    assert "onnection refused" in refused.stderr
    assert "hush" not in refused.stderr


OPEN = {"KEYS__MODE": "open", "PORT": "0"}
KUBO = {"PINS__BACKEND": "kubo", "KUBO__URL": "http://127.0.0.1:9"}


def as_variables(settings: dict[str, str]) -> dict[str, str]:
    return {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}


async def test_one_ledger_has_one_kind_of_backend(tmp_path: Path, settings: dict[str, str]) -> None:
    """A machine with another kind is refused beside a service of the first kind and after it, in
    words that say how the contents are moved; once that was said, it is the first kind that is."""
    there = as_variables(settings | OPEN)

    def asked(*arguments: str, **others: str) -> tuple[int, str]:
        done = run(tmp_path / "b", *arguments, **settings | OPEN | others)
        return done.returncode, done.stdout + done.stderr

    assert "the first service will say" in asked("ledger", "backend")[1]
    async with running("serve", tmp_path / "a", there) as service:
        status, said = await asyncio.to_thread(asked, "serve", **KUBO)
        assert status == 2
        assert 'the contents of this ledger are at "ipfs-cluster"' in said
        status, moving = await asyncio.to_thread(asked, "ledger", "backend", "kubo")
        assert status == 1
        assert "stop all services first" in moving
        assert await service.stop() == 0
    assert said.partition("wrong setting")[2] in asked("serve", **KUBO)[1]
    waiting = ("pin", "add", cids(1)[0], "--wait", "--timeout", "1")
    assert 'are at "ipfs-cluster"' in asked(*waiting, **KUBO)[1]
    assert "content-gateway ledger backend kubo" in said
    assert asked("ledger", "backend", "kubo")[0] == 0
    assert '"backend":"kubo"' in asked("ledger", "backend", "--json")[1]
    status, said = asked("serve")
    assert status == 2
    assert 'are at "kubo"' in said
    async with running("serve", tmp_path / "a", there | as_variables(KUBO)):
        pass


def test_a_ledger_in_a_file_needs_no_word(tmp_path: Path) -> None:
    """Its lock does that."""
    assert run(tmp_path, "pin", "add", cids(1)[0]).returncode == 0
    refused = run(tmp_path, "ledger", "backend", "kubo")
    assert refused.returncode == 1
    assert "start it with another pins.backend" in refused.stderr
