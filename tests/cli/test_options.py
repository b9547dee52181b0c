"""What all commands have in common: where the settings and the ledger are, and what is created."""

import json
import os
import re
import resource
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from content_gateway.cli.main import cli
from tests.cli.command import COMMAND, cids, environment_of, run

CID = cids(1)[0]
# On a ledger that exists; with what they need to be understood at all.
READING = [
    ("keys", "list"), ("keys", "rotate", "team"), ("keys", "revoke", "team"), ("pin", "ls"),
    ("pin", "status", CID), ("pin", "rm", CID), ("reconcile", "report"), ("blocks", "stat"),
    ("blocks", "verify"),
]  # fmt: skip
CREATING = [
    ("keys", "create", "--name", "team"), ("pin", "add", CID), ("pin", "import", "-"),
    ("reconcile", "now"),
]  # fmt: skip


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


def test_every_command_takes_settings_and_folder() -> None:
    """By the same two options; all but the one that writes a file for the first of them, and the
    one that is given two ledgers."""
    without = [
        words
        for words, command in commands(cli)
        if not {"config", "data"} <= {parameter.name for parameter in command.params}
    ]
    assert sorted(without) == [("config", "init"), ("ledger", "copy")]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_who_reads_creates_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Where there is no ledger it is told in words, with the options that say where it is."""
    done = run(None, *words, "--data", str(tmp_path / "typo"))
    assert (done.returncode, done.stdout) == (1, "")
    assert str(tmp_path / "typo") in done.stderr
    assert "--data or --config says where" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", CREATING, ids=" ".join)
def test_who_begins_a_ledger_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The first time only; the folder need not exist."""
    for is_new in (True, False):
        done = run(None, *words, "--data", str(tmp_path / "a" / "b"), given=f"{CID}\n")
        said = f"A new ledger begins at {tmp_path / 'a' / 'b' / 'ledger.sqlite'}."
        assert (said in done.stderr) == is_new, done.stderr


def test_who_reads_says_which_ledger_it_was(tmp_path: Path) -> None:
    """On standard error, by its path; standard output is for the answer."""
    run(tmp_path, "pin", "add", CID)
    for words in (("pin", "ls"), ("pin", "status", CID), ("keys", "list"), ("reconcile", "report")):
        done = run(None, *words, "--data", str(tmp_path))
        assert f"Ledger: {tmp_path / 'ledger.sqlite'}" in done.stderr.splitlines(), words
        assert "Ledger:" not in done.stdout
    stat = run(None, "blocks", "stat", "--data", str(tmp_path))
    assert stat.stderr.splitlines() == [f"Blocks: {tmp_path / 'blocks.sqlite'}"]


