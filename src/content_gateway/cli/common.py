"""What the subcommands share: options, the settings, whose pins, running.

Which of them make a ledger is decided in which_ledger.py; a service's life is in serving.py."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from content_gateway.api_keys import IssuedKeys, KeyRecord, OpenKeys
from content_gateway.cli import lockfile
from content_gateway.errors import GatewayError, ScopeMissing
from content_gateway.model.pins import PinStatus
from content_gateway.settings import sources
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded
from content_gateway.telemetry import logs

if TYPE_CHECKING:
    from content_gateway.names.zone import ZoneFile
    from content_gateway.wiring.app import Application

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

OPERATOR: Final = "operator"
KEY_VARIABLE: Final = "CONTENT_GATEWAY_KEY"
CONFIG_VARIABLE: Final = "CONTENT_GATEWAY_CONFIG"
# Of `pin import --from-psa`: what has the access token, or the file that has it.
TOKEN_VARIABLE: Final = "CONTENT_GATEWAY_PSA_TOKEN"  # noqa: S105 - its name only
TOKEN_FILE_VARIABLE: Final = TOKEN_VARIABLE + "_FILE"
INTERRUPTED: Final = 130  # as shells have it: 128 and the number of SIGINT

# A command that is over soon says what went wrong itself.
_QUIET: Final = {"log.level": "error"}


def config_option(function: F) -> F:
    """The option `--config FILE`."""
    return click.option(
        "--config",
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        type=click.Path(dir_okay=False, readable=False, path_type=Path),
        help="TOML file of settings; the environment (CONTENT_GATEWAY_*) wins over it.",
    )(function)


def data_option(function: F) -> F:
    """The option `--data DIR`."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, readable=False, path_type=Path),
        help="The service's folder (its data_dir); for `make run`, .content-gateway.",
    )(function)


def settings_options(
    function: Callable[..., None], profile: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """The options `--config` and `--data`: *function* gets `loaded`, the settings.

    *profile* has the command's own defaults. Raises WrongSettings."""

    @wraps(function)
    def with_settings(*, config: Path | None, data: Path | None, **others: Any) -> None:
        function(loaded=load(config, {"data_dir": data}, profile), **others)

    return config_option(data_option(with_settings))


def ledger_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that works on a ledger; which_ledger.py says what it may make.

    *function* gets `loaded`, the settings, and `as_json`. Raises WrongSettings."""
    return settings_options(json_option(function), _QUIET)


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
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(
        function
    )


def load(
    config: Path | None,
    command_line: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> Loaded:
    """As `read`, and logging is set up by them."""
    loaded = read(config, command_line, profile)
    logs.configure(loaded.settings.log.level, loaded.settings.log.format)
    return loaded


def read(
    config: Path | None,
    command_line: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings as they are now, from all sources; raises WrongSettings."""
    own = (KEY_VARIABLE, CONFIG_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE)  # of the options
    environ = {name: value for name, value in os.environ.items() if name not in own}
    return sources.load(environ=environ, config=config, command_line=command_line, profile=profile)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of *coroutine*, on uvloop."""
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(coroutine)
    finally:
        coroutine.close()  # where it was interrupted before it began, Python would complain


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


async def requestor_of(gateway: "Application", loaded: Loaded, key: str | None) -> str:
    """The id of whoever has *key*, whose limits hold from now on; the operator, without any, for
    None.

    Where nobody has set keys.mode it is that of the ledger's last service, so that a key means
    here what it means there. Raises KeyRefused, ScopeMissing and StorageUnavailable."""
    from content_gateway.wiring.limits import default_allowance

    if key is None:
        return OPERATOR
    mark = lockfile.last(loaded.settings)
    is_open = "keys.mode" not in loaded.origins and mark is not None and mark.keys == "open"
    allowance = default_allowance(loaded.settings.limits)
    requestor = await (OpenKeys(allowance) if is_open else gateway.keys).identify(key)
    if "pin" not in requestor.scopes:
        raise ScopeMissing("The API key does not have the scope 'pin'.")
    gateway.limits.know(requestor)
    return requestor.id


async def requestor_meant(gateway: "Application", loaded: Loaded, whose: Whose) -> str:
    """The id of the requestor that *whose* means.

    Raises what `requestor_of` raises, and GatewayError where no issued key has that name or id."""
    if whose.key_name is None and whose.key_id is None:
        return await requestor_of(gateway, loaded, whose.key)
    return (await issued_key(gateway.issued_keys, whose)).id


async def issued_key(keys: IssuedKeys, whose: Whose) -> KeyRecord:
    """The issued key with the name or id of *whose*; raises GatewayError if there is none."""
    if whose.key_id is not None:
        record, what = await keys.with_id(whose.key_id), f"with the id {whose.key_id}"
    else:
        record, what = await keys.named(whose.key_name or ""), f"named {whose.key_name}"
    if record is None:
        raise GatewayError(f"There is no key {what}.")
    return record


async def with_backend_reason(gateway: "Application", status: PinStatus) -> PinStatus:
    """*status*, in an outage with the backend's own error, which only the operator may see."""
    health = await gateway.health.last()
    if health is None or not health.reason or status.error != health.describe():
        return status
    return replace(status, error=f"{status.error} {health.reason}")


def zones_of(settings: Settings) -> "list[ZoneFile]":
    """The demonstration's zone, where the ledger's last service had it."""
    from content_gateway.names.zone import ZoneFile

    mark, path = lockfile.last(settings), settings.data_dir / "demo" / "zone.toml"
    has_demo = mark is not None and mark.has_demo and path.is_file()
    return [ZoneFile(path)] if has_demo else []
