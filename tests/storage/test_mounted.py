"""A ledger on a file system of its own: one that is full, and one that something is mounted over.

Needs root and mounts; where there are none, `tests/storage/test_sqlite.py` fills a database by
SQLite's own limit, and `test_taken_away.py` takes the folder away by other means."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import content
from tests.service import running_service

MEGABYTES = 4


def mount(*arguments: str | Path) -> bool:
    """Whether it could be mounted."""
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def unmount(*arguments: str | Path) -> None:
    """Unmount; fails where that is not possible."""
    subprocess.run(["umount", *arguments], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() or not mount("-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", folder):
        pytest.skip("nothing can be mounted here")
    yield folder
    unmount("--lazy", folder)


async def test_a_full_file_system_loses_no_pin_and_passes(disk: Path) -> None:
    """503 in words while it is full; whatever was acknowledged is there, and it goes on when there
    is room again."""
    filling = disk / "filling"
    cids = [str(content(number)[0]) for number in range(400)]
    kept: list[str] = []
    refused = 0
    async with running_service(disk / "data") as service:
        with filling.open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(4096))
            except OSError:
                pass
        for cid in cids:
            answer = await service.pin(cid)
            if answer.status == 200:
                kept.append(cid)
                continue
            assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
            assert answer.headers["retry-after"]
            refused += 1
            if refused == 20:
                break
        assert refused
        assert (await service.ask("GET", "/version", key=None)).status == 200
        filling.unlink()
        assert (await service.pin(cids[-1])).status == 200
        for cid in kept:
            assert (await service.pin(cid)).json["message"].startswith("A pin already exists")
        assert (await service.ask("GET", "/ipfs/pin/ls")).json["count"] == len(kept) + 1


async def test_what_is_mounted_over_the_folder_is_no_ledger(disk: Path) -> None:
    """The ledger is where nobody finds it: nothing is acknowledged until that is gone again."""
    data = disk / "data"
    cids = [str(content(number)[0]) for number in range(3)]
    async with running_service(data) as service:
        assert (await service.pin(cids[0])).status == 200
        assert mount("-t", "tmpfs", "tmpfs", data)
        try:
            for cid in cids:
                answer = await service.pin(cid)
                assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
            assert not list(data.iterdir())
        finally:
            unmount(data)
        assert (await service.pin(cids[0])).json["message"].startswith("A pin already exists")
        assert (await service.pin(cids[1])).json["message"] == "Pin added"
