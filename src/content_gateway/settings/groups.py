"""The groups of settings: what can be set, and its default.

Knows each setting by itself; what a valid value looks like is in values.py, the rules that hold
between settings in model.py, what they do in wiring/."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from content_gateway.settings.unstoppable_defaults import PROXY_READERS, TLDS
from content_gateway.settings.values import (
    Address,
    Bytes,
    DatabaseUrl,
    HostPattern,
    HttpUrl,
    IpAddress,
    LocalOrigin,
    Multiaddr,
    OptionalHttpUrl,
    Origin,
    RedirectTemplate,
    Replicas,
    Seconds,
    StoreUrl,
    WebSocketUrl,
)

SECRET: Final[dict[str, Any]] = {"secret": True}


class Group(BaseModel):
    """Settings that belong together; frozen, and unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _endpoints(chain: str) -> Any:
    return Field(
        (),
        description=f"JSON-RPC endpoints of {chain}; empty: not asked",
        json_schema_extra=SECRET,
    )


def _sockets(chain: str) -> Any:
    return Field(
        (),
        description=f"WebSocket endpoints of {chain}, of which one is listened to: a name that has"
        " changed there is looked up again at once; empty: after `names.fresh`",
        json_schema_extra=SECRET,
    )


def _proxy_reader(chain: str) -> Any:
    return Field(PROXY_READERS[chain], description=f"the ProxyReader on {chain.title()}")


class KeySettings(Group):
    """API keys."""

    mode: Literal["issued", "open"] = Field(
        "issued", description="who is let in: keys we issued, or any key (loopback only)"
    )


class CorsSettings(Group):
    """Browsers."""

    origins: tuple[Origin, ...] = Field(
        (), description="origins whose pages may call this service (`https://app.example`); *: any"
    )


class DatabaseSettings(Group):
    """The ledger."""

    url: DatabaseUrl = Field(
        "",
        description="sqlite:///PATH, or postgresql://...; empty: ledger.sqlite in data_dir",
        json_schema_extra=SECRET,
    )
    connections: int = Field(
        8, ge=2, le=200, description="connections to PostgreSQL, besides five for searches and news"
    )
    timeout: Seconds = Field(
        5.0, ge=0.5, le=60, description="seconds that a statement in PostgreSQL may take"
    )


class NameSettings(Group):
    """Name services."""

    zone_file: Path | None = Field(None, description="TOML file of names answered locally")
    deadline: Seconds = Field(10.0, gt=0, le=60, description="seconds one lookup may take in all")
    fresh: Seconds = Field(300.0, gt=0, le=86_400, description="seconds an answer serves unasked")
    absent: Seconds = Field(
        30.0, gt=0, le=3600, description="seconds that a name is known not to exist"
    )
    poll_interval: Seconds = Field(
        0,
        ge=0,
        le=3600,
        description="seconds between questions for a new block of each chain, through its rpc_urls,"
        " where none of its WebSocket endpoints is heard: a call each time, and one for each block;"
        " 0: it is not asked for, and names that change are looked up again after `names.fresh`",
    )
    cache_entries: int = Field(100_000, ge=1, le=10_000_000, description="answers kept in memory")
    stale_limit: Seconds = Field(
        3600.0,
        ge=0,
        le=604_800,
        description="seconds that the last known answer serves while a name service is down",
    )


class EnsSettings(Group):
    """ENS."""

    rpc_urls: tuple[HttpUrl, ...] = Field(
        ("https://ethereum-rpc.publicnode.com", "https://eth.drpc.org", "https://1rpc.io/eth"),
        description="Ethereum JSON-RPC endpoints, asked in this order; empty: ENS is off",
        json_schema_extra=SECRET,
    )
    ws_urls: tuple[WebSocketUrl, ...] = _sockets("Ethereum")
    quorum: int = Field(
        1,
        ge=1,
        le=16,
        description="endpoints of a chain that must agree; 1: the first that answers is believed",
    )
    universal_resolver: Address = Field(
        "0xeEeEEEeE14D718C2B47D9923Deab1335E144EeEe", description="the Universal Resolver"
    )
    registry: Address = Field(
        "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e", description="the ENS registry"
    )
    name_wrapper: Address = Field(
        "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401", description="the NameWrapper"
    )
    timeout: Seconds = Field(2.5, gt=0, le=60, description="seconds one endpoint may take")
    local_gateways: tuple[LocalOrigin, ...] = Field(
        (),
        description="off-chain gateways on this machine, for tests: http://127.0.0.1:PORT",
    )


