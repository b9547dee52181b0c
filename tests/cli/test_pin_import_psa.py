"""`pin import --from-psa`: all pins of another service come over, whatever that one is like."""

import asyncio
import json
import random
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from content_gateway.cli.import_psa import Cursor, CursorFile
from content_gateway.errors import GatewayError
from content_gateway.net.http_client import HttpClient
from content_gateway.pinning_services.client import MAX_PAGE_BYTES, PinningService
from content_gateway.pinning_services.listing import PinListing
from tests.cases import case
from tests.chance import SEED
from tests.cli.command import COMMAND, cids, content, environment_of, run
from tests.cli.test_pin_import import kept
from tests.fakes import pinning_service as fakes
from tests.process import running
from tests.waiting import until

START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = ("pinned", "queued", "pinning")


@pytest.fixture
async def other() -> AsyncIterator[fakes.PinningService]:
    async with fakes.running_pinning_service() as other:
        yield other


def moment(number: float) -> str:
    return (START + timedelta(seconds=number)).isoformat().replace("+00:00", "Z")


def fill(other: fakes.PinningService, count: int, *, apart: float = 1.0) -> None:
    """Pins of contents 0 to *count*, with names, made *apart* seconds after each other."""
    for number in range(count):
        other.add(number, str(content(number)[0]), moment(number * apart), name=f"pin {number}")


