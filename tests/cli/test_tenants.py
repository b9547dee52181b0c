"""Who has keys, what they pinned, how one leaves, and what the audit log tells of it."""

import asyncio
import itertools
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.command import COMMAND, cids, content, environment_of, run
from tests.process import running

CID = str(content(1)[0])


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def create(folder: Path, name: str) -> str:
    """A new key."""
    done = run(folder, "keys", "create", "--name", name)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def pin(folder: Path, numbers: range, **settings: str) -> None:
    lines = "\n".join(str(content(number)[0]) for number in numbers)
    done = run(folder, "pin", "import", "-", given=lines, **settings)
    assert done.returncode == 0, done.stderr


def pins_of(folder: Path, *whose: str) -> list[dict[str, Any]]:
    done = run(folder, "pin", "ls", "--all", "--json", *whose)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def audit(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(folder, "audit", "ls", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


# Keys.


def test_keys_are_listed_with_what_they_hold(tmp_path: Path) -> None:
    """Under headings, or as one object a line; unknown sizes are told to be so."""
    pin(tmp_path, range(1))  # by the operator, who needs no key
    empty = run(tmp_path, "keys", "list")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert empty.stderr.endswith("No key was issued yet.\n")
    key = create(tmp_path, "team")
    create(tmp_path, "idle")
    pin(tmp_path, range(3), KEY=key)
    pin(tmp_path, range(2, 5))
    headings, *lines = run(tmp_path, "keys", "list").stdout.splitlines()
    assert re.split(r"  +", headings)[-3:] == ["PINS", "BYTES", "LAST USE"]
    assert [re.split(r"  +", line)[-3:-1] for line in lines] == [["3", "unknown"], ["0", "0 B"]]
    assert lines[1].split()[-1] == "-"
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.execute(
            "UPDATE contents SET state = 'pinned', size = 700 WHERE cid IN (?, ?)",
            [str(content(number)[0]) for number in (0, 2)],
        )
        connection.commit()
    team, idle = objects(run(tmp_path, "keys", "list", "--json").stdout)
    assert (team["pins"], team["bytes"], team["unsizedPins"]) == (3, 1400, 1)
    assert (idle["pins"], idle["bytes"], idle["lastUsed"]) == (0, 0, None)
    assert time.time() - _seconds(team["lastUsed"]) < 300
    assert "1.4 kB + 1 unknown" in run(tmp_path, "keys", "list").stdout
    sizes = {pin["cid"]: pin["bytes"] for pin in pins_of(tmp_path, "--key-name", "team")}
    assert sizes == {str(content(number)[0]): size for number, size in enumerate((700, None, 700))}
    assert run(tmp_path, "pin", "ls", "--key-name", "team").stdout.count(" 700 B  ") == 2


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def test_a_name_in_use_is_refused_in_words(tmp_path: Path) -> None:
    create(tmp_path, "team")
    done = run(tmp_path, "keys", "create", "--name", "team")
    assert (done.returncode, done.stdout) == (1, "")
    assert "The name team is in use" in done.stderr


def test_in_a_grace_both_secrets_see_the_same_pins(tmp_path: Path) -> None:
    """And `keys list` tells until when; a rotation without one ends the old secret."""
    old = create(tmp_path, "team")
    run(tmp_path, "pin", "add", CID, KEY=old)
    new = run(tmp_path, "keys", "rotate", "team", "--grace", "24h").stdout.strip()
    for key in (old, new):
        assert run(tmp_path, "pin", "status", CID, KEY=key).returncode == 0
    (listed,) = objects(run(tmp_path, "keys", "list", "--json").stdout)
    assert 86_000 < _seconds(listed["graceUntil"]) - time.time() <= 86_400
    run(tmp_path, "keys", "rotate", "team")
    assert run(tmp_path, "pin", "status", CID, KEY=new).returncode == 1
    assert run(tmp_path, "keys", "rotate", "team", "--grace", "soon").returncode == 2


def test_a_name_that_is_used_again_means_the_living_key(tmp_path: Path) -> None:
    """The pins of the one before are reached by its id."""
    first = create(tmp_path, "team")
    pin(tmp_path, range(2), KEY=first)
    run(tmp_path, "keys", "revoke", "team")
    second = create(tmp_path, "team")
    pin(tmp_path, range(2, 3), KEY=second)
    old, new = objects(run(tmp_path, "keys", "list", "--json").stdout)
    assert [old["state"], new["state"]] == ["revoked", "valid"]
    assert len(pins_of(tmp_path, "--key-name", "team")) == 1
    assert len(pins_of(tmp_path, "--key-id", old["id"])) == 2
    run(tmp_path, "keys", "revoke", "team")
    assert len(pins_of(tmp_path, "--key-name", "team")) == 1
    assert run(tmp_path, "pin", "ls", "--key-id", "key_none").stderr.endswith(
        "There is no key with the id key_none.\n"
    )
    both = run(tmp_path, "pin", "ls", "--key-id", old["id"], "--key-name", "team")
    assert both.returncode == 2


# Lists of all keys.


@pytest.mark.parametrize("limit", ["1", "2", "3", "7", "1000"])
def test_the_pins_of_all_keys_are_listed_in_pages(tmp_path: Path, limit: str) -> None:
    """Each once, with its key, the operator's own among them, however long the pages are."""
    for name, numbers in (("one", range(3)), ("two", range(1, 4))):
        pin(tmp_path, numbers, KEY=create(tmp_path, name))
    create(tmp_path, "empty")
    pin(tmp_path, range(2))
    found: list[dict[str, Any]] = []
    more: list[str] = []
    while True:
        done = run(tmp_path, "pin", "ls", "--all-keys", "--json", "--limit", limit, *more)
        assert done.returncode == 0, done.stderr
        page = objects(done.stdout)
        assert len(page) <= int(limit)
        found += page
        following = re.search(r"--cursor (\S+)", done.stderr)
        if following is None:
            break
        more = ["--cursor", following[1]]
    assert pins_of(tmp_path, "--all-keys") == found
    by_key = {name: [one["cid"] for one in found if one["key"] == name] for name in _NAMES}
    expected = cids(4)
    assert {name: sorted(held) for name, held in by_key.items()} == {
        "operator": sorted(expected[:2]),
        "one": sorted(expected[:3]),
        "two": sorted(expected[1:]),
    }
    assert len(found) == 8


def test_a_list_of_all_keys_goes_on_behind_a_page_that_is_full(tmp_path: Path) -> None:
    """A page has a mebibyte of text at most; what is behind it is listed once."""
    lines = "\n".join(f"{cid} {'n' * 255}" for cid in cids(4_000))
    assert run(tmp_path, "pin", "import", "-", given=lines).returncode == 0
    found = pins_of(tmp_path, "--all-keys")
    assert len({one["cid"] for one in found}) == len(found) == 4_000


_NAMES = ("operator", "one", "two")


def test_all_keys_and_one_key_do_not_go_together(tmp_path: Path) -> None:
    create(tmp_path, "team")
    assert run(tmp_path, "pin", "ls", "--all-keys", "--key-name", "team").returncode == 2
    run(tmp_path, "pin", "add", CID)
    headings, line = run(tmp_path, "pin", "ls", "--all-keys").stdout.splitlines()
    assert headings.split()[:2] == ["KEY", "STATUS"]
    assert line.split()[:2] == ["operator", "queued"]


# A tenant leaves.


def test_every_pin_of_a_key_goes_and_nobody_elses(tmp_path: Path) -> None:
    """It says how many; without a terminal it wants --yes, and does nothing without."""
    key = create(tmp_path, "team")
    pin(tmp_path, range(600), KEY=key)
    pin(tmp_path, range(5))
    arguments = ("pin", "rm", "--all", "--key-name", "team")
    refused = run(tmp_path, *arguments)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert len(pins_of(tmp_path, "--key-name", "team")) == 600
    done = run(tmp_path, *arguments, "--yes", "--json")
    assert json.loads(done.stdout) == {"removed": 600}
    assert pins_of(tmp_path, "--key-name", "team") == []
    assert len(pins_of(tmp_path)) == 5
    assert run(tmp_path, *arguments, "--yes").stdout == "0 pins removed\n"
    assert run(tmp_path, "pin", "rm", "--all", "--yes").stdout == "5 pins removed\n"
    assert run(tmp_path, "pin", "rm", CID, "--all", "--yes").returncode == 2
    assert run(tmp_path, "pin", "rm").returncode == 2


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 3), ("\n", 3)])
def test_on_a_terminal_it_is_asked_for(tmp_path: Path, answer: str, left: int) -> None:
    """Nothing is removed unless the answer is yes."""
    pin(tmp_path, range(3))
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "pin", "rm", "--all"],
        env=environment_of(tmp_path, {}),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, answer.encode())
    _, asked = child.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert "Remove 3 pins?" in asked
    assert child.returncode == (0 if left == 0 else 1)
    assert len(pins_of(tmp_path)) == left


