"""The settings as a whole, and the rules that hold between them.

Knows the groups; their settings are in groups.py, the sources of values in sources.py."""

from collections.abc import Iterator
from functools import reduce
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field, model_validator

from content_gateway.codecs.quantities import spell_bytes, spell_seconds
from content_gateway.settings.groups import (
    AdminSettings,
    AuditSettings,
    BasenamesSettings,
    CapacitySettings,
    ClusterSettings,
    ContentSettings,
    CorsSettings,
    DatabaseSettings,
    DenylistSettings,
    DohSettings,
    EmbeddedSettings,
    EnsSettings,
    GatewaySettings,
    GnosisSettings,
    Group,
    IpnsSettings,
    KeySettings,
    KuboSettings,
    LimitSettings,
    LogSettings,
    NameSettings,
    PinSettings,
    TraceSettings,
    UnstoppableSettings,
)
from content_gateway.settings.values import (
    BYTES,
    SECONDS,
    IpNetwork,
    is_postgres,
    shown_database,
)

PACKAGED_SPEC: Final = Path(__file__).parents[1] / "spec.yaml"


class Settings(Group):
    """Every setting. Valid as a whole: what contradicts itself is refused."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0: any free one")
    connections: int = Field(
        0, ge=0, le=1_000_000, description="connections at a time; 0: what the open files allow"
    )
    trusted_proxies: tuple[IpNetwork, ...] = Field(
        (),
        max_length=100,
        description="addresses and networks of your proxies (10.0.0.0/8), whose X-Forwarded-For is"
        " believed",
    )
    workers: int = Field(
        1, ge=1, le=64, description="processes that take requests, with a supervisor if several"
    )
    data_dir: Path = Field(Path(".content-gateway"), description="the ledger and the blocks")
    spec_file: Path = Field(PACKAGED_SPEC, description="the OpenAPI description that is served")
    keys: KeySettings = KeySettings()
    cors: CorsSettings = CorsSettings()
    database: DatabaseSettings = DatabaseSettings()
    names: NameSettings = NameSettings()
    ens: EnsSettings = EnsSettings()
    basenames: BasenamesSettings = BasenamesSettings()
    gnosis: GnosisSettings = GnosisSettings()
    unstoppable: UnstoppableSettings = UnstoppableSettings()
    ipns: IpnsSettings = IpnsSettings()
    doh: DohSettings = DohSettings()
    denylist: DenylistSettings = DenylistSettings()
    pins: PinSettings = PinSettings()
    ipfs_cluster: ClusterSettings = ClusterSettings()
    kubo: KuboSettings = KuboSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    content: ContentSettings = ContentSettings()
    gateway: GatewaySettings = GatewaySettings()
    limits: LimitSettings = LimitSettings()
    capacity: CapacitySettings = CapacitySettings()
    admin: AdminSettings = AdminSettings()
    audit: AuditSettings = AuditSettings()
    log: LogSettings = LogSettings()
    traces: TraceSettings = TraceSettings()

    @model_validator(mode="after")
    def _open_keys_stay_on_loopback(self) -> "Settings":
        if self.keys.mode == "open" and not _is_loopback(self.host):
            raise ValueError('keys.mode "open" lets anybody in: host must be a loopback address')
        return self

    @model_validator(mode="after")
    def _a_quorum_can_be_reached(self) -> "Settings":
        for group in ("ens", "basenames", "gnosis", "unstoppable"):
            for name, urls in getattr(self, group):
                # The same endpoint twice is one voice.
                if name.endswith("rpc_urls") and 0 < len(set(urls)) < self.ens.quorum:
                    raise ValueError(f"ens.quorum asks for more endpoints than {group}.{name} has")
        return self

    @model_validator(mode="after")
    def _a_lookup_outlasts_an_endpoint(self) -> "Settings":
        if self.names.deadline <= self.ens.timeout:
            raise ValueError("names.deadline leaves no time for a second endpoint (ens.timeout)")
        return self

    @model_validator(mode="after")
    def _local_gateways_stay_out_of_production(self) -> "Settings":
        if self.ens.local_gateways and self.keys.mode != "open":
            raise ValueError('ens.local_gateways is for tests: it needs keys.mode "open"')
        return self

    @model_validator(mode="after")
    def _replicas_fit(self) -> "Settings":
        least, most = self.pins.replication_min, self.pins.replication_max
        if self.pins.backend == "ipfs-cluster":
            if not _factors_fit(least, most or least):
                raise ValueError(
                    "pins.replication_min and pins.replication_max: both are left out, both are "
                    "-1, or both are at least 1 and the first is not the greater."
                )
        elif least or most:
            raise ValueError('pins.replication_min and _max are for pins.backend "ipfs-cluster"')
        return self

    @model_validator(mode="after")
    def _a_token_can_be_signed(self) -> "Settings":
        chosen = self.ipfs_cluster
        if chosen.jwt and (not chosen.username or not chosen.password or chosen.token):
            raise ValueError("ipfs_cluster.jwt needs a username and a password, and no token")
        return self

    @model_validator(mode="after")
    def _only_what_is_embedded_is_served(self) -> "Settings":
        if self.embedded.serve and self.pins.backend != "embedded":
            raise ValueError('embedded.serve needs pins.backend "embedded"')
        return self

    @model_validator(mode="after")
    def _sites_have_content(self) -> "Settings":
        if self.gateway.hosts and self.content.mode == "off":
            raise ValueError('gateway.hosts shows content: content.mode must not be "off"')
        return self

    @property
    def blocks_path(self) -> Path:
        """The SQLite file of the embedded store's blocks."""
        return self.data_dir / "blocks.sqlite"

    @model_validator(mode="after")
    def _blocks_of_one_machine_have_a_ledger_of_their_own(self) -> "Settings":
        if self.has_shared_ledger and self.pins.backend == "embedded":
            raise ValueError(
                'pins.backend "embedded" keeps its blocks on one machine, and a ledger in'
                ' PostgreSQL is for many: say "ipfs-cluster" or "kubo", or leave database.url out'
            )
        return self

    @property
    def has_shared_ledger(self) -> bool:
        """Whether the ledger is in PostgreSQL, where any number of machines have it."""
        return is_postgres(self.database.url)

    @property
    def ledger_path(self) -> Path:
        """The SQLite file; of a shared ledger, beside what would the files stand that are about it
        on this machine."""
        url = self.database.url
        if self.has_shared_ledger:
            return self.data_dir / "ledger.postgresql"
        return Path(url.removeprefix("sqlite:///")) if url else self.data_dir / "ledger.sqlite"

    @property
    def ledger_name(self) -> str:
        """Which ledger it is, for people: a path, or a server and a database."""
        shared = self.has_shared_ledger
        return shown_database(self.database.url) if shared else str(self.ledger_path)


def _factors_fit(least: int, most: int) -> bool:
    """What the cluster would refuse with 400 and pin all the same (docs/facts/pins.md, trap 1)."""
    if least <= 0 or most <= 0:
        return least == most and least in (0, -1)
    return least <= most


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def value_of(settings: Settings, name: str) -> Any:
    """The value of the setting with this dotted name."""
    return reduce(getattr, name.split("."), settings)


def with_unit(info: Any, value: Any) -> Any:
    """*value* of a setting as it can be written in a file: a time and a size with their unit."""
    if SECONDS in info.metadata:
        return spell_seconds(value)
    return spell_bytes(value) if BYTES in info.metadata else value


def fields(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its dotted name, with pydantic's description of it."""
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, info
