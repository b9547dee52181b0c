"""The file of settings: units, what is misspelt in it, and the one to begin with."""

import re
import tomllib
from pathlib import Path

import pytest

from content_gateway.errors import WrongSettings
from content_gateway.settings import toml
from content_gateway.settings.model import fields, value_of
from content_gateway.settings.sources import load
from content_gateway.settings.template import template
from content_gateway.settings.values import BYTES, SECONDS


def file_of(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(text)
    return path


def refused(config: Path | None = None, **environ: str) -> list[str]:
    with pytest.raises(WrongSettings) as wrong:
        load(environ=environ, config=config)
    return wrong.value.detail.splitlines()


def test_every_time_and_size_takes_a_unit() -> None:
    """Whoever describes a setting as seconds or bytes gives it the type that reads them."""
    for name, info in fields():
        for word, mark in (("seconds", SECONDS), ("bytes", BYTES)):
            is_one = bool(re.match(rf"{word}\b", info.description))
            assert is_one == (mark in info.metadata), name


def test_units_are_read_from_every_source(tmp_path: Path) -> None:
    """A file, the environment and the command line; a bare number is seconds, or bytes."""
    config = file_of(
        tmp_path, '[names]\nfresh = "10m"\nabsent = 20\n[embedded]\nmax_bytes = 1024\n'
    )
    settings = load(
        environ={"CONTENT_GATEWAY_PINS__TIMEOUT": "24h", "CONTENT_GATEWAY_ENS__TIMEOUT": "1.5"},
        config=config,
        command_line={"embedded.timeout": "500ms", "capacity.slow_rate": "1MiB"},
    ).settings
    assert (settings.names.fresh, settings.names.absent) == (600.0, 20.0)
    assert (settings.pins.timeout, settings.ens.timeout) == (86_400.0, 1.5)
    assert (settings.embedded.timeout, settings.embedded.max_bytes) == (0.5, 1024)
    assert settings.capacity.slow_rate == 1024**2


def test_a_wrong_unit_is_told_with_its_line(tmp_path: Path) -> None:
    """And a time that is none, as TOML's own inf."""
    config = file_of(tmp_path, '[names]\nfresh = "5 minutes"\n[admin]\noldest_waiting = inf\n')
    fresh, oldest = refused(config)
    assert fresh.startswith(f"names.fresh ({config}, line 2): must be a number of seconds")
    assert oldest.startswith(f"admin.oldest_waiting ({config}, line 4): must be a finite")


NO_TABLE = "there is no such table"
NO_SETTING = "there is no such setting"


@pytest.mark.parametrize(
    ("text", "name", "line", "said"),
    [
        ('[end]\nrpc_urls = ["x"]\n', "[end]", 1, f"{NO_TABLE}; did you mean [ens]?"),
        ("port = 1\n\n[ kubos ] # mine\n", "[kubos]", 3, f"{NO_TABLE}; did you mean [kubo]?"),
        ("[nothing.like]\nit = 1\n", "[nothing]", 1, NO_TABLE),
        ("[kubo]\n\nuri = 3\n", "kubo.uri", 3, f"{NO_SETTING}; did you mean kubo.url?"),
        ("names.fresj = 3\n", "names.fresj", 1, f"{NO_SETTING}; did you mean names.fresh?"),
        ("ens = 3\n", "ens", 1, "it is a table: [ens]"),
        ("[names]\nfresh = []\n", "names.fresh", 2, "Input should be a valid number"),
        ("[names.fresh]\n", "names.fresh", 1, "Input should be a valid number"),
    ],
)
def test_what_is_misspelt_is_told_with_its_line(
    tmp_path: Path, text: str, name: str, line: int, said: str
) -> None:
    """And what may be meant: a table once, not each setting in it; also where it is empty."""
    config = file_of(tmp_path, text)
    assert refused(config) == [f"{name} ({config}, line {line}): {said}"]


def test_a_misspelt_variable_is_told() -> None:
    """One underscore too few, and a table that there is not."""
    environ = {"CONTENT_GATEWAY_END__RPC_URLS": "[]", "CONTENT_GATEWAY_LOG_LEVEL": "info"}
    first, second = refused(None, **environ)
    assert first.endswith("did you mean ens.rpc_urls?")
    assert second.endswith("did you mean log.level?")


def test_what_is_shown_can_be_a_file_again(tmp_path: Path) -> None:
    """Pasted as it is, whatever the values are."""
    config = file_of(
        tmp_path,
        '[names]\nfresh = "1.25s"\nzone_file = "/a \\"b\\"/\\u007f/\\U0001F600.toml"\n'
        '[embedded]\nmax_bytes = "1000B"\n[cors]\norigins = ["http://localhost:3000"]\n',
    )
    loaded = load(environ={}, config=config)
    lines = [f"{name} = {value}  # {origin}" for name, value, origin in loaded.shown() if value]
    again = load(environ={}, config=file_of(tmp_path, "\n".join(lines)))
    masked = [name for name, info in fields() if (info.json_schema_extra or {}).get("secret")]
    for name, _ in fields():
        if name not in masked:
            assert value_of(again.settings, name) == value_of(loaded.settings, name), name


@pytest.mark.parametrize("value", [True, 3, 1.5, "a\nb", [1, "x"], {"a.b": [True]}, Path("/x")])
def test_a_value_is_spelt_in_one_line_of_toml(value: object) -> None:
    spelt = toml.spell(value)
    assert "\n" not in spelt
    read = tomllib.loads(f"it = {spelt}")["it"]
    assert read == (str(value) if isinstance(value, Path) else value)


def test_the_file_to_begin_with_changes_nothing(tmp_path: Path) -> None:
    """As it is, and with every default in it no longer commented out."""
    defaults = load(environ={}).settings
    assert load(environ={}, config=file_of(tmp_path, template())).settings == defaults
    open_text = re.sub(r"^#(\w+ = (?!.*# not set))", r"\1", template(), flags=re.M)
    loaded = load(environ={}, config=file_of(tmp_path, open_text))
    assert loaded.settings == defaults
    unset = {name for name, _ in fields() if value_of(defaults, name) is None}
    assert set(loaded.origins) == {name for name, _ in fields()} - unset


def test_the_file_to_begin_with_tells_every_setting() -> None:
    """With its description above it."""
    text = template()
    for name, info in fields():
        leaf = name.rpartition(".")[2]
        assert re.search(rf"^# {re.escape(info.description)}\n#{leaf} = ", text, re.M), name


def test_the_service_manager_says_where_the_state_is() -> None:
    """The first of its folders, unless the operator says otherwise."""
    given = {"STATE_DIRECTORY": "/var/lib/gateway:/var/lib/other"}
    loaded = load(environ=given)
    assert loaded.settings.data_dir == Path("/var/lib/gateway")
    assert loaded.origins["data_dir"] == "STATE_DIRECTORY"
    chosen = load(environ=given | {"CONTENT_GATEWAY_DATA_DIR": "/mine"})
    assert chosen.settings.data_dir == Path("/mine")
