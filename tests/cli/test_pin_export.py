"""`pin export`: what it writes brings all pins back, or the content of one of them."""

import asyncio
import json
import stat
from pathlib import Path

from content_gateway.ipld.car import CarReader
from tests.cli.command import cids, content, run
from tests.fakes.origin import Origin
from tests.ipld.dags import file

ORIGIN = "/dns4/origin.example/tcp/4001/p2p/QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC"


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def without_times(text: str) -> list[dict[str, object]]:
    return [
        {name: value for name, value in pin.items() if name != "created"} for pin in lines(text)
    ]


def test_what_is_exported_is_imported_again(tmp_path: Path) -> None:
    """3,000 pins with names, metadata and origins, into another ledger: the same, and in the same
    order; over a pipe and over a file, which is for its owner only and replaced if asked for."""
    wanted = []
    for number, cid in enumerate(cids(3_000)):
        pin: dict[str, object] = {"cid": cid, "name": f"pin {number} ü\n{{"}
        if number % 3 == 0:
            pin |= {"meta": {"number": str(number)}, "origins": [ORIGIN]}
        wanted.append(pin)
    wanted.append({"cid": "QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC"})
    given = "\n".join(map(json.dumps, wanted))
    assert run(tmp_path / "a", "pin", "import", "-", given=given).returncode == 0
    said = run(tmp_path / "a", "pin", "export")
    assert said.returncode == 0, said.stderr
    assert without_times(said.stdout) == [pin | {"status": "queued"} for pin in wanted]
    out = tmp_path / "pins.jsonl"
    done = run(tmp_path / "a", "pin", "export", str(out))
    assert done.stdout == f"3,001 pins written to {out}\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text() == said.stdout
    assert run(tmp_path / "a", "pin", "export", str(out)).returncode == 1
    assert run(tmp_path / "a", "pin", "export", "--force", str(out)).returncode == 0
    assert [path.name for path in tmp_path.glob("pins*")] == ["pins.jsonl"]
    done = run(tmp_path / "b", "pin", "import", str(out), "--json")
    assert json.loads(done.stdout)["added"] == 3_001, done.stderr
    again = run(tmp_path / "b", "pin", "export", "-")
    assert without_times(again.stdout) == without_times(said.stdout)


def test_the_pins_of_one_key_are_exported(tmp_path: Path) -> None:
    """By its name; nobody else's are in it, and nothing is made where no ledger is."""
    done = run(tmp_path / "none", "pin", "export")
    assert done.returncode == 1
    assert "There is no ledger" in done.stderr
    assert not (tmp_path / "none").exists()
    team = run(tmp_path, "keys", "create", "--name", "team").stdout.strip()
    assert run(tmp_path, "pin", "add", cids(2)[0], "--key", team).returncode == 0
    assert run(tmp_path, "pin", "add", cids(2)[1]).returncode == 0
    for arguments in (("--key-name", "team"), ("--key", team)):
        done = run(tmp_path, "pin", "export", *arguments)
        assert [pin["cid"] for pin in lines(done.stdout)] == [cids(2)[0]]


async def test_the_content_of_a_pin_is_exported_as_a_car(tmp_path: Path, origin: Origin) -> None:
    """All of its blocks, its root in the header; a pin that is not complete leaves no file."""
    root, blocks = file(40, 1000)
    origin.blocks.update(blocks)
    data, out = tmp_path / "data", tmp_path / "site.car"
    settings = {"EMBEDDED__GATEWAYS": json.dumps([origin.url])}

    def export() -> None:
        assert run(data, "pin", "add", str(root), "--wait", **settings).returncode == 0
        assert run(data, "pin", "add", str(content(1)[0])).returncode == 0
        done = run(data, "pin", "export", "--car", str(root), str(out))
        assert done.returncode == 0, done.stderr
        incomplete = run(data, "pin", "export", "--car", str(content(1)[0]), f"{out}2")
        assert incomplete.returncode == 1
        assert "Not all of it is here" in incomplete.stderr
        strange = run(data, "pin", "export", "--car", str(content(2)[0]), f"{out}2")
        assert strange.stderr.endswith("No pin of this CID is held.\n")

    await asyncio.to_thread(export)
    assert [path.name for path in tmp_path.glob("site*")] == ["site.car"]
    reader = CarReader()
    sections = reader.feed(out.read_bytes())
    reader.finish()
    assert {multihash: bytes(each) for multihash, each in sections} == {
        cid.multihash: each for cid, each in blocks.items()
    }
