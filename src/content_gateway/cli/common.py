"""What the subcommands share: options, reading the settings, whose pins, running, serving."""

import asyncio
import importlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from content_gateway import telemetry
from content_gateway.api_keys import IssuedKeys, KeyRecord, OpenKeys
from content_gateway.cli import lockfile
from content_gateway.errors import GatewayError, ScopeMissing
from content_gateway.model.pins import PinStatus
from content_gateway.settings import sources
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.names.zone import ZoneFile
    from content_gateway.wiring.app import Application

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

OPERATOR: Final = "operator"
KEY_VARIABLE: Final = "CONTENT_GATEWAY_KEY"
CONFIG_VARIABLE: Final = "CONTENT_GATEWAY_CONFIG"
INTERRUPTED: Final = 130  # as shells have it: 128 and the number of SIGINT

# What the first name needs, and nothing before it: 60 to 100 ms of CPU.
_FIRST_NEEDED: Final = "Crypto.Hash.keccak"
_NO_KEY: Final = (
    "Nobody has a key yet. Issue one, in another terminal and with the same settings:\n"
    "  content-gateway keys create --name NAME --scope resolve --scope pin"
)
# A command that is over soon says what went wrong itself.
_QUIET: Final = {"log.level": "error"}


def config_option(function: F) -> F:
    """The option `--config FILE`."""
    return click.option(
        "--config",
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="TOML file of settings; the environment (CONTENT_GATEWAY_*) wins over it.",
    )(function)


def data_option(function: F) -> F:
    """The option `--data DIR`, for a folder that a service has made."""
    return click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The service's folder (its data_dir); for `make run`, .content-gateway.",
    )(function)


def ledger_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options `--config`, `--data` and `--json` of a command that works on a service's ledger.

    *function* gets `loaded`, the settings, and `as_json`. Raises WrongSettings."""

    @wraps(function)
    def with_settings(*, config: Path | None, data: Path | None, **others: Any) -> None:
        function(loaded=load(config, {"data_dir": data}, _QUIET), **others)

    return config_option(data_option(json_option(with_settings)))


def key_option(function: F) -> F:
    """The option `--key KEY`, which the environment can give instead."""
    return click.option(
        "--key",
        envvar=KEY_VARIABLE,
        show_envvar=True,
        help="API key whose pins are meant; without it, the operator's own. Others can see it in"
        " `ps`: the environment keeps it to yourself.",
    )(function)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose pins a command is about: the owner of *key*, or of the issued key with that name or id,
    or else the operator."""

    key: str | None
    key_name: str | None = None
    key_id: str | None = None


