"""Reads settings from a command's defaults, a TOML file, the environment and the command line.

Every source gives flat names (`ens.rpc_urls`); a later source overrides an earlier one, and the
origin of each value is kept. All errors of all sources are reported together."""

import json
import re
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from content_gateway.errors import WrongSettings
from content_gateway.files.watched_file import read_bytes
from content_gateway.settings import toml
from content_gateway.settings.groups import KeyTypeSettings
from content_gateway.settings.model import Settings, fields, value_of, with_unit

ENV_PREFIX: Final = "CONTENT_GATEWAY_"
# Where a service manager wants a service's state to be (systemd.exec(5), StateDirectory=).
_STATE_DIRECTORY: Final = "STATE_DIRECTORY"
_MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_SECRET_BYTES: Final = 64 * 1024
_MASK: Final = "********"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid settings, and where each that is not a default came from."""

    settings: Settings
    origins: Mapping[str, str]

    def shown(self) -> Iterator[tuple[str, str | None, str]]:
        """As `masked`, with values in TOML."""
        for name, value, origin in self.masked():
            yield name, None if value is None else toml.spell(value), origin

    def masked(self) -> Iterator[tuple[str, Any, str]]:
        """Name, value (with its unit, secrets masked; None where there is none) and origin of
        every setting."""
        for name, info in fields():
            value = value_of(self.settings, name)
            hidden = value and (info.json_schema_extra or {}).get("secret")
            if hidden:
                value = [mask(item) for item in value] if isinstance(value, tuple) else mask(value)
            origin = self.origins.get(name, "default")
            yield name, None if value is None else _plain(with_unit(info, value)), origin


def _plain(value: Any) -> Any:
    """*value*, with groups that the operator has named as the tables that they are."""
    if not isinstance(value, dict):
        return value
    return {name: one.model_dump(exclude_none=True) for name, one in value.items()}


def mask(value: str) -> str:
    """*value* with what may be secret hidden: of an address, all but scheme and host is."""
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname:
        port = f":{parts.port}" if parts.port else ""
        open_part = f"{parts.scheme}://{parts.hostname}{port}"
        return open_part if value in (open_part, open_part + "/") else f"{open_part}/{_MASK}"
    return value if parts.scheme == "sqlite" else _MASK


@dataclass(slots=True)
class _Gathered:
    """Values by dotted name, the origin of each, and what was wrong on the way."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any, origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin

    def refuse_unknown(self, name: str, origin: str, known: Iterable[str]) -> None:
        """Note that there is no setting *name*, and which one may be meant."""
        self.problems.append(f"{name} ({origin}): there is no such setting{_meant(name, known)}")

    def refuse_table(self, name: str, origin: str, groups: Iterable[str]) -> None:
        """Note that there is no table *name*, and which one may be meant."""
        meant = _meant(name, groups, "[{}]")
        self.problems.append(f"[{name}] ({origin}): there is no such table{meant}")


def _meant(name: str, known: Iterable[str], form: str = "{}") -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {form.format(near[0])}?" if near else ""


