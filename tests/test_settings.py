"""Settings: every source, every mistake named at once, nothing secret shown."""

import json
import os
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings, fields
from content_gateway.settings.sources import load


def test_the_defaults_are_valid() -> None:
    """With nothing said, the service listens on loopback with issued keys and embedded pins."""
    settings = load(environ={}).settings
    assert (settings.host, settings.port, settings.keys.mode) == ("127.0.0.1", 8080, "issued")
    assert settings.pins.backend == "embedded"
    assert settings.ledger_path == Path(".content-gateway/ledger.sqlite")


def test_later_sources_win(tmp_path: Path) -> None:
    """Command line over environment over file over the command's own defaults; origins are kept."""
    config = tmp_path / "gateway.toml"
    config.write_text('port = 1\nhost = "::1"\n[ens]\ntimeout = 9.0\n[log]\nlevel = "error"\n')
    loaded = load(
        environ={"CONTENT_GATEWAY_PORT": "2", "CONTENT_GATEWAY_HOST": "127.0.0.2", "HOME": "/x"},
        config=config,
        command_line={"port": 3, "data_dir": None},
        profile={"keys.mode": "open", "ens.timeout": 1},
    )
    assert (loaded.settings.port, loaded.settings.host) == (3, "127.0.0.2")
    assert (loaded.settings.ens.timeout, loaded.settings.keys.mode) == (9.0, "open")
    origins = {name: origin for name, _, origin in loaded.shown()}
    assert origins["port"] == "command line"
    assert origins["host"] == "CONTENT_GATEWAY_HOST"
    assert (origins["ens.timeout"], origins["log.level"]) == (
        f"{config}, line 4",
        f"{config}, line 6",
    )
    assert origins["keys.mode"] == "default of this command"
    assert origins["pins.backend"] == "default"


def test_lists_are_json_in_the_environment() -> None:
    """CONTENT_GATEWAY_ENS__RPC_URLS takes a JSON list."""
    loaded = load(environ={"CONTENT_GATEWAY_ENS__RPC_URLS": '["http://127.0.0.1:8545"]'})
    assert loaded.settings.ens.rpc_urls == ("http://127.0.0.1:8545",)


def test_a_secret_can_stand_in_a_file(tmp_path: Path) -> None:
    """*_FILE names a file that holds the value; spec_file and zone_file are settings themselves."""
    (tmp_path / "password").write_text("hush\n")
    loaded = load(
        environ={
            "CONTENT_GATEWAY_IPFS_CLUSTER__PASSWORD_FILE": str(tmp_path / "password"),
            "CONTENT_GATEWAY_SPEC_FILE": "/somewhere/spec.yaml",
            "CONTENT_GATEWAY_NAMES__ZONE_FILE": "/somewhere/zone.toml",
        }
    )
    assert loaded.settings.ipfs_cluster.password == "hush"
    assert loaded.settings.spec_file == Path("/somewhere/spec.yaml")
    assert loaded.settings.names.zone_file == Path("/somewhere/zone.toml")


def test_everything_wrong_is_named_at_once(tmp_path: Path) -> None:
    """One start is enough to see all mistakes of all sources, each with where it stands."""
    config = tmp_path / "gateway.toml"
    config.write_text('colour = "blue"\n[pins]\nbackend = "tape"\nsize = 3\n')
    with pytest.raises(WrongSettings) as refused:
        load(
            environ={
                "CONTENT_GATEWAY_PORT": "eighty",
                "CONTENT_GATEWAY_ENS__RPC_URLS": "http://127.0.0.1:8545",
                "CONTENT_GATEWAY_ENS__REGISTRY": "0x12",
                "CONTENT_GATEWAY_NOPE": "1",
                "CONTENT_GATEWAY_IPNS__ROUTERS": '["ftp://127.0.0.1"]',
                "CONTENT_GATEWAY_KUBO__URL_FILE": str(tmp_path / "missing"),
                "CONTENT_GATEWAY_DATABASE__URL": "mysql://x",
            },
            config=config,
        )
    lines = refused.value.detail.splitlines()
    for wrong in (
        f"colour ({config}, line 1)",
        f"pins.size ({config}, line 4)",
        f"pins.backend ({config}, line 3)",
        "port (CONTENT_GATEWAY_PORT)",
        "ens.rpc_urls (CONTENT_GATEWAY_ENS__RPC_URLS)",
        "ens.registry (CONTENT_GATEWAY_ENS__REGISTRY)",
        "nope (CONTENT_GATEWAY_NOPE)",
        "ipns.routers (CONTENT_GATEWAY_IPNS__ROUTERS)",
        "kubo.url (CONTENT_GATEWAY_KUBO__URL_FILE)",
        "database.url (CONTENT_GATEWAY_DATABASE__URL)",
    ):
        assert any(line.startswith(wrong) for line in lines), (wrong, lines)