def test_a_removal_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Revoked once, killed in the middle, run again: the key has no pins, and each removal is told
    once in the audit log."""
    key = create(tmp_path, "team")
    pin(tmp_path, range(4_000), KEY=key)
    arguments = ["keys", "revoke", "team", "--remove-pins", "--yes"]
    child = subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment_of(tmp_path, {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while _unpinned(tmp_path) < 300 and child.poll() is None:
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    left = 4_000 - _unpinned(tmp_path)
    assert left > 0, "it was over before it was killed"
    assert run(tmp_path, "pin", "ls", KEY=key).returncode == 1
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (0, f"{left:,} pins removed\n")
    assert pins_of(tmp_path, "--key-name", "team") == []
    told = audit(tmp_path, "--action", "unpin")
    assert len({entry["cid"] for entry in told}) == len(told) == 4_000
    assert {entry["by"] for entry in told} == {"operator"}


def test_an_interrupted_removal_names_the_key_by_its_id(tmp_path: Path) -> None:
    """Ctrl-C in the middle: the command to go on with is of that key alone, though its name may be
    another's by then, and `keys revoke` takes an id too."""
    key = create(tmp_path, "team")
    pin(tmp_path, range(4_000), KEY=key)
    child = subprocess.Popen(
        [*COMMAND, "keys", "revoke", "team", "--remove-pins", "--yes"],
        env=environment_of(tmp_path, {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while _unpinned(tmp_path) < 300 and child.poll() is None:
        pass
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    again = re.search(r"Go on with `content-gateway (pin rm --all --key-id key_\w+)`", said)
    assert again is not None, said
    other = create(tmp_path, "team")
    pin(tmp_path, range(2), KEY=other)
    done = run(tmp_path, *again[1].split(), "--yes")
    assert done.returncode == 0, done.stderr
    assert len(pins_of(tmp_path, "--key-name", "team")) == 2
    old = again[1].split()[-1]
    assert run(tmp_path, "keys", "revoke", "--key-id", old).returncode == 1
    assert run(tmp_path, "pin", "ls", KEY=other).returncode == 0
    assert run(tmp_path, "keys", "revoke").returncode == 2


def _unpinned(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        found = connection.execute("SELECT count(*) FROM audit WHERE action = 'unpin'").fetchone()
        return int(found[0])


def test_revoking_alone_keeps_the_pins(tmp_path: Path) -> None:
    """They can be removed later, by the same command; a name that no key has is told."""
    key = create(tmp_path, "team")
    pin(tmp_path, range(2), KEY=key)
    assert run(tmp_path, "keys", "revoke", "team").returncode == 0
    assert len(pins_of(tmp_path, "--key-name", "team")) == 2
    later = run(tmp_path, "keys", "revoke", "team", "--remove-pins", "--yes")
    assert (later.returncode, later.stdout) == (0, "2 pins removed\n")
    nobody = run(tmp_path, "keys", "revoke", "nobody", "--remove-pins", "--yes")
    assert nobody.returncode == 1
    assert nobody.stderr.endswith("There is no key named nobody.\n")
    unasked = run(tmp_path, "keys", "revoke", "team", "--remove-pins")
    assert unasked.returncode == 2


# The audit log.


def test_the_audit_log_tells_who_did_what(tmp_path: Path) -> None:
    """By key, by action and by time; the operator's acts as such, and never a secret."""
    key = create(tmp_path, "team")
    run(tmp_path, "pin", "add", CID, KEY=key)
    run(tmp_path, "pin", "rm", CID, KEY=key)
    run(tmp_path, "pin", "add", CID, KEY=key)
    run(tmp_path, "pin", "rm", CID, "--key-name", "team")
    run(tmp_path, "pin", "add", CID)
    rotated = run(tmp_path, "keys", "rotate", "team").stdout.strip()
    run(tmp_path, "keys", "revoke", "team")
    run(tmp_path, "pin", "ls", KEY=rotated)
    told = audit(tmp_path)
    assert [(one["key"], one["by"], one["action"]) for one in reversed(told)] == [
        ("team", "operator", "create"),
        ("team", "key", "pin"),
        ("team", "key", "unpin"),
        ("team", "key", "pin"),
        ("team", "operator", "unpin"),
        ("operator", "operator", "pin"),
        ("team", "operator", "rotate"),
        ("team", "operator", "revoke"),
        ("team", "key", "refused"),
    ]
    assert (told[0]["code"], told[0]["count"]) == ("key-revoked", 1)
    assert {one["cid"] for one in told if "cid" in one} == {CID}
    assert len(audit(tmp_path, "--key-name", "team")) == 8
    assert len(audit(tmp_path, "--key-name", "operator")) == 1
    assert len(audit(tmp_path, "--action", "pin", "--since", "1h")) == 3
    assert audit(tmp_path, "--key-id", told[0]["keyId"]) == audit(tmp_path, "--key-name", "team")
    headings, *lines = run(tmp_path, "audit", "ls").stdout.splitlines()
    assert headings.split() == ["TIME", "KEY", "BY", "ACTION", "WHAT"]
    assert len(lines) == 9
    for secret in (key, rotated):
        assert secret[8:] not in json.dumps(told)


def test_an_audit_log_without_entries_says_so(tmp_path: Path) -> None:
    """Nothing found and nothing kept are told apart; no time is too long."""
    create(tmp_path, "team")
    nothing = run(tmp_path, "audit", "ls", "--action", "pin", "--since", "999999d")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr.endswith("The audit log has no such entry.\n")
    other = tmp_path / "other"
    run(other, "keys", "create", "--name", "team", AUDIT__ENTRIES="0")
    off = run(other, "audit", "ls", AUDIT__ENTRIES="0")
    assert off.stderr.endswith("The audit log is off (audit.entries = 0).\n")
    assert run(tmp_path, "audit", "ls", "--key-name", "nobody").returncode == 1


async def test_beside_a_service_a_key_that_goes_on_pinning_ends_without_pins(
    tmp_path: Path,
) -> None:
    """It is stopped first: what it pinned until then is removed, and nothing comes after. The
    service writes what it was refused, and its last use, when it stops."""
    folder = tmp_path / "data"
    key = await asyncio.to_thread(create, folder, "team")
    added, refused = asyncio.Event(), asyncio.Event()
    async with running("serve", folder) as service, aiohttp.ClientSession() as session:

        async def go_on_pinning() -> None:
            for cid in itertools.cycle(cids(300)):
                url = f"{service.url}/ipfs/pin/add/{cid}"
                async with session.post(url, headers={"x-api-key": key}) as answer:
                    {200: added, 401: refused}[answer.status].set()

        adding = asyncio.create_task(go_on_pinning())
        await added.wait()
        revoke = ("keys", "revoke", "team", "--remove-pins", "--yes")
        done = await asyncio.to_thread(run, folder, *revoke)
        assert done.returncode == 0, done.stderr
        assert done.stdout != "0 pins removed\n"
        async with asyncio.timeout(30):
            await refused.wait()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        assert await asyncio.to_thread(pins_of, folder, "--key-name", "team") == []
        await service.stop()
    (counted,) = audit(folder, "--action", "refused")
    assert (counted["key"], counted["code"]) == ("team", "key-revoked")
    (listed,) = objects(run(folder, "keys", "list", "--json").stdout)
    assert listed["lastUsed"] is not None