def load(
    *,
    environ: Mapping[str, str],
    config: Path | None = None,
    command_line: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings from *profile* (a command's own defaults), *config*, *environ* and options.

    Raises WrongSettings, which names every setting that is unknown or wrong, one a line."""
    known = dict(fields())
    gathered = _Gathered()
    if folders := environ.get(_STATE_DIRECTORY):
        gathered.put("data_dir", folders.split(":")[0], _STATE_DIRECTORY)
    for name, value in (profile or {}).items():
        gathered.put(name, value, "default of this command")
    if config is not None:
        _read_toml(config, known, gathered)
    _read_environment(environ, known, gathered)
    for name, value in (command_line or {}).items():
        if value is not None:
            gathered.put(name, value, "command line")
    settings = _validate(gathered)
    if gathered.problems or settings is None:
        raise WrongSettings("\n".join(gathered.problems))
    return Loaded(settings, gathered.origins)


def _read_toml(path: Path, known: Mapping[str, Any], gathered: _Gathered) -> None:
    try:
        text = read_bytes(path, _MAX_FILE_BYTES).decode()
        table = tomllib.loads(text)
    except RecursionError:
        gathered.problems.append(f"{path}: it is nested too deeply")
        return
    except (OSError, ValueError) as wrong:
        gathered.problems.append(f"{path}: {_said(wrong)}")
        return
    lines = toml.lines_by_name(text)
    groups = {name.rpartition(".")[0] for name in known} - {""}

    def origin(name: str) -> str:
        return f"{path}, line {lines[name]}" if name in lines else str(path)

    for name, value in _flat(table, groups):
        if name in known:
            gathered.put(name, value, origin(name))
        elif name in groups:
            gathered.problems.append(f"{name} ({origin(name)}): it is a table: [{name}]")
        elif isinstance(value, dict):
            gathered.refuse_table(name, origin(name), {*groups, *_named_tables(known)})
        else:
            gathered.refuse_unknown(name, origin(name), known)


def _flat(
    table: Mapping[str, Any], groups: Container[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """The settings in *table* by dotted name, and what else there is, tables as they are."""
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict) and name in groups:
            yield from _flat(value, groups, name + ".")
        else:
            yield name, value


def _read_environment(
    environ: Mapping[str, str], known: Mapping[str, Any], gathered: _Gathered
) -> None:
    """`CONTENT_GATEWAY_A__B` sets a.b; `CONTENT_GATEWAY_A__B_FILE` names a file that holds it."""
    from_files = {}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        name = variable.removeprefix(ENV_PREFIX).lower().replace("__", ".")
        if name in known:
            gathered.put(name, _decoded(known[name], text), variable)
        elif name.removesuffix("_file") in known:
            from_files[name.removesuffix("_file")] = (variable, Path(text))
        else:
            gathered.refuse_unknown(name, variable, known)
    for name, (variable, path) in from_files.items():
        try:
            text = read_bytes(path, _MAX_SECRET_BYTES).decode().strip()
            gathered.put(name, _decoded(known[name], text), variable)
        except (OSError, ValueError) as wrong:
            gathered.problems.append(f"{name} ({variable}): {path}: {_said(wrong)}")


def _named_tables(known: Mapping[str, Any]) -> Iterator[str]:
    """The settings that hold tables which the operator names: [limits.types.NAME]."""
    return (name for name, info in known.items() if "dict" in str(info.annotation))


def _said(wrong: OSError | ValueError) -> str:
    """What is wrong with a file, without the number and the path that Python puts around it."""
    if isinstance(wrong, UnicodeDecodeError):
        return "it is not UTF-8"
    return (wrong.strerror if isinstance(wrong, OSError) else None) or str(wrong)


def _decoded(info: Any, text: str) -> Any:
    """*text*, or what it is in JSON where the setting is a list or a table."""
    if not re.search(r"tuple|dict", str(info.annotation)):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text  # which pydantic will refuse, beside everything else that is wrong


def _validate(gathered: _Gathered) -> Settings | None:
    nested: dict[str, Any] = {}
    for name, value in gathered.values.items():
        *groups, leaf = name.split(".")
        table = nested
        for group in groups:
            table = table.setdefault(group, {})
        table[leaf] = value
    try:
        return Settings.model_validate(nested)
    except ValidationError as wrong:
        for error in wrong.errors(include_input=False, include_url=False):
            place = [str(part) for part in error["loc"]]
            setting = ".".join(place[:2])
            is_inside = len(place) > 2 and not place[2].isdigit()  # a table within the setting
            name = ".".join(place) if is_inside else setting
            origin = gathered.origins.get(setting) or gathered.origins.get(".".join(place[:1]))
            message = _words(error, name)
            where = f"{name} ({origin}): " if origin else f"{name}: " if name else ""
            gathered.problems.append(where + message)
        return None


# What pydantic says in the words of Python.
_PLAIN_WORDS: Final = {
    "tuple_type": "must be a list",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
}


def _words(error: ErrorDetails, name: str) -> str:
    """What is wrong with the value of the setting *name*."""
    if error["type"] == "extra_forbidden":  # within a table that the operator has named
        leaf = name.rpartition(".")[2]
        return "there is no such setting" + _meant(leaf, KeyTypeSettings.model_fields)
    if error["type"] == "too_short" and error["ctx"]["min_length"] == 1:
        return "must name one at least"
    return _PLAIN_WORDS.get(error["type"]) or error["msg"].removeprefix("Value error, ")
