"""The ledger's file beside a running service: its copies, what is in it, and counts put right.

Knows the files beside it, and when a copy is good enough to take a place. How the pages are copied
is in sqlite/backup.py, what a sound ledger is in inspection.py."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from content_gateway.errors import GatewayError
from content_gateway.ledger.inspection import Inspection
from content_gateway.ledger.sqlite.inspection import current_version, inspect, version_of
from content_gateway.ledger.sqlite.requestors import recount_pins
from content_gateway.ledger.sqlite.revived_keys import revived_keys
from content_gateway.sqlite import backup as copies

_BESIDE: Final = ("-wal", "-shm")


@contextmanager
def copied(source: Path, place: Path) -> Iterator[tuple[Path, Inspection]]:
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
        yield copy, inspected(copy, source)
    finally:
        copies.remove(copy)


def inspected(path: Path, named: Path | None = None) -> Inspection:
    """What is found in the ledger at *path*, which people know as *named*; raises GatewayError."""
    try:
        with copies.read_only(path) as connection:
            return inspect(connection)
    except sqlite3.Error as wrong:
        raise GatewayError(f"{named or path} cannot be read: {wrong}.") from wrong
    except GatewayError as wrong:
        raise GatewayError(f"{named or path}: {wrong.detail}") from wrong


def recounted(ledger: Path) -> int:
    """Count the pins of all requestors again; of how many the count was wrong.

    Raises GatewayError."""
    try:
        with copies.writing(ledger) as connection:
            if version_of(connection) != current_version():
                raise GatewayError(
                    f"{ledger} is of an earlier version: the next service brings it up to date."
                )
            return recount_pins(connection)
    except sqlite3.Error as wrong:
        raise GatewayError(f"{ledger} cannot be written: {wrong}.") from wrong


def version_of_file(path: Path) -> int:
    """The version of the schema of the ledger at *path*, 0 where there is none; GatewayError."""
    if not path.exists():
        return 0
    try:
        with copies.read_only(path) as connection:
            return version_of(connection)
    except sqlite3.Error as wrong:
        raise GatewayError(f"{path} cannot be read: {wrong}.") from wrong


def refuse_itself(ledger: Path, file: Path) -> None:
    """Raises GatewayError where *file* is one of the files of *ledger*, by whatever name."""
    own = [ledger, *(ledger.with_name(ledger.name + end) for end in _BESIDE)]
    if file.exists() and any(each.exists() and each.samefile(file) for each in own):
        raise GatewayError(f"{file} is the ledger itself.")


def revived(restored: Path, ledger: Path) -> Sequence[str] | None:
    """The keys that *restored* lets in and *ledger* does not, by name; None if nobody knows."""
    if not ledger.exists():
        return []
    try:
        with copies.read_only(restored) as new, copies.read_only(ledger) as present:
            return revived_keys(new, present)
    except sqlite3.Error:
        return None


def put_aside(ledger: Path) -> Path | None:
    """Keep the files of *ledger* under another name, which is returned; None if there are none.

    What its WAL holds is brought into the ledger first: whenever this ends, however it ends, each
    file has all of its pins by itself. Where that fails (it is broken) they are renamed as they
    are. The ledger stays at its path too, until it is replaced; its WAL does not, since SQLite
    would apply it to what comes there."""
    if ledger.exists():
        with suppress(sqlite3.Error):
            copies.checkpoint(ledger)
    timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    aside = ledger.with_name(f"{ledger.name}.before-{timestamp}")
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


def put(copy: Path, place: Path) -> None:
    """Let *copy* take the *place*, durably; raises OSError."""
    copy.replace(place)
    copies.sync(place.absolute().parent)
