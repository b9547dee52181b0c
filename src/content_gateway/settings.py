"""Settings: defaults, a TOML file, the environment and the command line, as one frozen value.

Every source is read into the same flat form (`ens.rpc_urls`), the later ones win, and the place
each value came from is kept. Everything that is wrong, in any source, is named at once. What
the values do is left to app.py."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from content_gateway.errors import WrongSettings

ENV_PREFIX: Final = "CONTENT_GATEWAY_"
PACKAGED_SPEC: Final = Path(__file__).with_name("spec.yaml")
_MAX_SECRET_BYTES: Final = 64 * 1024
_MASK: Final = "********"


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// address")
    return text


def _address(text: str) -> str:
    try:
        if text.startswith("0x") and len(bytes.fromhex(text[2:])) == 20:
            return text
    except ValueError:
        pass
    raise ValueError("must be a contract address: 0x and 40 hex digits")


def _sqlite_url(text: str) -> str:
    if text and not text.startswith("sqlite:///"):
        raise ValueError("must be sqlite:///PATH (four slashes for an absolute path)")
    return text


HttpUrl = Annotated[str, AfterValidator(_http_url)]
Address = Annotated[str, AfterValidator(_address)]
SECRET: Final[dict[str, Any]] = {"secret": True}


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Keys(_Group):
    """API keys."""

    mode: Literal["issued", "open"] = Field(
        "issued", description="who is let in: keys we issued, or any key (loopback only)"
    )


class Database(_Group):
    """The ledger."""

    url: Annotated[str, AfterValidator(_sqlite_url)] = Field(
        "",
        description="sqlite:///PATH; empty: ledger.sqlite in data_dir",
        json_schema_extra=SECRET,
    )


class Names(_Group):
    """Name services."""

    zone_file: Path | None = Field(None, description="TOML file of names answered locally")


class Ens(_Group):
    """ENS."""

    rpc_urls: tuple[HttpUrl, ...] = Field(
        ("https://ethereum-rpc.publicnode.com", "https://eth.drpc.org", "https://1rpc.io/eth"),
        description="Ethereum JSON-RPC endpoints, asked in this order; empty: ENS is off",
        json_schema_extra=SECRET,
    )
    universal_resolver: Address = Field(
        "0xeEeEEEeE14D718C2B47D9923Deab1335E144EeEe", description="the Universal Resolver"
    )
    registry: Address = Field(
        "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e", description="the ENS registry"
    )
    timeout: float = Field(2.5, gt=0, le=60, description="seconds one endpoint may take")


class Ipns(_Group):
    """IPNS."""

    routers: tuple[HttpUrl, ...] = Field(
        ("https://delegated-ipfs.dev",), description="delegated routers, asked all at once"
    )
    timeout: float = Field(5.0, gt=0, le=60, description="seconds one router may take")


class Pins(_Group):
    """Pinning."""

    backend: Literal["embedded", "ipfs-cluster", "kubo"] = Field(
        "embedded", description="where pinned content is kept"
    )


class Cluster(_Group):
    """IPFS Cluster, for pins.backend = "ipfs-cluster"."""

    url: HttpUrl = Field("http://127.0.0.1:9094", description="REST API of one peer")
    username: str = Field("", description="user for Basic authentication; empty: none")
    password: str = Field("", description="its password", json_schema_extra=SECRET)


class Kubo(_Group):
    """Kubo, for pins.backend = "kubo"."""

    url: HttpUrl = Field("http://127.0.0.1:5001", description="RPC API of the node")


class Embedded(_Group):
    """The embedded store, for pins.backend = "embedded"."""

    gateways: tuple[HttpUrl, ...] = Field(
        ("https://trustless-gateway.link",), description="trustless gateways, asked in this order"
    )
    timeout: float = Field(30.0, gt=0, le=600, description="seconds one block may take")


class Log(_Group):
    """Logging, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level")
    format: Literal["text", "json"] = Field("text", description="for people, or for machines")


