"""`pin ls`, `pin rm`, and whose pins they are."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from content_gateway.errors import InvalidCursor
from content_gateway.model.pins import parse_cursor
from tests.cli.command import cids, content, run
from tests.process import running

CID = str(content(1)[0])


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_cursor_leads_through_all_pages(tmp_path: Path) -> None:
    """Page after page shows every pin once, newest first; --all shows the same."""
    expected = cids(7)
    imported = run(tmp_path, "pin", "import", "-", given="\n".join(expected))
    assert imported.returncode == 0, imported.stderr
    found: list[dict[str, Any]] = []
    more: list[str] = []
    for _ in range(3):
        done = run(tmp_path, "pin", "ls", "--json", "--limit", "3", *more)
        assert done.returncode == 0, done.stderr
        found += objects(done.stdout)
        following = re.search(r"--cursor (\w+)", done.stderr)
        more = ["--cursor", following[1]] if following else []
    assert more == []
    assert sorted(pin["cid"] for pin in found) == sorted(expected)
    times = [pin["timestamp"] for pin in found]
    assert times == sorted(times, reverse=True)
    whole = run(tmp_path, "pin", "ls", "--json", "--all")
    assert objects(whole.stdout) == found
    assert whole.stderr == f"Ledger: {tmp_path / 'ledger.sqlite'}\n"


def test_a_list_shows_people_and_programs_the_same(tmp_path: Path) -> None:
    """A table line has the state, the time, the CID and the name, and nothing a terminal obeys."""
    run(tmp_path, "pin", "add", CID, "--name", "my\x1b[31msite")
    headings, line = run(tmp_path, "pin", "ls").stdout.splitlines()
    assert headings.split() == ["STATUS", "HELD", "BYTES", "ADDED", "CID", "NAME"]
    (shown,) = objects(run(tmp_path, "pin", "ls", "--status", "queued", "--json").stdout)
    assert line.split() == ["queued", "-", "-", shown["timestamp"], CID, "my?[31msite"]
    assert shown["bytes"] is None
    assert shown["name"] == "my\x1b[31msite"
    assert run(tmp_path, "pin", "ls", "--status", "pinned").stdout == ""


@pytest.mark.parametrize("cursor", ["", "zz", "0x12", "f" * 16, "f" * 15, "1\n"])
def test_a_cursor_that_was_not_given_out_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        parse_cursor(cursor)


def test_a_wrong_cursor_is_told_in_one_line(tmp_path: Path) -> None:
    """Nothing on standard output, status 1."""
    run(tmp_path, "pin", "add", CID)
    done = run(tmp_path, "pin", "ls", "--cursor", "zz")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == ["The cursor is not one that was given out."]


def test_a_removal_says_what_becomes_of_the_content(tmp_path: Path) -> None:
    """To the operator: it stays while another requestor holds it, and leaves with the last. To who
    has a key that is nobody's business."""
    key = run(tmp_path, "keys", "create", "--name", "team").stdout.strip()
    run(tmp_path, "pin", "add", CID)
    run(tmp_path, "pin", "add", CID, KEY=key)
    first = run(tmp_path, "pin", "rm", CID, "--json")
    assert json.loads(first.stdout) == {"cid": CID, "content": "stays"}
    assert run(tmp_path, "pin", "status", CID).returncode == 1
    run(tmp_path, "pin", "add", CID)
    second = run(tmp_path, "pin", "rm", CID, "--json", KEY=key)
    assert json.loads(second.stdout) == {"cid": CID, "content": "released"}
    assert "leaves the backend" in run(tmp_path, "pin", "rm", CID).stdout
    third = run(tmp_path, "pin", "rm", CID, KEY=key)
    assert (third.returncode, third.stdout) == (1, "")
    assert "No pin" in third.stderr


def test_a_name_can_be_given_later(tmp_path: Path) -> None:
    """A second add with a name renames the pin, and one without leaves the name alone."""
    run(tmp_path, "pin", "add", CID)
    renamed = run(tmp_path, "pin", "add", CID, "--name", "site", "--json")
    assert json.loads(renamed.stdout)["name"] == "site"
    assert json.loads(run(tmp_path, "pin", "add", CID, "--json").stdout)["name"] == "site"
    assert run(tmp_path, "pin", "add", CID, "--name", "n" * 256).returncode == 2


def test_the_key_in_the_environment_is_the_requestor(tmp_path: Path) -> None:
    """CONTENT_GATEWAY_KEY is as good as --key, and an option wins over it."""
    key = run(tmp_path, "keys", "create", "--name", "team", "--scope", "pin").stdout.strip()
    assert run(tmp_path, "pin", "add", CID, KEY=key).returncode == 0
    assert run(tmp_path, "pin", "status", CID, "--key", key).returncode == 0
    assert run(tmp_path, "pin", "status", CID).returncode == 1
    assert run(tmp_path, "pin", "status", CID, "--key", "me", KEY=key).returncode == 1
    assert run(tmp_path, "config", "show", KEY=key).returncode == 0


