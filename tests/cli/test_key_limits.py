"""`keys create --type --limit`: what is beyond a type's limits is refused in words."""

from pathlib import Path

import pytest

from tests.cli.command import cids, run

CONFIG = """\
[limits]
pins = 100

[limits.types.wallet]
operations = ["resolveDomain"]
requests_per_minute = 600
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "gateway.toml"
    path.write_text(CONFIG)
    return str(path)


def test_a_key_of_a_type_is_issued_and_listed(tmp_path: Path, config: str) -> None:
    """With limits of its own within those of the type."""
    data = tmp_path / "data"
    options = ["--type", "wallet", "--limit", "requests_per_minute=60", "--limit", "lookups=4"]
    made = run(data, "keys", "create", "--name", "team", *options, "--config", config)
    assert made.returncode == 0, made.stderr
    assert "wallet" in run(data, "keys", "list", "--config", config).stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--type", "walet"], "limits.types has no walet; there are wallet."),
        (["--limit", "pins=101"], "pins 101 (at most 100)"),
        (["--type", "wallet", "--limit", "requests_per_minute=601"], "601 (at most 600)"),
        (["--limit", "pins=0"], "pins must be a number from 1 to"),
        (["--limit", "pins=-1"], "pins must be a number from 1 to"),
        (["--limit", "pins"], "pins must be a number from 1 to"),
        (["--limit", "pin=5"], "there is no limit pin; there are requests_per_minute"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, config: str, options: list[str], words: str
) -> None:
    """And no key is issued."""
    data = tmp_path / "data"
    refused = run(data, "keys", "create", "--name", "team", *options, "--config", config)
    assert refused.returncode != 0
    assert words in refused.stderr.replace("\n", " ")
    assert "team" not in run(data, "keys", "list", "--config", config).stdout


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[limits.types.wallet]\npins = -1\n", "limits.types.wallet.pins"),
        ("[limits.types.wallet]\npinns = 1\n", "limits.types.wallet.pinns"),
        ("[limits.types]\nwallet = 3\n", "limits.types.wallet"),
        ("[limits]\npins = -1\n", "limits.pins"),
    ],
)
def test_a_limit_that_is_none_stops_the_start(tmp_path: Path, table: str, words: str) -> None:
    """With the name of the setting, and where it stands."""
    path = tmp_path / "gateway.toml"
    path.write_text(table)
    refused = run(tmp_path / "data", "config", "show", "--config", str(path))
    assert refused.returncode != 0
    assert words in refused.stderr
    assert str(path) in refused.stderr.replace("\n", "")


def test_types_can_be_set_in_the_environment(tmp_path: Path) -> None:
    """As JSON; `config show` prints them in TOML."""
    types = '{"wallet": {"operations": ["*"], "pins": 3}}'
    shown = run(tmp_path, "config", "show", LIMITS__TYPES=types)
    assert 'limits.types = {"wallet" = {"operations" = ["*"], "pins" = 3}}' in shown.stdout


def test_a_command_with_a_key_keeps_to_its_limit_of_pins(tmp_path: Path) -> None:
    """`pin add` and `pin import` end at it as the API does; what was there stays, and the operator
    has none."""
    (tmp_path / "gateway.toml").write_text("[limits]\npins = 3\n")
    data, config = tmp_path / "data", ("--config", str(tmp_path / "gateway.toml"))
    made = run(data, "keys", "create", "--name", "team", *config)
    key = made.stdout.strip()
    lines = "\n".join(cids(5))
    done = run(data, "pin", "import", "-", *config, given=lines, KEY=key)
    assert (done.returncode, "3 pins, as many as it may have" in done.stderr) == (1, True)
    refused = run(data, "pin", "add", cids(9)[8], *config, KEY=key)
    assert (refused.returncode, "3 pins, as many as it may have" in refused.stderr) == (1, True)
    assert len(run(data, "pin", "ls", "--json", *config, KEY=key).stdout.splitlines()) == 3
    assert run(data, "pin", "import", "-", *config, given=lines).returncode == 0
