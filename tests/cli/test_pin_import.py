"""`pin import` as a process: nothing is lost, whatever is on the lines and however it ends."""

import asyncio
import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.cli.command import COMMAND, cids, content, environment_of, run
from tests.waiting import until


def kept(folder: Path) -> set[str]:
    path = folder / "ledger.sqlite"
    if not path.exists():
        return set()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
        try:
            found = ledger.execute("SELECT cid FROM pins JOIN contents ON id = content")
            return {cid for (cid,) in found}
        except sqlite3.OperationalError:
            return set()  # its tables are being made


async def begin_import(folder: Path, lines: str) -> asyncio.subprocess.Process:
    """An import that waits for more than *lines*."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("pin", "import", "-"),
        env=environment_of(folder, {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    child.stdin.write(lines.encode())
    await child.stdin.drain()
    return child


async def test_a_killed_import_goes_on_where_it_was(tmp_path: Path) -> None:
    """Kill -9 in the middle of 5,000 lines: the second run adds exactly what the first had not."""
    everything = cids(5_000)
    child = await begin_import(tmp_path, "\n".join(everything[:3_000]))
    await until(lambda: len(kept(tmp_path)) >= 2_000, seconds=60)
    child.kill()
    await child.wait()
    before = kept(tmp_path)
    assert len(before) < len(everything)
    path = tmp_path / "cids.txt"
    path.write_text("\n".join(everything))
    done = await asyncio.to_thread(run, tmp_path, "pin", "import", str(path), "--json")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["lines"], counts["invalid"]) == (5_000, 0)
    assert counts["there"] == len(before)
    assert counts["added"] == 5_000 - len(before)
    assert kept(tmp_path) == set(everything)


def test_lines_that_cannot_be_pinned_are_named(tmp_path: Path) -> None:
    """Each with its number and the reason, the first twenty of them; all the others are pinned."""
    lines = ["\ufeff# from elsewhere", "", *cids(2), "bafynonsense", f"{content(2)[0]}\tMy site\r"]
    lines += ["Qm"] * 20 + [f"{content(3)[0]} {'n' * 256}", "b" * 5_000, f"  {content(4)[0]}  "]
    run(tmp_path, "keys", "create", "--name", "team")
    done = run(tmp_path, "pin", "import", "-", given="\n".join(lines))
    assert done.returncode == 1
    assert done.stdout == "4 added, 0 already there, 23 invalid\n"
    complaints = [line for line in done.stderr.splitlines() if not line.endswith("/s")]
    assert [line.split(":")[0] for line in complaints[:20]] == [
        f"line {number}" for number in (5, *range(7, 26))
    ]
    assert complaints[20:] == ["and 3 more"]
    assert len(kept(tmp_path)) == 4
    named = json.loads(run(tmp_path, "pin", "status", str(content(2)[0]), "--json").stdout)
    assert named["name"] == "My site"
    again = run(tmp_path, "pin", "import", "-", given="\n".join(lines))
    assert again.stdout == "0 added, 4 already there, 23 invalid\n"


def test_two_imports_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two processes write the same 2,000 pins into one ledger: each pin is added by one."""
    path = tmp_path / "cids.txt"
    path.write_text("\n".join(cids(2_000)))
    children = [
        subprocess.Popen(
            [*COMMAND, "pin", "import", str(path), "--json"],
            env=environment_of(tmp_path, {}),
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    counts = [json.loads(child.communicate(timeout=90)[0]) for child in children]
    assert sum(count["added"] for count in counts) == 2_000
    assert sum(count["there"] for count in counts) == 2_000
    assert [child.returncode for child in children] == [0, 0]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A folder, or no file at all, is told before anything is pinned."""
    for path in (tmp_path, tmp_path / "nothere"):
        done = run(tmp_path / "data", "pin", "import", str(path))
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


async def test_ctrl_c_ends_an_import_that_waits_for_its_input(tmp_path: Path) -> None:
    """Interrupted while nothing more arrives: it ends at once, keeps what came, and says how to
    go on. (What was kept in that very moment may not be counted yet.)"""
    child = await begin_import(tmp_path, "\n".join([*cids(3), "half of a li"]))
    assert child.stdout is not None
    assert child.stderr is not None
    await until(lambda: len(kept(tmp_path)) == 3, seconds=60)
    child.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        said = (await child.stdout.read()).decode(), (await child.stderr.read()).decode()
        assert await child.wait() == 130
    assert said[0].endswith(" added, 0 already there, 0 invalid\n")
    assert len(kept(tmp_path)) == 3
    assert "Run it again" in said[1]
    assert "Traceback" not in said[1]
    assert "Fatal" not in said[1]
