"""Another pinning service as the source of an import: pages of its pins, and where it broke off.

Theory of operation. Pages come newest first, and a page is asked for once the one before it is
kept. Then a small file beside the ledger says how far the import is, so that a repeat begins there,
after the pins that were made meanwhile, and not with the thousand pages before. The file is a hint:
it counts while the last pin that it names is in the ledger, which an older ledger that was restored
meanwhile lacks. What comes again all the same costs a look-up. A finished import leaves no file:
the next begins at the newest pin, and finds what has come since.

Knows the order of the pages and that file. How pages are asked for is left to pinning_services/."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from content_gateway.cli.bulk_import import Entry, Import, Tally
from content_gateway.cli.common import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from content_gateway.cli.pin_objects import parse_pin
from content_gateway.errors import GatewayError, WrongSettings
from content_gateway.files.watched_file import read_bytes
from content_gateway.pinning_services.answers import ListedPin
from content_gateway.pinning_services.listing import Listing, NewPins, Pages
from content_gateway.pins.origins import OriginRules

_MAX_TOKEN_BYTES: Final = 16 * 1024
_MAX_CURSOR_BYTES: Final = 16 * 1024
_SHOWN_ID: Final = 80


def token_from(environ: Mapping[str, str]) -> str:
    """The access token in *environ*, or in the file that it names; raises WrongSettings."""
    text, path = environ.get(TOKEN_VARIABLE), environ.get(TOKEN_FILE_VARIABLE)
    if text is None and path is not None:
        try:
            text = read_bytes(Path(path), _MAX_TOKEN_BYTES).decode()
        except (OSError, ValueError) as wrong:
            raise WrongSettings(f"{TOKEN_FILE_VARIABLE}: {wrong}") from wrong
    token = (text or "").strip()
    if not token:
        raise WrongSettings(f"{TOKEN_VARIABLE}: the access token of --from-psa is expected there")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise WrongSettings(
            f"{TOKEN_VARIABLE}: a token has no blanks and no other signs than ASCII"
        )
    return token


class Cursor(msgspec.Struct, frozen=True):
    """How far an import is: all pins are kept from *newest* down to *before*, the *last* of them
    under this CID; *invalid* of them could not be."""

    newest: datetime
    before: datetime
    last: str
    invalid: int


class CursorFile:
    """The file that says how far the import from *url* is for a requestor and some statuses.

    It stands beside *ledger*, whose requestor's it is."""

    def __init__(self, ledger: Path, url: str, requestor: str, statuses: Sequence[str]) -> None:
        what = msgspec.json.encode([url.rstrip("/"), requestor, sorted(statuses)])
        self._path = ledger.with_name(f"{ledger.name}.import-{sha256(what).hexdigest()[:16]}")

    def load(self) -> Cursor | None:
        """What was saved; None if there is nothing that can be read."""
        try:
            data = read_bytes(self._path, _MAX_CURSOR_BYTES)
            return msgspec.json.decode(data, type=Cursor)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None

    def save(self, cursor: Cursor) -> None:
        """Replace what was saved, in one step; raises OSError."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(msgspec.json.encode(cursor))
        new.replace(self._path)

    def remove(self) -> None:
        """Forget it."""
        with suppress(OSError):
            self._path.unlink()


@dataclass(slots=True)
class PsaImport:
    """The import of all pins of *service* in one of *statuses*, by *importing*, with its *cursor*.

    *holds* says whether the importing requestor holds a CID; *rules* which origins are taken."""

    service: Pages
    statuses: Sequence[str]
    importing: Import
    cursor: CursorFile
    holds: Callable[[str], bool]
    rules: OriginRules
    _listed: int = field(default=0, init=False)

    async def run(self) -> None:
        """Take over what is not here yet; returns when all of it is kept.

        Raises GatewayError as the service and the ledger do; run again, it goes on there."""
        found = self.cursor.load()
        if found is not None and not self.holds(found.last):
            found = None
        if found is None:
            await self._take(Listing(self.service, self.statuses), saved=None)
        else:
            self._tally.invalid += found.invalid
            # What was made since, of which nothing is saved until it has met what was kept then.
            newer = Listing(self.service, self.statuses, until=found.newest)
            newest = await self._take(newer, saved=None, saves=False)
            found = msgspec.structs.replace(found, newest=newest or found.newest)
            await self._take(Listing(self.service, self.statuses, found.before), saved=found)
        self.cursor.remove()

    async def _take(
        self, listing: Listing, *, saved: Cursor | None, saves: bool = True
    ) -> datetime | None:
        """Keep what *listing* brings, and save after each page; the newest time in it."""
        newest = None if saved is None else saved.newest
        last = "" if saved is None else saved.last
        async for page in listing.pages():
            newest = newest or max((pin.created for pin in page.pins if pin.created), default=None)
            held: list[str] = []
            await self.importing.run(self._entries(page, held))
            last = next((cid for cid in reversed(held) if self.holds(cid)), last)
            if saves and newest is not None and last:
                self._save(Cursor(newest, page.before, last, self._tally.invalid))
        self._left_out(listing.left_out)
        if saves and saved is None:  # all of the list
            self._compare(listing.claimed or 0)
        return newest

    async def _entries(self, page: NewPins, held: list[str]) -> AsyncIterator[Entry]:
        """The entries of *page*; those CIDs that can be pinned are added to *held*."""
        for number, listed in enumerate(page.pins, self._tally.read + 1):
            entry = self._entry(number, listed)
            if entry.refusal is None:
                held.append(entry.cid)
            self._listed += 1
            yield entry

    def _entry(self, number: int, listed: ListedPin) -> Entry:
        try:
            cid, label = parse_pin(listed.pin, self.rules)
        except ValueError as wrong:
            return Entry(number, refusal=f"{listed.id[:_SHOWN_ID]}: {wrong}")
        return Entry(number, cid, label)

    def _save(self, cursor: Cursor) -> None:
        try:
            self.cursor.save(cursor)
        except OSError as wrong:
            raise GatewayError(f"How far it is cannot be written: {wrong.strerror}.") from wrong

    def _left_out(self, number: int) -> None:
        if number:
            self._tally.is_whole = False
            self._tally.notes.append(
                f"{number:,} pins were made at one time with more others than a page holds: the"
                " service cannot list them. Add them by hand."
            )

    def _compare(self, claimed: int) -> None:
        if claimed > self._listed and self._tally.is_whole:
            self._tally.notes.append(
                f"The service speaks of {claimed:,} pins, and lists {self._listed:,}."
            )

    @property
    def _tally(self) -> Tally:
        return self.importing.tally
