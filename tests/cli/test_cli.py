"""The command line as a process: data on stdout, the rest on stderr, help on everything."""

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, environment_of, run

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    path = tmp_path / "zone.toml"
    path.write_text(
        'authority = ["demo"]\n[names."site.demo"]\n'
        f'address = "0xd8da6bf26964af9d7eed9e03e53415d37aa96045"\ncontent = "ipfs://{CID}"\n'
    )
    return path


@pytest.mark.parametrize(
    "command",
    ["", "dev", "serve", "keys", "keys create", "keys list", "keys rotate", "keys revoke",
     "resolve", "pin", "pin add", "pin status", "pin ls", "pin rm", "pin import", "reconcile",
     "reconcile now", "reconcile report", "config", "config show", "config check", "config init",
     "blocks", "blocks verify", "blocks stat", "blocks denied", "audit", "audit ls", "ledger",
     "ledger backup", "ledger restore", "ledger check", "ledger recount",
     "ledger upgrade", "ledger copy", "ledger backend"],
)  # fmt: skip
def test_help_has_an_example(tmp_path: Path, command: str) -> None:
    done = run(tmp_path, *command.split(), "--help")
    assert done.returncode == 0
    assert "content-gateway " in done.stdout.splitlines()[-1]


def test_resolve_prints_what_a_name_points_at(tmp_path: Path, zone: Path) -> None:
    """Lines for people, JSON for programs, nothing else on standard output."""
    settings = {"NAMES__ZONE_FILE": str(zone)}
    done = run(tmp_path, "resolve", "site.demo", **settings)
    assert done.stdout.split() == [
        "content", f"ipfs://{CID}", "wallet", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045",
    ]  # fmt: skip
    as_json = json.loads(run(tmp_path, "resolve", "site.demo", "--json", **settings).stdout)
    assert as_json["content"] == {"type": "ipfs", "cid": CID}


def test_errors_go_to_stderr_and_show_in_the_status(tmp_path: Path, zone: Path) -> None:
    """1 for what could not be done, 2 for wrong words and settings; standard output stays empty."""
    settings = {"NAMES__ZONE_FILE": str(zone)}
    run(tmp_path, "keys", "create", "--name", "team")
    for arguments, code, said in (
        (("resolve", "nothere.demo"), 1, "does not list"),
        (("resolve", "..."), 2, "labels"),
        (("resolve", "site.eth"), 1, "No name service"),
        (("pin", "status", CID), 1, "No pin"),
        (("pin", "add", "garbage"), 2, "CID"),
    ):
        done = run(tmp_path, *arguments, **settings)
        assert (done.returncode, done.stdout) == (code, ""), arguments
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    wrong = run(tmp_path, "serve", PORT="eighty", PINS__BACKEND="tape")
    assert wrong.returncode == 2
    assert "port" in wrong.stderr
    assert "pins.backend" in wrong.stderr


def test_a_data_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in ("serve", "dev"):
        done = run(tmp_path / "file" / "below", command, PORT="0")
        assert done.returncode == 2
        assert "data_dir" in done.stderr
        assert "Traceback" not in done.stderr


def test_pins_are_added_once(tmp_path: Path) -> None:
    """The first add says so, the second says that it exists; both print the pin."""
    first = run(tmp_path, "pin", "add", CID, "--json")
    assert "Pin added" in first.stderr
    assert json.loads(first.stdout)["status"] == "queued"
    second = run(tmp_path, "pin", "add", CID, "--json")
    assert "already exists" in second.stderr
    assert json.loads(second.stdout)["timestamp"] == json.loads(first.stdout)["timestamp"]
    assert json.loads(run(tmp_path, "pin", "status", CID, "--json").stdout)["cid"] == CID


def test_a_key_lives_from_create_to_revoke(tmp_path: Path) -> None:
    """The key is printed once and is nowhere on disk; rotation and revocation work."""
    created = run(
        tmp_path, "keys", "create", "--name", "team", "--scope", "pin", "--expires", "90d"
    )
    key = created.stdout.strip()
    assert key.startswith("cg_")
    assert run(tmp_path, "keys", "create", "--name", "team").returncode == 1
    listed = json.loads(run(tmp_path, "keys", "list", "--json").stdout)
    assert (listed["name"], listed["scopes"], listed["state"]) == ("team", "pin", "valid")
    assert run(tmp_path, "pin", "add", CID, "--key", key).returncode == 0
    rotated = run(tmp_path, "keys", "rotate", "team").stdout.strip()
    assert run(tmp_path, "pin", "status", CID, "--key", key).returncode == 1
    assert run(tmp_path, "pin", "status", CID, "--key", rotated).returncode == 0
    assert run(tmp_path, "keys", "revoke", "team").returncode == 0
    assert run(tmp_path, "keys", "revoke", "team").returncode == 1
    assert run(tmp_path, "pin", "status", CID, "--key", rotated).returncode == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"api_keys" in stored
    assert key.encode() not in stored
    assert rotated.encode() not in stored