@pytest.mark.parametrize("text", ["[", "port = ", "\x00"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, text: str) -> None:
    """A configuration file that cannot be read stops the start with its path."""
    config = tmp_path / "gateway.toml"
    config.write_text(text)
    with pytest.raises(WrongSettings, match=r"gateway\.toml"):
        load(environ={}, config=config)
    with pytest.raises(WrongSettings, match="missing"):
        load(environ={}, config=tmp_path / "missing")


@pytest.mark.parametrize(
    ("host", "is_fine"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.9.9.9", True),
     ("0.0.0.0", False), ("10.0.0.1", False), ("::", False), ("example.org", False)],
)  # fmt: skip
def test_open_keys_stay_on_loopback(host: str, is_fine: bool) -> None:
    """keys.mode "open" is refused on any address that others could reach."""
    options = {"keys.mode": "open", "host": host}
    if is_fine:
        load(environ={}, command_line=options)
    else:
        with pytest.raises(WrongSettings, match="loopback"):
            load(environ={}, command_line=options)


@pytest.mark.parametrize(
    ("least", "most"), [(0, 2), (3, 2), (-2, 0), (-1, 3), (2, -1), (-1, 1), (1, -2)]
)
def test_factors_that_the_cluster_would_refuse_are_refused_first(least: int, most: int) -> None:
    """A bad option is answered with 400, and pinned all the same: none is ever sent."""
    factors = {"replication_min": least, "replication_max": most}
    with pytest.raises(ValidationError):
        Settings.model_validate({"pins": {"backend": "ipfs-cluster", **factors}})


@pytest.mark.parametrize(("least", "most"), [(0, 0), (1, 0), (1, 1), (2, 3), (-1, 0), (-1, -1)])
def test_factors_that_fit_are_taken(least: int, most: int) -> None:
    """One of them alone counts for both."""
    factors = {"replication_min": least, "replication_max": most}
    Settings.model_validate({"pins": {"backend": "ipfs-cluster", **factors}})


def test_secrets_are_masked() -> None:
    """What is shown has no password, and no path or user of an address that may hold a key."""
    loaded = load(
        environ={
            "CONTENT_GATEWAY_IPFS_CLUSTER__PASSWORD": "hush",
            "CONTENT_GATEWAY_TRACES__URL": "https://user:hush@collector.example/hush",
            "CONTENT_GATEWAY_ENS__RPC_URLS": json.dumps(
                ["https://user:hush@node.example:8545/v3/hush?key=hush", "http://127.0.0.1:8545"]
            ),
        }
    )
    shown = "\n".join(f"{name} {value}" for name, value, _ in loaded.shown())
    assert "hush" not in shown
    assert "https://node.example:8545/********" in shown
    assert "https://collector.example/********" in shown
    assert "http://127.0.0.1:8545" in shown


def test_every_setting_is_described() -> None:
    """Each setting says what it does."""
    assert all(info.description for _, info in fields())


@pytest.mark.parametrize("which", ["config", "secret"])
def test_a_fifo_holds_no_settings(tmp_path: Path, which: str) -> None:
    """To open one would wait for whoever writes to it, and the start with it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    environ = {"CONTENT_GATEWAY_KUBO__URL_FILE": str(path)} if which == "secret" else {}
    with pytest.raises(WrongSettings, match="not a regular file"):
        load(environ=environ, config=path if which == "config" else None)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ens.rpc_url", "ens.rpc_urls"),
        ("prot", "port"),
        ("pins.backends", "pins.backend"),
        ("kubo.uri", "kubo.url"),
        ("nothing.like.it", None),
    ],
)
def test_a_misspelt_setting_is_told_which_is_meant(name: str, meant: str | None) -> None:
    """Where one is near; else there is no guess."""
    variable = "CONTENT_GATEWAY_" + name.upper().replace(".", "__")
    with pytest.raises(WrongSettings) as wrong:
        load(environ={variable: "1"})
    said = f"{name} ({variable}): there is no such setting"
    assert wrong.value.detail == (f"{said}; did you mean {meant}?" if meant else said)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://u:secret@db1,db2:5433/gw?sslmode=verify-full",
            "postgresql://db1,db2:5433/gw",
        ),
        ("postgres://db/gw", "postgresql://db/gw"),
        ("host=db1,db2 dbname=gw password=secret", "postgresql host=db1,db2 dbname=gw"),
        ("service=gateway", "postgresql service=gateway"),
    ],
)
def test_libpq_forms_of_a_database_are_taken(url: str, shown: str) -> None:
    """And shown without what could be a secret."""
    values = {"database.url": url, "pins.backend": "kubo"}
    settings = load(environ={}, command_line=values).settings
    assert settings.has_shared_ledger
    assert settings.ledger_name == shown


def test_a_shared_ledger_has_no_embedded_store() -> None:
    """Its blocks would be on one machine."""
    with pytest.raises(WrongSettings, match="ipfs-cluster"):
        load(environ={}, command_line={"database.url": "postgresql://db/gw"})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://db.example",
        "redis://:hush@db.example:6380/15",
        "redis://gateway:hush%2Fhush%40x@[::1]:6379/",
        "rediss://db.example?ssl_ca_certs=/etc/ca.pem",
        "valkey://db.example/0",
        "valkeys://gateway:hush@db.example:6380/1?ssl_ca_certs=/etc/ca.pem",
        "unix:///run/valkey/socket",
        "unix://gateway:hush@/run/valkey/socket?db=3",
    ],
)
def test_forms_of_a_store_of_limits_are_taken(url: str) -> None:
    """And never shown with what could be a secret."""
    loaded = load(environ={}, command_line={"limits.url": url})
    assert loaded.settings.limits.url == url
    assert "hush" not in str(list(loaded.shown()))


@pytest.mark.parametrize(
    "url",
    [
        "db.example:6379",
        "http://db.example",
        "redis:",
        "redis://",
        "redis://:hush@/1",
        "redis:///run/hush",
        "redis://db.example:0",
        "redis://db.example:65536",
        "redis://db.example:hush",
        "redis://gateway:hush/hush@db.example",  # its slash is no %2F
        "redis://gateway:1/hush@db.example",
        "redis://gateway:hush#hush@db.example",
        "redis://gateway:hush?hush@db.example",
        "redis://db.example/hush",
        "redis://db.example/-1",
        "redis://db.example/10000",
        "redis://db.example/1/2",
        "redis://db.example/1#hush",
        "redis://db.example?db=1",
        "redis://db.example?ssl_ca_certs=/etc/ca.pem",  # without TLS it would mean nothing
        "rediss://db.example?ssl_cert_reqs=none",
        "rediss://db.example?hush=hush",
        "redis://[::1",
        "unix://",
        "unix:///",
        "unix://run/hush",
        "unix:///run/socket?db=hush",
        "unix:///run/socket?db=",
        "unix:///run/socket?ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_other_forms_of_a_store_are_refused(url: str) -> None:
    """With the forms that there are, and nothing of what was given."""
    with pytest.raises(WrongSettings) as refused:
        load(environ={}, command_line={"limits.url": url})
    assert "limits.url" in refused.value.detail
    assert re.search(r"redis://HOST|ssl_ca_certs=FILE", refused.value.detail)
    assert "hush" not in refused.value.detail


@pytest.mark.parametrize("prefix", ["", "a b", "{a}", "a:b", "\u00e9", "a\n", "a" * 65])
def test_a_prefix_is_plain(prefix: str) -> None:
    """Its braces and colons are ours."""
    with pytest.raises(WrongSettings, match=r"limits\.prefix"):
        load(environ={}, command_line={"limits.prefix": prefix})


def test_a_trusted_proxy_is_an_address_or_a_network() -> None:
    """In CIDR notation, without bits behind the network's: they would be somebody's mistake."""
    named = ["127.0.0.1", "2001:DB8::/32"]
    settings = load(environ={}, command_line={"trusted_proxies": named}).settings
    assert settings.trusted_proxies == ("127.0.0.1/32", "2001:db8::/32")
    for wrong in ("proxy.example", "10.0.0.1/8", ""):
        with pytest.raises(WrongSettings, match="a network"):
            load(environ={}, command_line={"trusted_proxies": [wrong]})


@pytest.mark.parametrize("url", ["https://node.example", "ws://", "wss://:1", "ws://h:0", "node"])
def test_a_chain_is_listened_to_by_websocket(url: str) -> None:
    """What is no address of one is refused, by name; and the addresses are secrets."""
    with pytest.raises(WrongSettings, match=r"ens\.ws_urls.*\n?.*ws:// or wss://"):
        load(environ={}, command_line={"ens.ws_urls": [url]})
    good = load(environ={}, command_line={"ens.ws_urls": ["wss://node.example/KEY"]})
    assert good.settings.ens.ws_urls == ("wss://node.example/KEY",)
    assert "KEY" not in "".join(str(value) for _, value, _ in good.shown())