@pytest.mark.parametrize("key", ["me", ""])
def test_a_key_nobody_issued_is_refused_with_what_to_do(tmp_path: Path, key: str) -> None:
    """One line names the reason, the list of keys, and the setting of open keys."""
    run(tmp_path, "keys", "create", "--name", "team")
    done = run(tmp_path, "pin", "add", CID, "--key", key)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "refused: malformed" in done.stderr
    assert "CONTENT_GATEWAY_KEYS__MODE=open" in done.stderr


def test_a_key_without_the_scope_may_not_pin(tmp_path: Path) -> None:
    """What a key may not do over HTTP it may not do here."""
    key = run(tmp_path, "keys", "create", "--name", "r", "--scope", "resolve").stdout.strip()
    done = run(tmp_path, "pin", "ls", KEY=key)
    assert (done.returncode, done.stdout) == (1, "")
    assert "scope" in done.stderr


async def test_in_the_folder_of_dev_a_key_means_what_it_means_to_dev(tmp_path: Path) -> None:
    """With --data and nothing else, `--key me` sees and adds pins of `x-api-key: me`, and the
    demonstration's names are known; once `serve` has had the folder, only issued keys are good."""
    folder = tmp_path / "data"
    there = ("--data", str(folder))
    async with running("dev", folder):
        added = await asyncio.to_thread(run, None, "pin", "add", CID, *there, "--key", "me")
        assert added.returncode == 0, added.stderr
        site = await asyncio.to_thread(run, None, "resolve", "site.demo", *there)
        assert "ipfs://" in site.stdout
    assert run(None, "pin", "status", CID, *there, "--key", "me").returncode == 0
    async with running("serve", folder):
        pass
    assert run(None, "pin", "status", CID, *there, "--key", "me").returncode == 1
    assert run(None, "resolve", "site.demo", *there).returncode == 1


def test_the_operator_manages_the_pins_of_a_revoked_key(tmp_path: Path) -> None:
    """By the key's name: its pins are listed, told and removed, and nobody else's are."""
    key = run(tmp_path, "keys", "create", "--name", "team").stdout.strip()
    run(tmp_path, "pin", "add", CID)
    run(tmp_path, "pin", "add", CID, "--name", "theirs", KEY=key)
    assert run(tmp_path, "keys", "revoke", "team").returncode == 0
    assert run(tmp_path, "pin", "ls", KEY=key).returncode == 1
    # The name wins over a key that the environment happens to have.
    (listed,) = objects(run(tmp_path, "pin", "ls", "--json", "--key-name", "team", KEY=key).stdout)
    assert (listed["cid"], listed["name"]) == (CID, "theirs")
    described = run(tmp_path, "pin", "status", CID, "--key-name", "team", "--json")
    assert json.loads(described.stdout)["name"] == "theirs"
    removed = run(tmp_path, "pin", "rm", CID, "--key-name", "team", "--json")
    assert json.loads(removed.stdout) == {"cid": CID, "content": "stays"}
    assert run(tmp_path, "pin", "ls", "--key-name", "team").stdout == ""
    assert len(objects(run(tmp_path, "pin", "ls", "--json").stdout)) == 1


def test_the_pins_of_an_expired_and_of_a_rotated_key_keep_its_name(tmp_path: Path) -> None:
    key = run(tmp_path, "keys", "create", "--name", "team", "--expires", "1d").stdout.strip()
    run(tmp_path, "pin", "add", CID, KEY=key)
    assert run(tmp_path, "keys", "rotate", "team").returncode == 0
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.execute("UPDATE api_keys SET expires_at = created_at + 1")
        connection.commit()
    (listed,) = objects(run(tmp_path, "pin", "ls", "--json", "--key-name", "team").stdout)
    assert listed["cid"] == CID
    assert run(tmp_path, "pin", "rm", CID, "--key-name", "team").returncode == 0


@pytest.mark.parametrize("arguments", [["ls"], ["status", CID], ["rm", CID]])
def test_a_name_that_no_key_has_is_told(tmp_path: Path, arguments: list[str]) -> None:
    """In one line, status 1; and a key and a name at once are refused."""
    run(tmp_path, "pin", "add", CID)
    done = run(tmp_path, "pin", *arguments, "--key-name", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == ["There is no key named nobody."]
    both = run(tmp_path, "pin", *arguments, "--key-name", "nobody", "--key", "cg_x")
    assert both.returncode == 2
    assert "do not go together" in both.stderr
