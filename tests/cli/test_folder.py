"""The data folder: for its owner alone, and what is said where nothing can be written to it."""

import os
import resource
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, cids, environment_of, run
from tests.process import running

CID = cids(1)[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """A new folder is 0700 and each file in it 0600, whatever the umask."""
    before = os.umask(0)
    try:
        async with running("serve", tmp_path / "data") as service:
            assert mode(tmp_path / "data") == 0o700
            files = {path.name: mode(path) for path in (tmp_path / "data").iterdir()}
            assert await service.stop() == 0
    finally:
        os.umask(before)
    assert {"ledger.sqlite-wal", "blocks.sqlite-wal", "ledger.sqlite.service"} <= set(files)
    assert set(files.values()) == {0o600}, files


async def test_a_folder_of_an_earlier_version_is_tightened(tmp_path: Path) -> None:
    """With a line in the log."""
    data = tmp_path / "data"
    run(data, "pin", "add", CID)
    data.chmod(0o755)
    for path in data.iterdir():
        path.chmod(0o644)
    async with running("serve", data) as service:
        assert mode(data) == 0o700
        assert {mode(path) for path in data.iterdir() if "folding" not in path.name} == {0o600}
        assert "taken from other users" in service.said


def test_a_folder_that_holds_anything_else_is_left_alone(tmp_path: Path) -> None:
    """It may be a home, or /tmp; the files in it that are ours are nobody else's all the same."""
    tmp_path.chmod(0o755)
    (tmp_path / "letter.txt").write_text("mine")
    (tmp_path / "letter.txt").chmod(0o644)
    assert run(tmp_path, "pin", "add", CID).returncode == 0
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "letter.txt") == 0o644
    assert mode(tmp_path / "ledger.sqlite") == 0o600


@pytest.mark.parametrize("room", [0, 8 * 1024, 96 * 1024])
@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_start_on_a_full_disk_says_so(tmp_path: Path, command: str, room: int) -> None:
    """In words, without a traceback, and not with the status of wrong settings, after which a
    service manager would not try again; *room* bytes fit into a file."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    environment = environment_of(tmp_path / "data", {"PORT": "0"})
    done = subprocess.run(
        [*COMMAND, command],
        env=environment,
        preexec_fn=fill,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert any(word in done.stderr for word in ("full", "large", "I/O error")), done.stderr