class Settings(_Group):
    """Every setting. Valid as a whole: what contradicts itself is refused."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any free one")
    data_dir: Path = Field(Path(".content-gateway"), description="the ledger and the blocks")
    spec_file: Path = Field(PACKAGED_SPEC, description="the OpenAPI description that is served")
    keys: Keys = Keys()
    database: Database = Database()
    names: Names = Names()
    ens: Ens = Ens()
    ipns: Ipns = Ipns()
    pins: Pins = Pins()
    ipfs_cluster: Cluster = Cluster()
    kubo: Kubo = Kubo()
    embedded: Embedded = Embedded()
    log: Log = Log()

    @model_validator(mode="after")
    def _open_keys_stay_on_loopback(self) -> "Settings":
        if self.keys.mode == "open" and not _is_loopback(self.host):
            raise ValueError('keys.mode "open" lets anybody in: host must be a loopback address')
        return self

    @property
    def ledger_path(self) -> Path:
        """The SQLite file."""
        url = self.database.url
        return Path(url.removeprefix("sqlite:///")) if url else self.data_dir / "ledger.sqlite"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def fields(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted name, with pydantic's description of it."""
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, info


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid settings, and where each that is not a default came from."""

    settings: Settings
    origins: Mapping[str, str]

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """Name, value (secrets masked) and origin of every setting."""
        for name, info in fields():
            value: Any = self.settings
            for part in name.split("."):
                value = getattr(value, part)
            hidden = value and (info.json_schema_extra or {}).get("secret")
            if hidden:
                text = (
                    json.dumps([mask(item) for item in value]) if _is_list(value) else mask(value)
                )
            else:
                text = json.dumps(value, default=str)
            yield name, text, self.origins.get(name, "default")


def mask(value: str) -> str:
    """*value* with what may be secret hidden: of an address, all but scheme and host is."""
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname:
        port = f":{parts.port}" if parts.port else ""
        open_part = f"{parts.scheme}://{parts.hostname}{port}"
        return open_part if value in (open_part, open_part + "/") else f"{open_part}/{_MASK}"
    return value if parts.scheme == "sqlite" else _MASK


def _is_list(value: object) -> bool:
    return isinstance(value, tuple)


@dataclass(slots=True)
class _Gathered:
    """Values by dotted name, the origin of each, and what was wrong on the way."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def put(self, name: str, value: Any, origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin


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
        with path.open("rb") as file:
            table = tomllib.load(file)
    except (OSError, ValueError) as wrong:
        gathered.problems.append(f"{path}: {wrong}")
        return
    for name, value in _flat(table, known):
        if name in known:
            gathered.put(name, value, str(path))
        else:
            gathered.problems.append(f"{name} ({path}): there is no such setting")


def _flat(
    table: Mapping[str, Any], known: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict) and name not in known:
            yield from _flat(value, known, name + ".")
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
            gathered.problems.append(f"{name} ({variable}): there is no such setting")
    for name, (variable, path) in from_files.items():
        try:
            with path.open() as file:
                gathered.put(
                    name, _decoded(known[name], file.read(_MAX_SECRET_BYTES).strip()), variable
                )
        except (OSError, ValueError) as wrong:
            gathered.problems.append(f"{name} ({variable}): {wrong}")


def _decoded(info: Any, text: str) -> Any:
    """*text*, or the list it is in JSON where the setting is a list."""
    if "tuple" not in str(info.annotation):
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
            name = (
                ".".join(place[:2]) if ".".join(place[:2]) in gathered.origins else ".".join(place)
            )
            origin = gathered.origins.get(name) or gathered.origins.get(place[0] if place else "")
            message = error["msg"].removeprefix("Value error, ")
            where = f"{name} ({origin}): " if origin else f"{name}: " if name else ""
            gathered.problems.append(where + message)
        return None