class BasenamesSettings(Group):
    """Names below base.eth, whose content is kept on Base."""

    rpc_urls: tuple[HttpUrl, ...] = Field(
        ("https://mainnet.base.org", "https://base-rpc.publicnode.com", "https://base.drpc.org"),
        description="JSON-RPC endpoints of Base; empty: only what ENS says of them",
        json_schema_extra=SECRET,
    )
    ws_urls: tuple[WebSocketUrl, ...] = _sockets("Base")
    registry: Address = Field(
        "0xB94704422c2a1E396835A571837Aa5AE53285a95", description="their registry on Base"
    )


class GnosisSettings(Group):
    """Names below .gno (SPACE ID), which are kept on Gnosis."""

    rpc_urls: tuple[HttpUrl, ...] = Field(
        (
            "https://rpc.gnosischain.com",
            "https://gnosis-rpc.publicnode.com",
            "https://gnosis.drpc.org",
        ),
        description="JSON-RPC endpoints of Gnosis; empty: the names are unavailable",
        json_schema_extra=SECRET,
    )
    ws_urls: tuple[WebSocketUrl, ...] = _sockets("Gnosis")
    registry: Address = Field(
        "0x5dC881dDA4e4a8d312be3544AD13118D1a04Cb17", description="their registry on Gnosis"
    )


class UnstoppableSettings(Group):
    """Unstoppable Domains; asked on the chains that have endpoints here, all at once."""

    polygon_rpc_urls: tuple[HttpUrl, ...] = _endpoints("Polygon")
    polygon_ws_urls: tuple[WebSocketUrl, ...] = _sockets("Polygon")
    polygon_proxy_reader: Address = _proxy_reader("polygon")
    base_rpc_urls: tuple[HttpUrl, ...] = _endpoints("Base")
    base_ws_urls: tuple[WebSocketUrl, ...] = _sockets("Base")
    base_proxy_reader: Address = _proxy_reader("base")
    sonic_rpc_urls: tuple[HttpUrl, ...] = _endpoints("Sonic")
    sonic_ws_urls: tuple[WebSocketUrl, ...] = _sockets("Sonic")
    sonic_proxy_reader: Address = _proxy_reader("sonic")
    ethereum_rpc_urls: tuple[HttpUrl, ...] = _endpoints("Ethereum")
    ethereum_ws_urls: tuple[WebSocketUrl, ...] = _sockets("Ethereum")
    ethereum_proxy_reader: Address = _proxy_reader("ethereum")
    tlds: tuple[str, ...] = Field(TLDS, description="endings that are theirs, asked before ENS")
    shared_tlds: tuple[str, ...] = Field(
        (), description="endings that are in DNS as well: ENS is asked first"
    )


class IpnsSettings(Group):
    """IPNS."""

    routers: tuple[HttpUrl, ...] = Field(
        ("https://delegated-ipfs.dev",),
        description="delegated routers, asked all at once",
        json_schema_extra=SECRET,
    )
    gateways: tuple[HttpUrl, ...] = Field(
        ("https://trustless-gateway.link",),
        description="trustless gateways, asked at the same time",
        json_schema_extra=SECRET,
    )
    kubo_url: OptionalHttpUrl = Field(
        "",
        description="RPC API of a Kubo node, asked at the same time; empty: none",
        json_schema_extra=SECRET,
    )
    dns_servers: tuple[IpAddress, ...] = Field(
        (), description="resolvers for DNSLink; empty: the system's"
    )
    timeout: Seconds = Field(5.0, gt=0, le=60, description="seconds one source may take")


class DohSettings(Group):
    """DNS over HTTPS, at /dns-query: what names point at, for whoever knows DNS only."""

    open: bool = Field(False, description="answer without a key, too; otherwise with one only")
    requests_per_minute: int = Field(
        600,
        ge=0,
        le=1_000_000_000,
        description="requests without a key in any 60 seconds, of one address and process; 0: no"
        " limit",
    )
    addresses: tuple[IpAddress, ...] = Field(
        (),
        max_length=20,
        description="addresses of your gateway: A and AAAA of every name with content; empty: none",
    )
    forward: bool = Field(
        False,
        description="ask ipns.dns_servers about names of no name service; else they are refused",
    )


class DenylistSettings(Group):
    """What is not served, whoever asks."""

    content_file: Path | None = Field(
        None, description="content and IPNS names, in the IPFS compact denylist format"
    )
    domains_file: Path | None = Field(
        None, description="domains, one a line; *.example.eth: all below"
    )


