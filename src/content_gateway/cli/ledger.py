"""`content-gateway ledger`: backs up, restores, checks and mends the ledger's file.

Works on the file itself, beside a running service or without one, and opens no part of a service.
How a copy is made is in sqlite/backup.py, what a sound ledger is in ledger/inspection.py."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from content_gateway.cli import common, lockfile
from content_gateway.cli.import_psa import CursorFile
from content_gateway.cli.output_file import refuse_to_replace
from content_gateway.cli.status_line import bytes_text, plain
from content_gateway.cli.which_ledger import existing_ledger
from content_gateway.errors import GatewayError
from content_gateway.files.permissions import give_to_owner_of
from content_gateway.ledger.inspection import Inspection, current_version, inspect, version_of
from content_gateway.ledger.requestors import recount_pins
from content_gateway.ledger.revived_keys import revived_keys
from content_gateway.settings.sources import Loaded
from content_gateway.sqlite import backup as copies

_BESIDE: Final = ("-wal", "-shm")
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
    """Back up, restore, check and mend the ledger: pins, keys and last known answers."""


@command.command("backup", epilog="Example: content-gateway ledger backup ledger-monday.sqlite")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
@common.ledger_options
@existing_ledger
def backup(*, file: Path, force: bool, loaded: Loaded, as_json: bool) -> None:
    """Write a checked copy of the ledger, as it is at one moment, to FILE.

    While the service runs, too: it is not held up. FILE is for its owner only, and is complete
    or not there. The embedded store's blocks are not in it."""
    ledger = loaded.settings.ledger_path
    _refuse_itself(ledger, file)
    refuse_to_replace(file, force=force)
    with _copied(ledger, file) as (copy, found):
        if found.is_damaged:
            raise GatewayError(f"Nothing was written: the ledger is damaged. {_first(found)}")
        refuse_to_replace(file, force=force)
        copy.replace(file)
        copies.sync(file.absolute().parent)
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
    ledger = loaded.settings.ledger_path
    if not file.is_file():
        raise GatewayError(f"{file} is no regular file.")
    ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_itself(ledger, file)
    with lockfile.alone(loaded.settings), _copied(file, ledger) as (copy, found):
        if found.is_damaged:
            raise GatewayError(f"{file} is damaged, and nothing was changed. {_first(found)}")
        give_to_owner_of(copy, ledger if ledger.exists() else ledger.parent)
        revived = _revived(copy, ledger)
        aside = _put_aside(ledger)
        CursorFile.remove_all(ledger)  # first: to one that was replaced they would not belong
        copy.replace(ledger)
        copies.sync(ledger.absolute().parent)
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
    ledger = loaded.settings.ledger_path
    found = _inspected(ledger)
    if as_json:
        _print_json({"ledger": str(ledger), **_numbers(found), "findings": found.findings})
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
    ledger = loaded.settings.ledger_path
    try:
        with copies.writing(ledger) as connection:
            if version_of(connection) != current_version():
                raise GatewayError(
                    f"{ledger} is of an earlier version: the next service brings it up to date."
                )
            corrected = recount_pins(connection)
    except sqlite3.Error as wrong:
        raise GatewayError(f"{ledger} cannot be written: {wrong}.") from wrong
    if as_json:
        _print_json({"ledger": str(ledger), "corrected": corrected})
    else:
        click.echo(f"{ledger}: counts that were wrong, and are right now: {corrected:,}")


@contextmanager
def _copied(source: Path, place: Path) -> Iterator[tuple[Path, Inspection]]:
    """A copy of the ledger *source*, in the folder of *place*, and what was found in it.

    It is deleted at the end, unless it was renamed. Raises GatewayError."""
    copy = place.with_name(f"{place.name}.{os.getpid()}.part")
    copies.remove(copy)  # of a process that had our number, and was killed
    try:
        try:
            copies.copy(source, copy)
        except OSError as wrong:
            raise GatewayError(f"{copy} cannot be written: {wrong.strerror}.") from wrong
        except sqlite3.Error as wrong:
            raise GatewayError(f"{source} cannot be copied: {wrong}.") from wrong
        yield copy, _inspected(copy, source)
    finally:
        copies.remove(copy)


def _inspected(path: Path, named: Path | None = None) -> Inspection:
    """What is found in the ledger at *path*, which people know as *named*; raises GatewayError."""
    try:
        with copies.read_only(path) as connection:
            return inspect(connection)
    except sqlite3.Error as wrong:
        raise GatewayError(f"{named or path} cannot be read: {wrong}.") from wrong
    except GatewayError as wrong:
        raise GatewayError(f"{named or path}: {wrong.detail}") from wrong


def _refuse_itself(ledger: Path, file: Path) -> None:
    """Raises GatewayError where *file* is one of the files of *ledger*, by whatever name."""
    own = [ledger, *(ledger.with_name(ledger.name + end) for end in _BESIDE)]
    if file.exists() and any(each.exists() and each.samefile(file) for each in own):
        raise GatewayError(f"{file} is the ledger itself.")


def _revived(restored: Path, ledger: Path) -> Sequence[str] | None:
    """The keys that *restored* lets in and *ledger* does not, by name; None if nobody knows."""
    if not ledger.exists():
        return []
    try:
        with copies.read_only(restored) as new, copies.read_only(ledger) as present:
            return revived_keys(new, present)
    except sqlite3.Error:
        return None


def _put_aside(ledger: Path) -> Path | None:
    """Keep the files of *ledger* under another name, which is returned; None if there are none.

    What its WAL holds is brought into the ledger first: whenever this ends, however it ends, each
    file has all of its pins by itself. Where that fails (it is broken) they are renamed as they
    are. The ledger stays at its path too, until it is replaced; its WAL does not, since SQLite
    would apply it to what comes there."""
    if ledger.exists():
        with suppress(sqlite3.Error):
            copies.checkpoint(ledger)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    aside = ledger.with_name(f"{ledger.name}.before-{moment}")
    if ledger.exists():
        try:
            os.link(ledger, aside)
        except OSError:  # there are file systems without
            ledger.rename(aside)
    for end in _BESIDE:
        beside = ledger.with_name(ledger.name + end)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + end))
    return aside if aside.exists() else None


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
