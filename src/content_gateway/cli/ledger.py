"""`content-gateway ledger`: backs up, restores, checks, mends, upgrades and copies the ledger.

Works on the database itself, beside a running service or without one, and opens no part of a
service.
How a copy is made, and what a sound ledger is, is left to ledger/sqlite/."""

from pathlib import Path
from typing import Final

import click
import msgspec

from content_gateway.cli import common, lockfile
from content_gateway.cli.import_psa import CursorFile
from content_gateway.cli.output_file import refuse_to_replace
from content_gateway.cli.status_line import StatusLine, bytes_text, plain
from content_gateway.cli.which_ledger import existing_ledger
from content_gateway.errors import GatewayError
from content_gateway.files.permissions import give_to_owner_of
from content_gateway.ledger.inspection import Inspection
from content_gateway.ledger.sqlite import backups
from content_gateway.settings.sources import Loaded

_NEXT: Final = (
    "Start the service, then run `content-gateway reconcile now`: it brings back what the backend"
    " lacks."
)
_REVIVED: Final = (
    "Keys work again that were revoked or rotated after the backup; revoke or rotate them now: {}"
)
_MAYBE_REVIVED: Final = (
    "What was there cannot be read: keys that were revoked or rotated after the backup work again,"
    " and nobody knows which."
)


@click.group("ledger", epilog="Example: content-gateway ledger backup /backups/ledger.sqlite")
def command() -> None:
    """Back up, restore, check, mend, upgrade and copy the ledger: pins, keys and known answers."""


@command.command("backup", epilog="Example: content-gateway ledger backup ledger-monday.sqlite")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
@common.ledger_options
@existing_ledger
def backup(*, file: Path, force: bool, loaded: Loaded, as_json: bool) -> None:
    """Write a checked copy of the ledger, as it is at one moment, to FILE.

    While the service runs, too: it is not held up. FILE is for its owner only, and is complete
    or not there. The embedded store's blocks are not in it."""
    _require_file(loaded)
    ledger = loaded.settings.ledger_path
    backups.refuse_itself(ledger, file)
    refuse_to_replace(file, force=force)
    with backups.copied(ledger, file) as (copy, found):
        if found.is_damaged:
            raise GatewayError(f"Nothing was written: the ledger is damaged. {_first(found)}")
        refuse_to_replace(file, force=force)
        backups.put(copy, file)
    _warn(found)
    size = file.stat().st_size
    if as_json:
        _print_json({"ledger": str(ledger), "file": str(file), "bytes": size, **_numbers(found)})
    else:
        click.echo(f"{ledger}, {_words(found)}: backed up to {file}, {bytes_text(size)}")


@command.command("restore", epilog="Example: content-gateway ledger restore ledger-monday.sqlite")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@common.ledger_options
def restore(*, file: Path, loaded: Loaded, as_json: bool) -> None:
    """Put the backup FILE in the ledger's place; the ledger that was there is kept beside it.

    Refused while a service runs, and for a file that is no ledger, is broken, or is of a newer
    version."""
    _require_file(loaded)
    ledger = loaded.settings.ledger_path
    if not file.is_file():
        raise GatewayError(f"{file} is no regular file.")
    ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    backups.refuse_itself(ledger, file)
    with lockfile.alone(loaded.settings), backups.copied(file, ledger) as (copy, found):
        if found.is_damaged:
            raise GatewayError(f"{file} is damaged, and nothing was changed. {_first(found)}")
        give_to_owner_of(copy, ledger if ledger.exists() else ledger.parent)
        revived = backups.revived(copy, ledger)
        aside = backups.put_aside(ledger)
        CursorFile.remove_all(ledger)  # first: to one that was replaced they would not belong
        backups.put(copy, ledger)
    _warn(found)
    if as_json:
        kept = None if aside is None else str(aside)
        told = {"ledger": str(ledger), "file": str(file), "aside": kept, "revived": revived}
        _print_json(told | _numbers(found))
        return
    click.echo(f"{ledger}, {_words(found)}: restored from {file}")
    if aside is not None:
        click.echo(f"What was there is kept: {aside}")
    if revived is None:
        click.echo(_MAYBE_REVIVED)
    elif revived:
        click.echo(plain(_REVIVED.format(", ".join(revived))))
    click.echo(_NEXT)


@command.command("check", epilog="Example: content-gateway ledger check --data .content-gateway")
@common.ledger_options
@existing_ledger
def check(*, loaded: Loaded, as_json: bool) -> None:
    """Read all of the ledger, and say what is wrong with it; changes nothing.

    Ends with status 1 if anything is."""
    from content_gateway.wiring.ledgers import inspect

    ledger = loaded.settings.ledger_name
    found = common.run(inspect(loaded.settings))
    if as_json:
        _print_json({"ledger": ledger, **_numbers(found), "findings": found.findings})
    else:
        click.echo(f"{ledger}, {_words(found)}")
        for each in found.findings:
            sample = f": {', '.join(each.sample)}" if each.sample else ""
            remedy = f"; `{each.remedy}` puts it right" if each.remedy else ""
            click.echo(plain(f"{each.count:,} {each.finding}{sample}{remedy}"))
        click.echo("Something is wrong." if found.findings else "Nothing is wrong.")
    if found.findings:
        raise SystemExit(1)


