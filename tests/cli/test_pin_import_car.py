"""`pin import FILE.car`: blocks are verified, whole DAGs are pinned, what is wrong is not."""

import asyncio
import json
import os
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from random import Random

import cbor2
import pytest

from content_gateway.codecs.multiformats import framed
from content_gateway.ipld import car
from content_gateway.model.cid import RAW, Cid
from tests.cases import case
from tests.cli.command import COMMAND, environment_of, run
from tests.cli.test_pin_import import kept
from tests.ipld.dags import block, chain, file, in_order, pb, raw
from tests.process import running
from tests.waiting import eventually, until

SITE = file(60, 5_000)


def car_of(roots: Iterable[Cid], blocks: Iterable[tuple[Cid, bytes]]) -> bytes:
    links = [cbor2.CBORTag(42, b"\0" + bytes(root)) for root in roots]
    header = framed(cbor2.dumps({"roots": links, "version": 1}, canonical=True))
    return header + b"".join(car.section(cid, data) for cid, data in blocks)


def written(folder: Path, data: bytes, name: str = "site.car") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def stat(folder: Path) -> dict[str, int]:
    done = run(folder, "blocks", "stat", "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {"blocks": 0, "pins": 0}


def is_untouched(folder: Path) -> bool:
    found = stat(folder)
    return not kept(folder) and not found["pins"] and not found["blocks"]


def test_a_car_is_pinned_whole(tmp_path: Path) -> None:
    """Without any network all of its blocks are here, and the pin is pinned; a repeat changes
    nothing; what is exported again has the same blocks."""
    path, data = written(tmp_path, car_of([SITE[0]], in_order(SITE))), tmp_path / "data"
    done = run(data, "pin", "import", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 added, 0 already there, 0 invalid\n"
    assert (stat(data)["blocks"], stat(data)["pins"]) == (len(SITE[1]), 1)
    assert run(data, "reconcile", "now").returncode == 0
    status = json.loads(run(data, "pin", "status", str(SITE[0]), "--json").stdout)
    assert status["status"] == "pinned"
    again = run(data, "pin", "import", path, "--json")
    assert json.loads(again.stdout)["there"] == 1
    out = tmp_path / "again.car"
    assert run(data, "pin", "export", "--car", str(SITE[0]), str(out)).returncode == 0
    assert out.read_bytes() == Path(path).read_bytes()


def test_a_car_with_a_wrong_block_is_refused(tmp_path: Path) -> None:
    """One bit anywhere in a block: it is named, and nothing is pinned or kept. So with half a CAR,
    text, nothing, and a CAR of version 2 that is cut."""
    whole = car_of([SITE[0]], in_order(SITE))
    wrong = bytearray(whole)
    wrong[len(whole) - 2_000] ^= 1
    hurt = [cid for cid, data in in_order(SITE) if data not in bytes(wrong)]
    assert len(hurt) == 1
    for number, (name, data, words) in enumerate(
        [
            ("bit", bytes(wrong), f"the block {hurt[0]} has other bytes than its hash"),
            ("half", whole[: len(whole) // 2], "cut short"),
            ("text", b"no CAR at all\n", "Nothing of the CAR was kept"),
            ("empty", b"", "cut short"),
            ("v2 half", version_2(whole)[:-4_000], "cut short"),
            ("v2 head", version_2(whole)[:30], "cut short"),
            ("v2 odd", version_2(whole, offset=3), "makes no sense"),
        ]
    ):
        with case(name):
            data_dir = tmp_path / str(number)
            done = run(data_dir, "pin", "import", written(tmp_path, data))
            assert done.returncode == 1
            assert words in done.stderr
            assert "Traceback" not in done.stderr
            assert is_untouched(data_dir)


def version_2(inside: bytes, *, offset: int = 51) -> bytes:
    pragma = bytes.fromhex("0aa16776657273696f6e02")
    return pragma + bytes(16) + struct.pack("<QQQ", offset, len(inside), 0) + inside


async def test_an_incomplete_dag_is_not_pinned(tmp_path: Path) -> None:
    """The block that lacks is named; the other root is pinned; what was kept of the DAG goes with
    the next service."""
    blocks = dict(in_order(SITE))
    missing = [cid for cid in blocks if cid != SITE[0]][30]
    del blocks[missing]
    other = raw(b"another root")
    data = car_of([SITE[0], other[0]], [*blocks.items(), *other[1].items()])
    command = ("pin", "import", written(tmp_path, data), "--json")
    done = await asyncio.to_thread(run, tmp_path / "data", *command)
    assert done.returncode == 1
    counts = json.loads(done.stdout)
    assert (counts["added"], counts["invalid"]) == (1, 1)
    assert f"The block {missing} is part of it, and is not there." in done.stderr
    assert kept(tmp_path / "data") == {str(other[0])}

    async def is_gone() -> bool:
        found = await asyncio.to_thread(stat, tmp_path / "data")
        return (found["blocks"], found["pins"], found["incomplete"]) == (1, 1, 0)

    async with running("dev", tmp_path / "data"):
        await eventually(is_gone)


def test_blocks_may_stand_in_any_order(tmp_path: Path) -> None:
    """Children before their parents, 30 levels deep; in a random order, with more blocks set aside
    than memory has room for; blocks of nobody; a CAR of version 2."""
    deep, wide = chain(30), file(200, 100_000)
    shuffled = [*wide[1].items(), *raw(b"of nobody")[1].items()]
    Random(1).shuffle(shuffled)
    for number, (dag, data) in enumerate(
        [
            (deep, car_of([deep[0]], reversed(list(in_order(deep))))),
            (wide, car_of([wide[0]], shuffled)),
            (SITE, version_2(car_of([SITE[0]], in_order(SITE))) + b"an index"),
        ]
    ):
        with case(number):
            folder = tmp_path / str(number)
            done = run(folder, "pin", "import", written(tmp_path, data))
            assert done.returncode == 0, done.stderr
            assert stat(folder)["blocks"] == len(dag[1])
            assert run(folder, "blocks", "verify").returncode == 0


def test_the_roots_can_be_chosen(tmp_path: Path) -> None:
    """`--root` instead of those in the header, also where it has none; no root at all is told."""
    parts = [raw(b"a"), raw(b"b")]
    blocks = [each for _, part in parts for each in part.items()]
    path = written(tmp_path, car_of([], blocks))
    done = run(tmp_path / "a", "pin", "import", path)
    assert "names no root: say --root CID" in done.stderr
    assert is_untouched(tmp_path / "a")
    done = run(tmp_path / "a", "pin", "import", path, "--root", str(parts[1][0]))
    assert done.returncode == 0, done.stderr
    assert kept(tmp_path / "a") == {str(parts[1][0])}
    done = run(tmp_path / "a", "pin", "import", path, "--root", str(raw(b"c")[0]))
    assert (done.returncode, "is not there" in done.stderr) == (1, True)


def test_a_car_comes_over_a_pipe(tmp_path: Path) -> None:
    """`-`, with `--car`, since it has no name."""
    done = subprocess.run(
        [*COMMAND, "pin", "import", "-", "--car"],
        input=car_of([SITE[0]], in_order(SITE)),
        env=environment_of(tmp_path / "data", {}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"1 added, 0 already there, 0 invalid\n", done.stderr
    names = [path.name for path in (tmp_path / "data").iterdir()]
    assert all(name.startswith(("ledger.sqlite", "blocks.sqlite")) for name in names)


async def test_a_service_beside_it_finds_the_content_there(tmp_path: Path) -> None:
    """It has no network, and serves what was brought in: pinned, without being started again."""
    path, data = written(tmp_path, car_of([SITE[0]], in_order(SITE))), tmp_path / "data"
    async with running("dev", data):
        done = await asyncio.to_thread(run, data, "pin", "import", path)
        assert done.returncode == 0, done.stderr
        waited = await asyncio.to_thread(
            run, data, "pin", "add", str(SITE[0]), "--wait", "--timeout", "60"
        )
        assert waited.returncode == 0, waited.stderr


@pytest.mark.parametrize(
    ("backend", "words"),
    [("kubo", "ipfs dag import"), ("ipfs-cluster", "ipfs-cluster-ctl add --format car")],
)
def test_another_backend_is_told_what_to_do(tmp_path: Path, backend: str, words: str) -> None:
    """Its blocks are not kept here: the command that brings a CAR there is named, and no ledger is
    made."""
    path = written(tmp_path, car_of([SITE[0]], in_order(SITE)))
    done = run(tmp_path / "data", "pin", "import", path, PINS__BACKEND=backend)
    assert done.returncode == 1
    assert words in done.stderr
    assert not (tmp_path / "data").exists()


async def test_a_killed_import_is_run_again(tmp_path: Path) -> None:
    """Killed while blocks are stored: nothing is called pinned; the second run pins it whole."""
    big = file(300, 100_000)
    path, data = written(tmp_path, car_of([big[0]], in_order(big))), tmp_path / "data"
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("pin", "import", path),
        env=environment_of(data, {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wal = data / "blocks.sqlite-wal"
    await until(lambda: wal.exists() and wal.stat().st_size > 5_000_000, seconds=60)
    child.kill()
    assert await child.wait() == -9
    assert kept(data) == set()
    done = await asyncio.to_thread(run, data, "pin", "import", path)
    assert done.returncode == 0, done.stderr
    found = await asyncio.to_thread(stat, data)
    assert (found["blocks"], found["pins"]) == (len(big[1]), 1)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A CAR of 120 MB takes no more than one of 20 MB and a little."""

    def most_memory(leaves: int, name: str) -> int:
        path, cids = tmp_path / f"{name}.car", [block(RAW, leaf(at)) for at in range(leaves)]
        root, nodes = pb(*((cid, {}) for cid in cids))
        with path.open("wb") as stream:
            stream.write(car.header(root))
            stream.write(car.section(root, nodes[root]))
            for at, cid in enumerate(cids):
                stream.write(car.section(cid, leaf(at)))
        child = subprocess.Popen(
            [*COMMAND, "pin", "import", str(path)],
            env=environment_of(tmp_path / name, {}),
            stdout=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return used.ru_maxrss // 1024

    assert most_memory(120, "large") < most_memory(20, "small") + 40


def leaf(number: int) -> bytes:
    """A megabyte."""
    return Random(number).randbytes(1_000_000)