async def imported(
    folder: Path, other: fakes.PinningService, *arguments: str, token: str = fakes.TOKEN
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The finished command and its counts; the token is nowhere in what it said and wrote."""
    command = ("pin", "import", "--from-psa", f"{other.url}/api", "--json", *arguments)
    done = await asyncio.to_thread(run, folder, *command, PSA_TOKEN=token, LOG__LEVEL="debug")
    assert "Traceback" not in done.stderr
    assert fakes.TOKEN not in done.stdout + done.stderr
    for path in folder.rglob("*"):
        assert fakes.TOKEN.encode() not in (path.read_bytes() if path.is_file() else b""), path
    return done, json.loads(done.stdout) if done.stdout else {}


def names(folder: Path) -> dict[str, str | None]:
    """The names of all pins, by CID."""
    done = run(folder, "pin", "ls", "--all", "--json")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    return {pin["cid"]: pin.get("name") for pin in shown}


def number_of(folder: Path) -> int:
    """How many pins there are."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/ledger.sqlite?mode=ro", uri=True)) as ledger:
            return int(ledger.execute("SELECT count(*) FROM pins").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # it is being made


def told(folder: Path) -> dict[str, Any]:
    """Name and metadata of all pins in a ledger, by CID."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
        found = ledger.execute("SELECT cid, name, meta FROM pins JOIN contents ON id = content")
        return {cid: (name, json.loads(meta or "{}")) for cid, name, meta in found}


@pytest.mark.timeout(240)
async def test_an_import_that_is_killed_three_times_ends_with_all_pins(tmp_path: Path) -> None:
    """2,000 pins of another gateway, a real process, with names and metadata; the command is killed
    with -9 at three random moments, and run to its end then: each pin is there once, and its name
    and metadata are right."""
    chance = random.Random(SEED)
    source, target = tmp_path / "source", tmp_path / "target"
    wanted = {
        cid: (f"pin {number} ü", {"number": str(number), "batch": "a"})
        for number, cid in enumerate(cids(2_000))
    }
    lines = "\n".join(
        json.dumps({"cid": cid, "name": name, "meta": meta}) for cid, (name, meta) in wanted.items()
    )
    async with running("dev", source) as gateway:
        filled = await asyncio.to_thread(
            run, source, "pin", "import", "-", "--key", "old-key", given=lines
        )
        assert filled.returncode == 0, filled.stderr
        # It has no network: its pins fail one by one, and are wanted all the same.
        statuses = [part for status in (*ALL, "failed") for part in ("--status", status)]
        command = ("pin", "import", "--from-psa", f"{gateway.url}/psa", "--json", *statuses)
        environment = environment_of(target, {"PSA_TOKEN": "old-key"})
        kills = 0
        for _ in range(3):
            before = number_of(target)
            child = await asyncio.create_subprocess_exec(
                *COMMAND,
                *command,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            await until(lambda: number_of(target) > before, seconds=60)  # noqa: B023
            await asyncio.sleep(chance.uniform(0, 0.02))
            child.kill()
            kills += await child.wait() == -9
            assert before < number_of(target) < 2_000
        assert kills == 3
        before = number_of(target)
        done = await asyncio.to_thread(run, target, *command, PSA_TOKEN="old-key")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["added"] == 2_000 - before
        assert told(target) == wanted
        again = await asyncio.to_thread(run, target, *command, PSA_TOKEN="old-key")
        counts = json.loads(again.stdout)
        assert (counts["added"], counts["there"], counts["invalid"]) == (0, 2_000, 0)
    assert not list(target.glob("*.import-*"))


def test_what_a_killed_save_has_left_goes_with_the_rest(tmp_path: Path) -> None:
    """And how far the import of another account is stays."""
    ledger, how_far = tmp_path / "ledger.sqlite", Cursor(START, START, "", 0, 0, 0)
    mine, other = (CursorFile(ledger, "http://a", token, "ana", ALL) for token in ("t", "u"))
    mine.save(how_far)
    (saved,) = tmp_path.iterdir()
    saved.with_name(f"{saved.name}.4711").write_text("half of it")
    other.save(how_far)
    mine.remove()
    assert (mine.load(), other.load()) == (None, how_far)
    assert len(list(tmp_path.iterdir())) == 1


async def test_a_repeat_does_not_begin_from_the_start(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """What broke off after twenty pages goes on there, after what is new; but from the start, if
    the ledger has lost what was kept (another one is in its place)."""
    other.most = 10
    fill(other, 300)
    other.break_off(20)
    done, _ = await imported(tmp_path, other)
    assert done.returncode == 1
    assert "no Pinning Service API at this URL (404)" in done.stderr
    held = len(kept(tmp_path))
    assert 150 < held < 250
    other.add(1_000, str(content(1_000)[0]), moment(1_000))
    other.requests.clear()
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 0, done.stderr
    assert counts["added"] == 301 - held
    assert len(other.requests) < 20
    assert len(kept(tmp_path)) == 301

    other.break_off(20)
    await imported(tmp_path / "b", other)
    (tmp_path / "b" / "ledger.sqlite").unlink()
    for beside in (tmp_path / "b").glob("ledger.sqlite-*"):
        beside.unlink()
    _, counts = await imported(tmp_path / "b", other)
    assert counts["added"] == 301


async def test_another_account_of_the_service_begins_from_its_start(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """An import that broke off is nothing to go on from with another token: its pins are others."""
    other.most = 10
    fill(other, 60)
    other.break_off(5)
    await imported(tmp_path, other)
    assert list(tmp_path.glob("*.import-*"))
    theirs = other.accounts["another-token"] = []
    for number in range(100, 160):
        theirs.append({"pin": {"cid": str(content(number)[0])}, "created": moment(number)})
        theirs[-1]["requestid"] = f"theirs-{number}"
    done, counts = await imported(tmp_path, other, token="another-token")
    assert (done.returncode, counts["added"]) == (0, 60), done.stderr


async def test_what_lacks_is_told_also_by_a_repeat(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """Pins of one time that a page had no room for, and pins that are spoken of and not listed: an
    import that broke off behind them says so in the end, as one does that did not."""
    with case("left out"):
        other.most = 10
        fill(other, 120)
        for number in range(120, 145):
            other.add(number, str(content(number)[0]), moment(105))
        other.break_off(10)
        done, _ = await imported(tmp_path / "a", other)
        assert "no Pinning Service API" in done.stderr
        assert list((tmp_path / "a").glob("*.import-*"))
        done, counts = await imported(tmp_path / "a", other)
        assert (done.returncode, counts["added"] > 0) == (1, True), done.stderr
        assert "16 pins were made at one time" in done.stderr
    with case("claimed"):
        other.pins.clear()
        fill(other, 60)
        other.count = 61
        other.break_off(8)
        await imported(tmp_path / "b", other)
        assert list((tmp_path / "b").glob("*.import-*"))
        done, _ = await imported(tmp_path / "b", other)
        assert "speaks of 61 pins, and lists 60." in done.stderr
        assert done.returncode == 1
        other.count = 60
        other.break_off(8)
        await imported(tmp_path / "c", other)
        done, _ = await imported(tmp_path / "c", other)
        assert "speaks of" not in done.stderr


async def test_times_that_are_cut_off_hide_no_pin(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """Times shown to the millisecond and compared to the microsecond: what a page has no room for
    is told also where it lies within the millisecond that is shown."""
    other.shows_milliseconds, other.most = True, 10
    fill(other, 15)
    for number in range(20, 45):
        other.add(number, str(content(number)[0]), f"2026-01-01T00:00:20.000{number:03}Z")
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 1
    assert counts["added"] == 15 + 10
    assert "15 pins were made at one time" in done.stderr


async def test_pins_of_one_time_are_all_taken(tmp_path: Path, other: fakes.PinningService) -> None:
    """Pages that end between pins of one time; times that are shown to the second and compared
    more finely; pins that come twice on a page; offsets other than UTC."""
    other.most = 7
    for number in range(100):
        other.add(number, str(content(number)[0]), moment(number // 5 * 0.001))
    for number in range(100, 200):
        other.add(number, str(content(number)[0]), moment(-number).replace("Z", "+00:00"))
    with case("shared times"):
        done, counts = await imported(tmp_path / "a", other)
        assert done.returncode == 0, done.stderr
        assert counts["added"] == 200
    other.repeats = 3
    with case("repeated"):
        done, counts = await imported(tmp_path / "b", other)
        assert done.returncode == 0, done.stderr
        assert counts["added"] == 200
        assert counts["there"] < 2 * other.most


async def test_more_pins_of_one_time_than_a_page_holds_are_told(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """The API has no way to list them: the others come over, how many lack is said, status 1."""
    other.most = 10
    fill(other, 30)
    for number in range(30, 55):
        other.add(number, str(content(number)[0]), moment(15))
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 1
    assert counts["added"] == 30 + 25 - 16
    assert "16 pins were made at one time" in done.stderr


async def test_a_count_that_lies_changes_nothing(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """Too small, none, too large: all pins come over, and a claim of more is told, with the status
    of what is not whole."""
    other.most = 10
    fill(other, 35)
    for number, count in enumerate((0, 5, 10, -1, 10**9)):
        with case(count):
            other.count = count
            done, counts = await imported(tmp_path / str(number), other)
            assert counts["added"] == 35
            assert done.returncode == (1 if count > 35 else 0), done.stderr
            assert ("speaks of 1,000,000,000 pins, and lists 35" in done.stderr) == (count > 35)


async def test_a_source_that_loops_is_found_out(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """The same page for ever: what is on it is kept, and the end is told as a fault; but a list
    that fits on its page is complete."""
    other.ignores_before = True
    other.most = 10
    fill(other, 30)
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 1
    assert counts["added"] == 10
    assert "the same page again" in done.stderr
    assert len(other.requests) < 10
    other.most = 1000
    done, counts = await imported(tmp_path, other)
    assert (done.returncode, counts["added"]) == (0, 20)
    assert "sends its newest pins, whatever it is asked for" in done.stderr
    other.most = other.count = 10
    done, counts = await imported(tmp_path / "b", other)
    assert counts["added"] == 10
    assert "sends its newest pins, whatever it is asked for" in done.stderr


async def test_what_cannot_be_kept_is_told_and_the_rest_goes_on(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """No CID, a name or metadata beyond our limits, metadata that is no text, no Pin object, a pin
    without a time: each by its number; origins that we do not connect to are left out."""
    good = "/dns4/origin.example/tcp/4001/p2p/QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC"
    fill(other, 3)
    cid = str(content(50)[0])
    other.add(3, "bafynonsense", moment(3))
    other.add(4, cid, moment(4), name="n" * 256)
    other.add(5, cid, moment(5), meta={"a": "b" * 5_000})
    other.add(6, cid, moment(6), meta={"a": 1})
    other.add(7, cid, moment(7), name="a\0b")
    other.add(8, str(content(8)[0]), moment(8), origins=["nonsense", "/ip4/10.0.0.1/tcp/1", good])
    other.add(9, str(content(9)[0]), moment(9), name=None, meta=None, origins=[])
    other.add(10, fakes.TOKEN, moment(10))
    other.pins.append({"pin": ["no", "object"], "created": moment(11), "requestid": "odd"})
    other.pins.append({"pin": {"cid": str(content(12)[0])}, "created": moment(12)})
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 1
    assert (counts["added"], counts["invalid"]) == (6, 7)
    assert {each["pin"] for each in counts["refusals"]} == {2, 3, 6, 7, 8, 9, 10}
    assert "request-4: The name has more than 255 characters." in done.stderr
    shown = run(tmp_path, "pin", "status", str(content(8)[0]), "--json")
    assert shown.returncode == 0
    assert f'"{good}"' in _origins(tmp_path)
    assert "10.0.0.1" not in _origins(tmp_path)


def _origins(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
        return "".join(text for (text,) in ledger.execute("SELECT coalesce(origins, '') FROM pins"))


async def test_faults_that_pass_are_waited_out(tmp_path: Path, other: fakes.PinningService) -> None:
    """Too many requests, with and without a time; errors of the server; half an answer; a dropped
    connection: asked again, and all pins come over."""
    other.most = 10
    fill(other, 35)
    other.failures = [
        ("429", "1"),
        ("well", None),
        ("503", None),
        ("cut", None),
        ("dark", None),
        ("429", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("well", None),
    ]
    done, counts = await imported(tmp_path, other)
    assert done.returncode == 0, done.stderr
    assert counts["added"] == 35


async def test_what_does_not_pass_is_told_in_words(
    tmp_path: Path, other: fakes.PinningService
) -> None:
    """A refused token, another path, a redirect, hours to wait: each at once, and nothing of it is
    followed. The token is sent as it should be, and no compression is asked for."""
    fill(other, 3)
    with case("token"):
        done, _ = await imported(tmp_path, other, token=fakes.TOKEN + "x")
        assert done.stderr.endswith("The service refuses the access token (401).\n")
    with case("redirect"):
        other.misbehave("redirect")
        done, _ = await imported(tmp_path, other)
        assert "redirects elsewhere (302)" in done.stderr
        assert not any(request.startswith("/elsewhere") for request in other.requests)
        other.come_back()
    with case("hours"):
        other.failures = [("429", "7200")]
        done, _ = await imported(tmp_path, other)
        assert "asks to wait 7200 s" in done.stderr
    assert done.returncode == 1
    assert kept(tmp_path) == set()
    done, _ = await imported(tmp_path, other)
    assert done.returncode == 0
    assert other.authorizations == {f"Bearer {fakes.TOKEN}x", f"Bearer {fakes.TOKEN}"}
    assert other.codings == {"identity"}


async def test_what_does_not_end_is_given_up(
    other: fakes.PinningService, outbound: HttpClient
) -> None:
    """Errors for ever, half a page for ever, a page of 40 MB or of 200 MB once it is uncompressed:
    after some attempts, or at the cap, with a reason."""
    fill(other, 3)
    service = PinningService(outbound, f"{other.url}/api", fakes.TOKEN, first_pause=0.001)

    async def reason() -> str:
        with pytest.raises(GatewayError) as failed:
            async for _ in PinListing(service, ALL).pages():
                pass
        return failed.value.detail

    for mood, words in (
        ("500", "The service fails (500). It was asked 6 times."),
        ("html", "no list"),
    ):
        with case(mood):
            other.misbehave(mood)  # type: ignore[arg-type]
            assert words in await reason()
    other.misbehave("huge")
    assert str(MAX_PAGE_BYTES) in await reason()
    assert other.bytes_flooded < 2 * MAX_PAGE_BYTES
    other.come_back()
    other.cuts_json = True
    assert "half of one" in await reason()
    other.cuts_json, other.bomb = False, True
    assert str(MAX_PAGE_BYTES) in await reason()


def test_a_token_goes_nowhere_unasked(tmp_path: Path) -> None:
    """Not over http:// beyond this machine, not in a URL, not on the command line; without one
    nothing is asked. It may come from a file."""
    for url, words in {
        "http://pins.example/psa": "--plain-http",
        "https://user:word@pins.example": "no user, password",
        "https://pins.example/?token=a": "no user, password",
        "ftp://pins.example": "begins with https://",
        "https://[": "cannot be read",
    }.items():
        done = run(tmp_path, "pin", "import", "--from-psa", url, PSA_TOKEN=fakes.TOKEN)
        assert done.returncode == 1, url
        assert words in done.stderr, (url, done.stderr)
    done = run(tmp_path, "pin", "import", "--from-psa", "https://pins.example")
    assert (done.returncode, "CONTENT_GATEWAY_PSA_TOKEN" in done.stderr) == (2, True)
    done = run(tmp_path, "pin", "import", "--from-psa", "https://pins.example", PSA_TOKEN="a b")
    assert (done.returncode, "no blanks" in done.stderr) == (2, True)
    assert run(tmp_path, "pin", "import").returncode == 2
    assert list(tmp_path.iterdir()) == []


async def test_the_token_may_be_in_a_file(tmp_path: Path, other: fakes.PinningService) -> None:
    """`CONTENT_GATEWAY_PSA_TOKEN_FILE`, as secrets are mounted. Failed pins come if asked for."""
    fill(other, 3)
    other.pins[0]["status"] = "failed"
    (tmp_path / "token").write_text(fakes.TOKEN + "\n")
    command = ("pin", "import", "--from-psa", f"{other.url}/api/")
    settings = {"PSA_TOKEN_FILE": str(tmp_path / "token")}
    done = await asyncio.to_thread(run, tmp_path / "data", *command, **settings)
    assert done.stdout == "2 added, 0 already there, 0 invalid\n", done.stderr
    done = await asyncio.to_thread(
        run, tmp_path / "data", *command, "--status", "failed", **settings
    )
    assert done.stdout == "1 added, 0 already there, 0 invalid\n"
    assert names(tmp_path / "data")[str(content(0)[0])] == "pin 0"
