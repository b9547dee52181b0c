"""`content-gateway blocks`: beside the service or alone, it names corrupt blocks."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from tests.backends.test_blockstore import put
from tests.cli.command import run
from tests.ipld.dags import Dag, file

DAG = file(30, 1000)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def fill(dag: Dag) -> None:
        async with Blockstore(tmp_path / "blocks.sqlite") as blocks:
            await put(blocks, dag)

    asyncio.run(fill(DAG))
    return tmp_path


def damage(folder: Path, number: int) -> None:
    with sqlite3.connect(folder / "blocks.sqlite") as database:
        database.execute("UPDATE blocks SET data = zeroblob(length(data)) WHERE id = ?", (number,))


def test_a_sound_store_passes(data: Path) -> None:
    done = run(data, "blocks", "verify")
    assert done.returncode == 0, done.stderr
    size = sum(map(len, DAG[1].values())) / 1e6
    assert done.stdout == f"{len(DAG[1])} blocks, {size:.1f} MB: every one is what it should be.\n"


def test_what_is_kept_and_blocked_is_listed(data: Path) -> None:
    """With the pins it is part of, and status 1; nothing is taken away."""
    assert run(data, "blocks", "denied").stdout == "No list of blocked content is set.\n"
    listed = data / "list.deny"
    (data / "gateway.toml").write_text(
        f'data_dir = "{data}"\n[denylist]\ncontent_file = "{listed}"\n'
    )
    config = ("--config", str(data / "gateway.toml"))
    listed.write_text(f"/ipfs/{list(DAG[1])[5]}\n")
    done = run(data, "blocks", "denied", *config)
    assert done.returncode == 1, done.stderr
    first, last = done.stdout.splitlines()
    assert first == f"blocked {list(DAG[1])[5]}, part of {DAG[0]}"
    assert last.startswith("1 blocks are kept and blocked")
    listed.write_text(f"/ipfs/{file(1, 1)[0]}\n")
    assert run(data, "blocks", "denied", *config).returncode == 0


def test_corruption_is_reported_with_its_pins(data: Path) -> None:
    """Status 1 once; the pin is incomplete then, until the service has brought it in again."""
    damage(data, 3)
    damage(data, 7)
    done = run(data, "blocks", "verify")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("corrupt block baf") for line in lines[:2])
    assert all(line.endswith(f"part of {DAG[0]}") for line in lines[:2])
    assert "2 were corrupt and were dropped" in lines[2]
    assert "resync" in lines[2]
    assert run(data, "blocks", "verify").returncode == 0
    stat = json.loads(run(data, "blocks", "stat", "--json").stdout)
    assert (stat["blocks"], stat["pins"], stat["incomplete"]) == (len(DAG[1]) - 2, 0, 1)


def test_the_stock_is_printed(data: Path) -> None:
    done = run(data, "blocks", "stat")
    assert done.returncode == 0, done.stderr
    assert f"blocks      {len(DAG[1])}\npins        1 complete, 0 not\n" in done.stdout


def test_without_a_store_there_is_nothing_to_check(tmp_path: Path) -> None:
    """And none is made."""
    for command in ("verify", "stat"):
        done = run(tmp_path, "blocks", command)
        assert done.returncode == 1
        assert "There is no block store at" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ("blocks", "stat"),
        ("blocks", "verify"),
        ("reconcile", "report"),
        ("pin", "ls"),
        ("pin", "status", str(DAG[0])),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_what_reads_takes_nothing_away(data: Path, command: tuple[str, ...]) -> None:
    """A pin that is being unpinned stays whole until a service runs: these commands are asked by
    people who want to know what is there."""
    with closing(sqlite3.connect(data / "blocks.sqlite")) as database:
        database.execute("UPDATE pins SET unpinning = 1")
        database.commit()
    for _ in range(2):
        run(data, *command)
    with closing(sqlite3.connect(data / "blocks.sqlite")) as database:
        counts = database.execute(
            "SELECT (SELECT count(*) FROM blocks), (SELECT count(*) FROM pins)"
        )
        assert counts.fetchone() == (len(DAG[1]), 1)
