"""What the subcommands share: reading the settings, running a coroutine, serving."""

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from content_gateway import telemetry
from content_gateway.settings import sources
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def config_option(function: F) -> F:
    """The option `--config FILE`."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="TOML file of settings; the environment (CONTENT_GATEWAY_*) wins over it.",
    )(function)


def json_option(function: F) -> F:
    """The flag `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def load(
    config: Path | None,
    command_line: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings of this process, and logging set up by them; raises WrongSettings."""
    loaded = sources.load(
        environ=os.environ, config=config, command_line=command_line, profile=profile
    )
    telemetry.configure(loaded.settings.log.level, loaded.settings.log.format)
    return loaded


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of *coroutine*, on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


async def serve(
    chosen: Settings, announce: Callable[[str], None], zones: Sequence[Any] = ()
) -> None:
    """The service until it is told to stop; *announce* gets its base URL once it listens."""
    from content_gateway.api.server import listen, make_server
    from content_gateway.app import opened

    async with opened(chosen, zones) as gateway:
        listener = listen(chosen.host, chosen.port)
        gateway.reconciler.start()
        server = make_server(gateway.api)
        host, port = listener.getsockname()[:2]
        gc.freeze()  # what the start has made lives on: collections need not look at it again
        announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        await server.serve(sockets=[listener])