def whose_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options `--key KEY`, `--key-name NAME` and `--key-id ID`, as the argument `whose` of
    *function*."""

    @wraps(function)
    def with_whose(
        *, key: str | None, key_name: str | None, key_id: str | None, **others: Any
    ) -> None:
        source = click.get_current_context().get_parameter_source("key")
        given = {"--key-name": key_name, "--key-id": key_id}
        named = [option for option, value in given.items() if value is not None]
        if source is ParameterSource.COMMANDLINE:
            named.insert(0, "--key")
        if len(named) > 1:
            raise click.UsageError(f"{' and '.join(named)} do not go together.")
        function(whose=Whose(None if any(given.values()) else key, key_name, key_id), **others)

    named = click.option(
        "--key-name",
        metavar="NAME",
        help="Name of the issued key whose pins are meant, as `keys list` shows it; for the"
        " operator, and also where the key is revoked or expired. Of several keys, the one that is"
        " not revoked, else the one revoked last.",
    )
    with_id = click.option(
        "--key-id", metavar="ID", help="Its id instead, where several keys have had that name."
    )
    return key_option(named(with_id(with_whose)))


def json_option(function: F) -> F:
    """The flag `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def load(
    config: Path | None,
    command_line: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings of this process, and logging set up by them; raises WrongSettings."""
    own = (KEY_VARIABLE, CONFIG_VARIABLE)  # of the options
    environ = {name: value for name, value in os.environ.items() if name not in own}
    loaded = sources.load(
        environ=environ, config=config, command_line=command_line, profile=profile
    )
    telemetry.configure(loaded.settings.log.level, loaded.settings.log.format)
    return loaded


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of *coroutine*, on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def run_on(
    chosen: Settings,
    work: "Callable[[Application], Coroutine[Any, Any, T]]",
    zones: "Sequence[ZoneFile]" = (),
) -> T:
    """The result of *work* on the parts of a service with these settings."""

    async def opened_for_it() -> T:
        from content_gateway.wiring.app import opened

        async with opened(chosen, zones) as gateway:
            return await work(gateway)

    return run(opened_for_it())


def requestor_of(gateway: "Application", loaded: Loaded, key: str | None) -> str:
    """The id of whoever has *key*, the operator for None.

    Where nobody has set keys.mode it is that of the ledger's last service, so that a key means
    here what it means there. Raises KeyRefused, ScopeMissing and StorageUnavailable."""
    if key is None:
        return OPERATOR
    mark = lockfile.last(loaded.settings)
    is_open = "keys.mode" not in loaded.origins and mark is not None and mark.keys == "open"
    requestor = (OpenKeys() if is_open else gateway.keys).identify(key)
    if "pin" not in requestor.scopes:
        raise ScopeMissing("The API key does not have the scope 'pin'.")
    return requestor.id


def requestor_meant(gateway: "Application", loaded: Loaded, whose: Whose) -> str:
    """The id of the requestor that *whose* means.

    Raises what `requestor_of` raises, and GatewayError where no issued key has that name or id."""
    if whose.key_name is None and whose.key_id is None:
        return requestor_of(gateway, loaded, whose.key)
    return issued_key(gateway.issued_keys, whose).id


def issued_key(keys: IssuedKeys, whose: Whose) -> KeyRecord:
    """The issued key with the name or id of *whose*; raises GatewayError if there is none."""
    if whose.key_id is not None:
        record, what = keys.with_id(whose.key_id), f"with the id {whose.key_id}"
    else:
        record, what = keys.named(whose.key_name or ""), f"named {whose.key_name}"
    if record is None:
        raise GatewayError(f"There is no key {what}.")
    return record


def with_backend_reason(gateway: "Application", status: PinStatus) -> PinStatus:
    """*status*, in an outage with the backend's own error, which only the operator may see."""
    health = gateway.health.last()
    if health is None or not health.reason or status.error != health.describe():
        return status
    return replace(status, error=f"{status.error} {health.reason}")


def zones_of(settings: Settings) -> "list[ZoneFile]":
    """The demonstration's zone, where the ledger's last service had it."""
    from content_gateway.names.zone import ZoneFile

    mark, path = lockfile.last(settings), settings.data_dir / "demo" / "zone.toml"
    has_demo = mark is not None and mark.has_demo and path.is_file()
    return [ZoneFile(path)] if has_demo else []


@contextmanager
def imported_beside(module: str) -> Iterator[None]:
    """Import *module* in a thread: neither the start nor the first who needs it waits for it."""
    thread = threading.Thread(target=importlib.import_module, args=(module,), name="import")
    thread.start()
    try:
        yield
    finally:
        thread.join()


async def serve(
    chosen: Settings, announce: Callable[[str], None], zones: "Sequence[ZoneFile]" = ()
) -> None:
    """The service until it is told to stop; *announce* gets its base URL once it listens."""
    from content_gateway.concurrency.garbage_collection import collect_seldom
    from content_gateway.http import admin
    from content_gateway.http.server import listen, make_server
    from content_gateway.wiring.app import opened
    from content_gateway.wiring.readiness import readiness_checks

    async with opened(chosen, zones) as gateway:
        listener = listen(chosen.host, chosen.port)
        admin_listener = None
        if chosen.admin.port:
            where = "admin.host, admin.port"
            admin_listener = listen(chosen.admin.host, chosen.admin.port, where)
        if chosen.keys.mode == "issued" and not gateway.issued_keys.all():
            click.echo(_NO_KEY, err=True)
        with lockfile.held(chosen, has_demo=bool(zones)):
            gateway.start()
            if chosen.ens.rpc_urls and not zones:  # the demonstration asks nobody unasked
                gateway.universal_resolver.start()
            host, port = listener.getsockname()[:2]
            url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            server = make_server(
                gateway.api,
                connections=chosen.connections,
                is_local=chosen.keys.mode == "open",
                slow_rate=chosen.limits.slow_rate,
                announce=lambda: announce(url),
            )
            collect_seldom()
            state = server.server_state
            checks = readiness_checks(gateway, chosen.admin, lambda: state.is_stopping)
            async with admin.served(checks, admin_listener):
                with imported_beside(_FIRST_NEEDED):
                    await server.serve(sockets=[listener])