def test_a_name_is_resolved_without_a_ledger(tmp_path: Path) -> None:
    """It is told that the answer is kept nowhere, and no folder is left."""
    (tmp_path / "zone.toml").write_text(f'[names."a.demo"]\ncontent = "ipfs://{CID}"\n')
    words = ("resolve", "a.demo", "--data", str(tmp_path / "data"))
    done = run(None, *words, NAMES__ZONE_FILE=str(tmp_path / "zone.toml"))
    assert done.returncode == 0, done.stderr
    assert CID in done.stdout
    assert "is kept nowhere" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_ledger_elsewhere_makes_no_folder_here(tmp_path: Path) -> None:
    """Where database.url names a ledger, and data_dir a folder that there is not."""
    run(tmp_path / "data", "pin", "add", CID)
    url = f"sqlite:///{tmp_path / 'data' / 'ledger.sqlite'}"
    done = run(tmp_path / "typo", "pin", "ls", DATABASE__URL=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no folder" in done.stderr
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    "words",
    [("pin", "add", CID, "--wait", "--timeout"), ("reconcile", "now", "--timeout"),
     ("keys", "create", "--name", "n", "--expires")],
    ids=" ".join,
)  # fmt: skip
def test_a_time_that_is_none_is_refused_with_its_units(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Before anything is done."""
    for text in ("1M", "5 minutes", "0s", "-1s"):
        done = run(tmp_path / "data", *words, text)
        assert done.returncode == 2
        assert "m (minutes)" in done.stderr or "must be above 0" in done.stderr, done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pin", "add", "x"), "'x' is no CID"),
        (("resolve", "no name"), "blanks"),
        (("resolve", "site.demo", "--coin-type", "4294967296"), "up to 4294967295"),
        (("keys", "create", "--name", "team", "--type", "nope"), "limits.types has no nope"),
    ],
)
def test_words_that_cannot_be_right_are_told_from_failures(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """By the exit status: trying again is of no use."""
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_time_may_have_a_unit(tmp_path: Path) -> None:
    """And is told as it was understood."""
    done = run(tmp_path, "pin", "add", CID, "--wait", "--timeout", "300ms")
    assert done.returncode == 1
    assert "Not pinned after 0.3 s" in done.stderr


def test_blocks_are_told_to_programs_one_object_a_line(tmp_path: Path) -> None:
    """What is damaged on standard output, the summary on standard error."""
    run(tmp_path, "pin", "add", CID)
    done = run(tmp_path, "blocks", "verify", "--json")
    assert (done.returncode, done.stdout) == (0, "")
    assert "every one is what it should be" in done.stderr
    assert set(json.loads(run(tmp_path, "blocks", "stat", "--json").stdout)) >= {"blocks", "pins"}


def test_the_file_of_settings_is_written_once(tmp_path: Path) -> None:
    """For its owner alone, and loads; what exists is left as it is."""
    path = tmp_path / "gateway.toml"
    before = os.umask(0)
    try:
        assert run(None, "config", "init", str(path)).returncode == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run(None, "config", "check", "--config", str(path)).returncode == 0
    path.write_text("mine")
    again = run(None, "config", "init", str(path))
    assert again.returncode == 1
    assert "exists already" in again.stderr
    assert path.read_text() == "mine"
    assert run(None, "config", "init", str(tmp_path / "no" / "where.toml")).returncode == 1


def test_a_part_of_a_file_of_settings_is_not_left(tmp_path: Path) -> None:
    """On a disk that is full there is none, and the next run writes it."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run(
        [*COMMAND, "config", "init", str(tmp_path / "gateway.toml")],
        preexec_fn=fill,
        env=environment_of(None, {}),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "cannot be written" in done.stderr) == (1, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_check_knows_the_operations_that_keys_are_granted(tmp_path: Path) -> None:
    """What would stop the start is told by the check too: an operation that there is not, and a
    setting within the table of a type; and the file of the description, which is missing."""
    path = tmp_path / "gateway.toml"
    path.write_text('spec_file = "none.yaml"\n[limits.types.wallet]\noperations = ["addPins"]\n')
    done = run(tmp_path, "config", "check", "--config", str(path))
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [
            "wrong setting: spec_file: none.yaml: No such file or directory",
            "wrong setting: limits.types.wallet.operations: there is no operation addPins; did you"
            " mean addPin?",
        ],
    )
    for text, meant in (
        ("[limits.types.wallet]\noperatons = []\n", "did you mean operations?"),
        ("[limits.type.wallet]\noperations = []\n", "did you mean [limits.types]?"),
    ):
        path.write_text(text)
        assert meant in run(tmp_path, "config", "check", "--config", str(path)).stderr


def test_a_check_names_all_that_is_wrong(tmp_path: Path) -> None:
    """Settings with their lines; where those are right, every file that they name; status 2."""
    path = tmp_path / "gateway.toml"
    path.write_text('[end]\n[names]\nfresh = "soon"\n')
    wrong = run(tmp_path / "data", "config", "check", "--config", str(path))
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (2, 2)
    (tmp_path / "broken").write_text("][")
    names = ("DENYLIST__DOMAINS_FILE", "NAMES__ZONE_FILE")
    files = dict.fromkeys(names, str(tmp_path / "broken"))
    missing = {"DENYLIST__CONTENT_FILE": str(tmp_path / "missing")}
    done = run(tmp_path / "data", "config", "check", **files, **missing)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 3), done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete_commands(shell: str) -> None:
    """The script is printed, and with what it asks a subcommand and an option are found."""
    environment = environment_of(None, {})

    def complete(instruction: str, **more: str) -> str:
        asked = environment | {"_CONTENT_GATEWAY_COMPLETE": f"{shell}_{instruction}", **more}
        done = subprocess.run(
            COMMAND, env=asked, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout

    assert re.search(r"_content_gateway_completion", complete("source"))
    word = {"fish": "ke"}.get(shell, "1")
    assert "keys" in complete("complete", COMP_WORDS="content-gateway ke", COMP_CWORD=word)
    word = {"fish": "--da"}.get(shell, "3")
    words = "content-gateway pin ls --da"
    assert "--data" in complete("complete", COMP_WORDS=words, COMP_CWORD=word)


def test_the_version_is_printed() -> None:
    done = run(None, "--version")
    assert re.fullmatch(r"content-gateway, version \d+\.\d+\.\d+\n", done.stdout)
