"""Which ledger a command works on, and whether it may begin one: decided here, for all commands.

Standard error is told the path, so that nobody takes an empty ledger for the service's. Both
decorators stand below the options that load the settings."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from content_gateway.errors import GatewayError
from content_gateway.files.permissions import refusal
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded


def any_ledger(function: Callable[..., None]) -> Callable[..., None]:
    """Let *function*, which gets `loaded`, make its ledger where there is none, and say so."""

    @wraps(function)
    def with_ledger(*, loaded: Loaded, **others: Any) -> None:
        path = loaded.settings.ledger_path
        if loaded.settings.has_shared_ledger:
            has_ledger(loaded.settings)
        elif refusal(path) is None and not os.path.exists(path):
            click.echo(f"A new ledger begins at {path}.", err=True)
        function(loaded=loaded, **others)

    return with_ledger


def existing_ledger(function: Callable[..., None]) -> Callable[..., None]:
    """Let *function*, which gets `loaded`, work on a ledger that exists, and say which one it is.

    GatewayError is raised where there is none: nothing is created."""

    @wraps(function)
    def with_ledger(*, loaded: Loaded, **others: Any) -> None:
        if not has_ledger(loaded.settings):
            raise GatewayError(
                f"There is no ledger at {loaded.settings.ledger_name}; --data or --config says"
                " where the service's is."
            )
        function(loaded=loaded, **others)

    return with_ledger


def has_ledger(settings: Settings) -> bool:
    """Whether there is a ledger; if so, standard error is told which one it is.

    Raises GatewayError where it cannot be used, or the data folder is missing."""
    path = settings.ledger_path
    if settings.has_shared_ledger:  # what is wrong with it is said by whoever connects
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        click.echo(f"Ledger: {settings.ledger_name}", err=True)
        return True
    if (reason := refusal(path, makes=False)) is not None:
        raise GatewayError(f"{path} cannot be used: {reason}.")
    # A WAL alone is not passed over: what opens it says what is wrong.
    if not any(os.path.exists(file) for file in (path, path.with_name(path.name + "-wal"))):
        return False
    if not settings.data_dir.is_dir():  # the ledger may be elsewhere (database.url)
        raise GatewayError(
            f"There is no folder {settings.data_dir}; --data or --config says where the service's"
            " is."
        )
    click.echo(f"Ledger: {path}", err=True)
    return True