class PinSettings(Group):
    """Pinning."""

    backend: Literal["embedded", "ipfs-cluster", "kubo"] = Field(
        "embedded", description="where pinned content is kept"
    )
    replication_min: Replicas = Field(
        0, description="peers of a cluster that must hold a pin; 0: its default, -1: all"
    )
    replication_max: Replicas = Field(
        0, description="peers of a cluster that may hold a pin; 0: its default, -1: all"
    )
    timeout: Seconds = Field(
        3600.0, ge=1, le=86_400, description="seconds one try to bring a content in may take"
    )
    unpin_grace: Seconds = Field(
        60.0, ge=0, le=2_592_000, description="seconds until a content that nobody holds leaves"
    )
    resync_interval: Seconds = Field(
        21_600.0,
        ge=1,
        le=2_592_000,
        description="seconds between comparisons of the ledger with the backend",
    )
    delegates: tuple[Multiaddr, ...] = Field(
        (),
        max_length=20,
        description="your nodes' multiaddrs; Pinning Service clients connect to them",
    )
    private_origins: bool = Field(
        False,
        description="private addresses and local names as origins of pins, and as delegates",
    )


class ClusterSettings(Group):
    """IPFS Cluster, for pins.backend = "ipfs-cluster"."""

    urls: Annotated[tuple[HttpUrl, ...], Field(min_length=1)] = Field(
        ("http://127.0.0.1:9094",),
        description="REST APIs of a cluster's peers; each CID has its own, the others stand by",
        json_schema_extra=SECRET,
    )
    username: str = Field("", description="user for authentication; empty: none")
    password: str = Field("", description="its password", json_schema_extra=SECRET)
    jwt: bool = Field(False, description="send a token signed with the password, and not itself")
    token: str = Field(
        "", pattern="^[!-~]*$", description="a ready-made JWT instead", json_schema_extra=SECRET
    )
    timeout: Seconds = Field(10.0, gt=0, le=60, description="seconds one request may take")
    batch_age: Seconds = Field(
        60.0,
        ge=0,
        le=3600,
        description="seconds until an accepted change is durable (its batching.max_batch_age)",
    )
    concurrent_pins: int = Field(
        10, ge=1, le=1000, description="how many pins a peer is at, at a time (its concurrent_pins)"
    )


class KuboSettings(Group):
    """Kubo, for pins.backend = "kubo"."""

    url: HttpUrl = Field(
        "http://127.0.0.1:5001", description="RPC API of the node", json_schema_extra=SECRET
    )


class EmbeddedSettings(Group):
    """The embedded store, for pins.backend = "embedded"."""

    gateways: tuple[HttpUrl, ...] = Field(
        ("https://trustless-gateway.link",),
        description="trustless gateways, asked side by side",
        json_schema_extra=SECRET,
    )
    timeout: Seconds = Field(30.0, gt=0, le=600, description="seconds one block may take")
    parallel: int = Field(
        8,
        ge=1,
        le=64,
        description="contents brought in at once for one key; half as many more for all others",
    )
    max_blocks: int = Field(
        1_000_000,
        ge=1,
        le=100_000_000,
        description="blocks that one pin may have, and links in them, duplicates included",
    )
    max_bytes: Bytes = Field(64 * 1024**3, ge=1, description="bytes that one pin may have")
    max_depth: int = Field(1_000, ge=1, le=100_000, description="levels that one pin may have")
    serve: bool = Field(
        False,
        description="serve what is held at /ipfs/{cid} and /ipns/{key}, without a key",
    )


class ContentSettings(Group):
    """The content of domains, at /domain/ipfs and on the hosts of `gateway.hosts`."""

    mode: Literal["verified", "redirect", "off"] = Field(
        "verified",
        description="files, each block verified; or a redirect to another gateway; or nothing",
    )
    gateways: tuple[HttpUrl, ...] = Field(
        ("https://trustless-gateway.link",),
        description="trustless gateways that are asked for blocks that are not held here",
        json_schema_extra=SECRET,
    )
    redirect_to: RedirectTemplate = Field(
        "https://{cid}.ipfs.dweb.link{path}",
        description="where mode redirect leads: {cid} or {domain}, and {path}, are filled in",
    )
    deadline: Seconds = Field(
        30.0, gt=0, le=600, description="seconds until an answer with content has begun"
    )
    timeout: Seconds = Field(15.0, gt=0, le=600, description="seconds one block may take")
    parallel: int = Field(
        64, ge=3, le=1_000, description="blocks fetched from gateways at once, shared fairly"
    )
    memory: Bytes = Field(
        32 * 1024 * 1024, ge=0, description="bytes of blocks that are kept in memory, by process"
    )


