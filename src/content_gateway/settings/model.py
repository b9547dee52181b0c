"""The settings: what can be set, its default, and what is a valid value.

Knows the shape and the rules that hold between settings; where values come from is left to
sources.py, what they do to app.py."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

PACKAGED_SPEC: Final = Path(__file__).parents[1] / "spec.yaml"


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
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
    if text and (not text.startswith("sqlite:///") or ":memory:" in text):
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
        ("https://delegated-ipfs.dev",),
        description="delegated routers, asked all at once",
        json_schema_extra=SECRET,
    )
    timeout: float = Field(5.0, gt=0, le=60, description="seconds one router may take")


class Pins(_Group):
    """Pinning."""

    backend: Literal["embedded", "ipfs-cluster", "kubo"] = Field(
        "embedded", description="where pinned content is kept"
    )


class Cluster(_Group):
    """IPFS Cluster, for pins.backend = "ipfs-cluster"."""

    url: HttpUrl = Field(
        "http://127.0.0.1:9094", description="REST API of one peer", json_schema_extra=SECRET
    )
    username: str = Field("", description="user for Basic authentication; empty: none")
    password: str = Field("", description="its password", json_schema_extra=SECRET)


class Kubo(_Group):
    """Kubo, for pins.backend = "kubo"."""

    url: HttpUrl = Field(
        "http://127.0.0.1:5001", description="RPC API of the node", json_schema_extra=SECRET
    )


class Embedded(_Group):
    """The embedded store, for pins.backend = "embedded"."""

    gateways: tuple[HttpUrl, ...] = Field(
        ("https://trustless-gateway.link",),
        description="trustless gateways, asked in this order",
        json_schema_extra=SECRET,
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
