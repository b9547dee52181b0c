"""Ledger and blocks on a file system of their own: one that is full, one that becomes read-only,
and one that something is mounted over.

Needs root and mounts; where there are none, `tests/sqlite/test_database.py` fills a database by
SQLite's own limit, and `test_taken_away.py` takes the folder away by other means."""

import asyncio
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import aiohttp
import pytest

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from tests.cli.command import content, run
from tests.fakes.origin import Origin
from tests.faults.test_hostile import encoded
from tests.process import running
from tests.service import running_service
from tests.waiting import eventually

MEGABYTES = 4


def mount(*arguments: str | Path) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def unmount(*arguments: str | Path) -> None:
    subprocess.run(["umount", *arguments], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
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
    kept = cids[-2:-1]
    refused = 0
    async with running_service(disk / "data") as service:
        assert (await service.pin(kept[0])).status == 200
        with filling.open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(4096))
            except OSError:
                pass
        for cid in cids[:-2]:
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


def test_a_ledger_that_cannot_be_written_is_checked_and_backed_up(
    disk: Path, tmp_path: Path
) -> None:
    """On a file system that is read-only by now, which is when a backup is wanted; commands that
    would write say why they cannot, and not that a setting is wrong."""
    data = disk / "data"
    assert run(data, "pin", "add", str(content(0)[0])).returncode == 0
    assert mount("-o", "remount,ro", disk)
    copy = tmp_path / "copy.sqlite"
    assert run(data, "ledger", "check").returncode == 0
    assert json.loads(run(data, "ledger", "backup", str(copy), "--json").stdout)["pins"] == 1
    for command in (("pin", "ls"), ("keys", "list"), ("pin", "add", str(content(1)[0]))):
        done = run(data, *command)
        assert done.returncode == 1
        assert done.stderr.endswith("cannot be used now: the file system is read-only.\n")
    assert run(tmp_path / "new", "ledger", "restore", str(copy)).returncode == 0


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Path]:
    """A file system with a journal, as most disks have; a test may unmount it, and mount it again
    from `disk.img` beside it."""
    folder, image = tmp_path / "ext4", tmp_path / "disk.img"
    folder.mkdir()
    image.touch()
    os.truncate(image, 32 * 2**20)
    made = shutil.which("mkfs.ext4") and subprocess.run(["mkfs.ext4", "-q", image], check=False)
    if os.getuid() or not made or made.returncode or not mount("-o", "loop", image, folder):
        pytest.skip("nothing can be mounted here")
    yield folder
    unmount("--lazy", folder)


async def is_let_go(image: Path) -> bool:
    """Whether no device has *image* any more; on one that has, it would still be read-only."""
    command = ["losetup", "--associated", str(image)]
    return not await asyncio.to_thread(subprocess.check_output, command)


async def answers(
    session: aiohttp.ClientSession, method: str, urls: Sequence[str]
) -> Counter[tuple[int, str]]:
    """The statuses of all *urls*, and the codes of the problems."""
    found: Counter[tuple[int, str]] = Counter()
    for url in urls:
        async with session.request(method, url) as answer:
            body = await answer.read()
            is_json = "json" in answer.content_type
            found[answer.status, json.loads(body).get("code", "") if is_json else ""] += 1
    return found


async def test_a_file_system_that_becomes_read_only_loses_no_pin(
    ext4: Path, tmp_path: Path, origin: Origin
) -> None:
    """As the kernel does that finds an error (`errors=remount-ro`), the log's file included: what
    would be recorded is 503 in words, the rest is answered; what was acknowledged is there after.

    Such a file system is not written to again before it was unmounted."""
    contents = [content(number) for number in range(60)]
    origin.blocks |= dict(contents)
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": encoded([origin.url]),
        "CONTENT_GATEWAY_EMBEDDED__SERVE": "true",
    }
    patience = aiohttp.ClientTimeout(total=60)
    async with (
        running("serve", ext4 / "data", settings) as service,
        aiohttp.ClientSession(headers={"x-api-key": "me"}, timeout=patience) as session,
    ):
        adds = [f"{service.url}/ipfs/pin/add/{cid}" for cid, _ in contents]
        blocks = [f"{service.url}/ipfs/{cid}?format=raw" for cid, _ in contents[:40]]

        async def are_served() -> bool:
            return await answers(session, "GET", blocks) == {(200, ""): 40}

        assert await answers(session, "POST", adds[:40]) == {(200, ""): 40}
        await eventually(are_served)
        assert mount("-o", "remount,abort", ext4)
        refused = await answers(session, "POST", adds[40:])
        assert refused == {(503, "storage-unavailable"): 20}
        assert await answers(session, "POST", adds[:40]) == {(200, ""): 40}
        assert await are_served()
        assert await answers(session, "GET", [f"{service.url}/version"]) == {(200, ""): 1}
        assert await service.stop() == 0
    unmount(ext4)
    await eventually(lambda: is_let_go(tmp_path / "disk.img"), what="the kernel lets the disk go")
    assert mount("-o", "loop", tmp_path / "disk.img", ext4)
    async with running_service(ext4 / "data", embedded__gateways=[origin.url]) as again:
        assert (await again.ask("GET", "/ipfs/pin/ls")).json["count"] == 40
        assert (await again.pin(str(contents[-1][0]))).json["message"] == "Pin added"


@pytest.mark.deep
async def test_blocks_that_do_not_fit_are_asked_for_until_they_do(
    disk: Path, origin: Origin
) -> None:
    """What finds no room is not called pinned; when there is room again it is brought in, and
    nothing that was acknowledged is lost."""
    blobs = [number.to_bytes(2, "big") * 100_000 for number in range(40)]  # 8 MB in all
    contents = {Cid(RAW, SHA2_256, sha256(data).digest()): data for data in blobs}
    origin.blocks |= contents
    kept: list[str] = []
    async with running_service(disk / "data", embedded__gateways=[origin.url]) as service:
        for cid in contents:
            answer = await service.pin(str(cid))
            if answer.status == 200:
                kept.append(str(cid))
            else:
                assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")

        async def pinned() -> int:
            answers = [await service.ask("GET", f"/ipfs/pin/status/{cid}") for cid in kept]
            assert {answer.status for answer in answers} == {200}
            return [answer.json["result"]["status"] for answer in answers].count("pinned")

        async def are_all() -> bool:
            return await pinned() == len(kept)

        assert await pinned() < len(kept)
        assert mount("-o", "remount,size=64m", disk)
        await eventually(are_all, seconds=90)  # a lease whose end was not recorded runs out first
        assert (await service.ask("GET", "/ipfs/pin/ls")).json["count"] == len(kept)


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