class GatewaySettings(Group):
    """Sites on hosts of their own."""

    hosts: tuple[HostPattern, ...] = Field(
        (),
        max_length=100,
        description="hosts that show a name's content without a key: with `*.example.limo`"
        " vitalik.eth.example.limo and vitalik-eth.example.limo are that of vitalik.eth",
    )
    lookups_per_minute: int = Field(
        600,
        ge=0,
        le=1_000_000_000,
        description="names not known yet that are looked up in any 60 seconds for one address"
        " without a key (sites, /ipns/{key}), by process; 0: no limit",
    )
    certificates_per_minute: int = Field(
        600,
        ge=1,
        le=1_000_000,
        description="names that /tls/ask looks up in any 60 seconds, by process",
    )


class CapacitySettings(Group):
    """What all share, fairly by key or network: one alone gets two thirds, less as others come."""

    waiting: int = Field(
        16_384, ge=3, le=1_000_000, description="requests that wait for their turn; more get 503"
    )
    lag: Seconds = Field(
        0.5,
        gt=0,
        le=60,
        description="seconds that the event loop may be late for two seconds until none waits",
    )
    lookups: int = Field(256, ge=3, le=10_000, description="names looked up at once")
    ipns_lookups: int = Field(256, ge=3, le=10_000, description="IPNS links looked up at once")
    large_answers: int = Field(
        48, ge=3, le=10_000, description="answers above 16 KiB sent at once, of 3 MiB each at most"
    )
    slow_rate: Bytes = Field(
        16_384, ge=1, description="bytes a second that the reader of a large answer must take"
    )


_MOST: Final = 1_000_000_000  # of any limit of keys


def _limit(what: str) -> Any:
    return Field(0, ge=0, le=_MOST, description=f"{what}; 0: no limit")


class KeyTypeSettings(Group):
    """One type of keys. A limit that is left out is that of all keys."""

    operations: tuple[str, ...] = ()
    requests_per_minute: int | None = Field(None, ge=0, le=_MOST)
    requests_per_day: int | None = Field(None, ge=0, le=_MOST)
    pins: int | None = Field(None, ge=0, le=_MOST)
    lookups: int | None = Field(None, ge=0, le=_MOST)
    streams: int | None = Field(None, ge=0, le=_MOST)


class LimitSettings(Group):
    """What one key may use, counted by this service, or by several that share a store."""

    requests_per_minute: int = _limit("requests in any 60 seconds")
    requests_per_day: int = _limit("requests in any 24 hours")
    pins: int = _limit("pins in all")
    lookups: int = _limit("names, and IPNS links, looked up at once")
    streams: int = _limit("large answers and CARs at once; also of an address without a key")
    url: StoreUrl = Field(
        "",
        description="Valkey or Redis through which services share these requests a minute and a"
        " day: redis://, rediss://, valkey://, valkeys://, unix:///PATH (the extra `valkey`);"
        " empty: each counts its own",
        json_schema_extra=SECRET,
    )
    prefix: str = Field(
        "content-gateway",
        pattern="^[A-Za-z0-9._-]{1,64}$",
        description="begins the names of all that is kept there: one for each deployment",
    )
    types: dict[str, KeyTypeSettings] = Field(
        {},
        description="limits of keys of that type (`keys create --type`), and the operations, by"
        ' operationId, that it grants: none that are not listed; `["*"]`: all',
    )


class AdminSettings(Group):
    """The admin listener, for whoever runs the service: health and metrics without a key."""

    host: str = Field(
        "127.0.0.1", description="address that serves /livez, /readyz, /metrics and /status"
    )
    port: int = Field(8081, ge=0, le=65535, description="its port; 0: there is none")
    oldest_waiting: Seconds = Field(
        0,
        ge=0,
        description="seconds that a pin may wait, other than one that failed, until /readyz is"
        " red; 0: however long",
    )
    drain: Seconds = Field(
        0,
        ge=0,
        le=3600,
        description="seconds between SIGTERM, when /readyz turns red, and the stop of the service",
    )


class AuditSettings(Group):
    """The audit log, in the ledger."""

    entries: int = Field(
        100_000,
        ge=0,
        le=10_000_000,
        description="entries kept of what keys pinned, removed and were refused; 0: none",
    )


class TraceSettings(Group):
    """Traces, by OpenTelemetry (the extra `otel`)."""

    url: OptionalHttpUrl = Field(
        "",
        description="collector that spans are sent to, by OTLP over HTTP; empty: no traces",
        json_schema_extra=SECRET,
    )
    sample: float = Field(
        0.1, ge=0, le=1, description="share of requests that are traced without a trace of theirs"
    )


class LogSettings(Group):
    """Logging, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level")
    format: Literal["text", "json"] = Field("text", description="for people, or for machines")
    access: Literal["off", "sampled", "on"] = Field(
        "sampled",
        description="a line for no request; for one of a hundred, and failures of ours and what"
        " takes a second, ten of these a second; or for every request",
    )