@command.command("recount", epilog="Example: content-gateway ledger recount")
@common.ledger_options
@existing_ledger
def recount(*, loaded: Loaded, as_json: bool) -> None:
    """Count the pins of every key again, where `ledger check` found the counts to be wrong.

    While the service runs, too: limits of pins hold by what is counted then."""
    from content_gateway.wiring.ledgers import recount as recounted

    ledger = loaded.settings.ledger_name
    corrected = common.run(recounted(loaded.settings))
    if as_json:
        _print_json({"ledger": ledger, "corrected": corrected})
    else:
        click.echo(f"{ledger}: counts that were wrong, and are right now: {corrected:,}")


@command.command("upgrade", epilog="Example: content-gateway ledger upgrade")
@common.ledger_options
@existing_ledger
def upgrade(*, loaded: Loaded, as_json: bool) -> None:
    """Bring the ledger's tables up to this version of the program.

    A ledger in PostgreSQL is upgraded by this command alone: run it before the first service of the
    new version, while those of the old one go on. A SQLite file is upgraded by whatever opens
    it."""
    from content_gateway.wiring.ledgers import upgrade as upgraded

    reached = list(common.run(upgraded(loaded.settings)))
    if as_json:
        _print_json({"ledger": loaded.settings.ledger_name, "reached": reached})
    elif reached:
        click.echo(f"{loaded.settings.ledger_name}: of version {reached[-1]} now")
    else:
        click.echo(f"{loaded.settings.ledger_name}: nothing to do")


@command.command(
    "copy",
    epilog="Example: content-gateway ledger copy sqlite:///a.sqlite postgresql://db",
)
@click.argument("original", metavar="FROM")
@click.argument("place", metavar="TO")
@common.json_option
def copy(*, original: str, place: str, as_json: bool) -> None:
    """Copy a ledger to another database, where none is yet: pins, keys, all of it.

    FROM and TO are as database.url has them. Stop what writes to FROM first. Run it again where it
    was interrupted: it goes on. At the end all rows of both are compared."""
    from content_gateway.wiring.ledgers import copy as copied

    try:
        with StatusLine() as line:
            counts = common.run(
                copied(original, place, lambda what, rows: line.show(f"{rows:,} {what}"))
            )
    except KeyboardInterrupt:
        click.echo("Interrupted. Run it again: it goes on where it was.", err=True)
        raise SystemExit(common.INTERRUPTED) from None
    if as_json:
        _print_json(counts)
    else:
        words = ", ".join(f"{number:,} {name}" for name, number in counts.items())
        click.echo(f"Copied, and equal: {words}")


@command.command("backend", epilog="Example: content-gateway ledger backend kubo")
@click.argument("kind", required=False, type=click.Choice(["ipfs-cluster", "kubo"]))
@click.option("--force", is_flag=True, help="Also where others are connected to the database.")
@common.ledger_options
@existing_ledger
def backend(*, kind: str | None, force: bool, loaded: Loaded, as_json: bool) -> None:
    """Print which kind of backend the contents of a shared ledger are at, or have them moved to
    KIND.

    Services with another pins.backend are refused. To move, stop all services, run this, and start
    them with the new one: they ask it for everything. The old backend keeps what it has."""
    from content_gateway.wiring.ledgers import backend_of, move_to_backend

    if not loaded.settings.has_shared_ledger:
        raise GatewayError(
            "The ledger is a file: stop its service, and start it with another pins.backend."
        )
    if kind is not None:
        common.run(move_to_backend(loaded.settings, kind, though_used=force))
    found = common.run(backend_of(loaded.settings))
    if as_json:
        _print_json({"ledger": loaded.settings.ledger_name, "backend": found})
    elif found is None:
        click.echo(f"{loaded.settings.ledger_name}: the first service will say")
    else:
        click.echo(f"{loaded.settings.ledger_name}: {found}")


def _require_file(loaded: Loaded) -> None:
    """Raises GatewayError where the ledger is no file."""
    if loaded.settings.has_shared_ledger:
        raise GatewayError(
            "The ledger is in PostgreSQL: pg_dump backs it up and pg_restore restores it, or its"
            " WAL archive does (docs/operating.md)."
        )


def _numbers(found: Inspection) -> dict[str, int | None]:
    return {
        "version": found.version,
        "pins": found.pins,
        "contents": found.contents,
        "keys": found.keys,
    }


def _words(found: Inspection) -> str:
    if found.pins is None:
        return f"of the earlier version {found.version} (here it is {found.current})"
    return f"{found.pins:,} pins of {found.contents:,} contents, {found.keys:,} keys"


def _warn(found: Inspection) -> None:
    """Say that something is wrong in what was copied, which is better than no copy."""
    if found.findings:
        click.echo(f"Something is wrong in it. {_first(found)}", err=True)


def _first(found: Inspection) -> str:
    first = found.findings[0]
    return f"`ledger check` says: {first.count:,} {plain(first.finding)}"


def _print_json(value: object) -> None:
    click.echo(msgspec.json.encode(value))