def test_keys_are_told_to_programs_in_one_object(tmp_path: Path) -> None:
    """A new key with all that is known of it, a rotated one, and a revoked one with the number of
    its pins that went."""
    created = json.loads(run(tmp_path, "keys", "create", "--name", "team", "--json").stdout)
    assert (created["name"], created["state"], created["key"][:3]) == ("team", "valid", "cg_")
    rotated = json.loads(run(tmp_path, "keys", "rotate", "team", "--json").stdout)
    assert rotated.keys() == {"name", "key"}
    assert rotated["key"] != created["key"]
    assert run(tmp_path, "pin", "add", CID, "--key", rotated["key"]).returncode == 0
    gone = run(tmp_path, "keys", "revoke", "team", "--remove-pins", "--yes", "--json")
    assert json.loads(gone.stdout) == {"name": "team", "id": created["id"], "removed": 1}
    run(tmp_path, "keys", "create", "--name", "other")
    other = json.loads(run(tmp_path, "keys", "revoke", "other", "--json").stdout)
    assert other["name"] == "other"


def test_a_key_that_nobody_could_read_is_told_of(tmp_path: Path) -> None:
    """It was issued, and its secret is nowhere: how to get another one is said."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "keys", "create", "--name", "team"],
            env=environment_of(tmp_path, {}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "`keys rotate team` gives another one" in done.stderr


def test_keys_need_nothing_but_their_database(tmp_path: Path) -> None:
    """A denylist, a zone or a block file that is broken keeps nobody from revoking a key."""
    assert run(tmp_path, "keys", "create", "--name", "team").returncode == 0
    (tmp_path / "broken").write_text("][")
    (tmp_path / "blocks.sqlite").write_bytes(b"this is no database")
    broken = str(tmp_path / "broken")
    names = ("DENYLIST__CONTENT_FILE", "DENYLIST__DOMAINS_FILE", "NAMES__ZONE_FILE")
    done = run(tmp_path, "keys", "revoke", "team", **dict.fromkeys(names, broken))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("text", ["90", "0d", "d", "-1d", "1w", "9999999d"])
def test_a_lifetime_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, "keys", "create", "--name", "n", "--expires", text)
    assert done.returncode == 2
    assert "as in 90d" in done.stderr


def test_the_configuration_is_shown_with_its_origins(tmp_path: Path) -> None:
    """Config show prints every setting, masks secrets, and says where each came from."""
    done = run(tmp_path, "config", "show", IPFS_CLUSTER__PASSWORD="hush")
    assert 'ipfs_cluster.password = "********"' not in done.stdout.splitlines()[0]
    assert "hush" not in done.stdout
    assert "# CONTENT_GATEWAY_IPFS_CLUSTER__PASSWORD" in done.stdout
    assert "port = 8080  # default" in done.stdout
    assert 'log.level = "info"  # default' in done.stdout.splitlines()
    as_json = run(tmp_path, "config", "show", "--json", IPFS_CLUSTER__PASSWORD="hush").stdout
    settings = {each["setting"]: each for each in map(json.loads, as_json.splitlines())}
    assert len(settings) == len(done.stdout.splitlines())
    assert settings["port"] == {"setting": "port", "value": 8080, "origin": "default"}
    assert settings["ipfs_cluster.password"]["value"] == "********"
    assert settings["names.zone_file"]["value"] is None
    assert settings["data_dir"]["value"] == str(tmp_path)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_place_for_a_database(tmp_path: Path, closed: str) -> None:
    """What is printed goes nowhere, and not into a file that was given their number."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "pin", "add", CID],
        env=environment_of(tmp_path, {}),
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert run(tmp_path, "ledger", "check").returncode == 0


def test_what_is_interrupted_has_the_status_of_that(tmp_path: Path) -> None:
    """130, as shells have it, in a word and without a traceback: here while another process has
    the ledger."""
    run(tmp_path, "keys", "create", "--name", "team")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        command = subprocess.Popen(
            [*COMMAND, "keys", "rotate", "team"],
            env=environment_of(tmp_path, {}),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stderr is not None
        assert command.stderr.readline().startswith("Ledger: ")
        command.send_signal(signal.SIGINT)
        assert command.stderr.read() == "Interrupted.\n"
        assert command.wait(60) == 130
