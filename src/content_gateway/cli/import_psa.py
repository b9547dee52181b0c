"""Another pinning service as the source of an import: pages of its pins, and where it broke off.

Theory of operation. Pages come newest first, and a page is asked for once the one before it is
kept. Then a small file beside the ledger says how far the import is, so that a repeat begins there,
after the pins that were made meanwhile, and not with the thousand pages before. The file is a hint:
it counts while the last pin that it names is in the ledger, and `ledger restore` removes it. What
comes again all the same costs a look-up. A finished import leaves no file: the next begins at the
newest pin, and finds what has come since.

Knows the order of the pages and that file. How pages are asked for is left to pinning_services/."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from glob import escape
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
from content_gateway.pinning_services.listing import Pages, PinListing
from content_gateway.pins.origins import OriginRules

_MAX_TOKEN_BYTES: Final = 16 * 1024
_MAX_CURSOR_BYTES: Final = 16 * 1024
_SHOWN_ID: Final = 80
_SUFFIX: Final = ".import-"
_IGNORES_BEFORE: Final = (
    "The service sends its newest pins, whatever it is asked for. If it has more than came, ask it"
    " for a list of them."
)


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
    under this CID. They were *listed*, *invalid* could not be kept, *left_out* not be listed."""

    newest: datetime
    before: datetime
    last: str
    invalid: int
    listed: int
    left_out: int


class CursorFile:
    """The file that says how far an import is, by what is imported: the pins in some *statuses* of
    whoever has *token* at *url*, for a requestor.

    It stands beside *ledger*, whose requestor's it is."""

    def __init__(
        self, ledger: Path, url: str, token: str, requestor: str, statuses: Sequence[str]
    ) -> None:
        account = sha256(token.encode()).hexdigest()
        what = msgspec.json.encode([url.rstrip("/"), account, requestor, sorted(statuses)])
        self._path = ledger.with_name(f"{ledger.name}{_SUFFIX}{sha256(what).hexdigest()[:16]}")

    @staticmethod
    def remove_all(ledger: Path) -> None:
        """Forget how far all imports into *ledger* are: it is another one by now."""
        for path in ledger.parent.glob(f"{escape(ledger.name + _SUFFIX)}*"):
            with suppress(OSError):
                path.unlink()

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
        """Forget it, and what imports that were killed while they saved have left of it."""
        for path in self._path.parent.glob(f"{escape(self._path.name)}*"):
            with suppress(OSError):
                path.unlink()


@dataclass(slots=True)
class PsaImport:
    """The import of all pins of *service* in one of *statuses*, by *importing*, with its *cursor*.

    *holds* says whether the importing requestor holds a CID; *rules* which origins are taken."""

    service: Pages
    statuses: Sequence[str]
    importing: Import
    cursor: CursorFile
    holds: Callable[[str], Awaitable[bool]]
    rules: OriginRules
    _listed: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)

    async def run(self) -> None:
        """Take over what is not here yet; returns when all of it is kept.

        Raises GatewayError as the service and the ledger do; run again, it goes on there."""
        found = self.cursor.load()
        if found is not None and not await self.holds(found.last):
            found = None
        if found is None:
            listing = PinListing(self.service, self.statuses)
            claimed = await self._take_saving(listing, None)
        else:
            self._tally.invalid += found.invalid
            self._listed, self._left_out = found.listed, found.left_out
            # What was made since, of which nothing is saved until it has met what was kept then.
            newer = PinListing(self.service, self.statuses, until=found.newest)
            newest = await self._take_newer(newer, found.newest)
            found = msgspec.structs.replace(found, newest=newest)
            await self._take_saving(PinListing(self.service, self.statuses, found.before), found)
            claimed = newer.claimed
        self._note_what_lacks(claimed or 0)
        self.cursor.remove()

    async def _take_newer(self, listing: PinListing, than: datetime) -> datetime:
        """Keep what *listing* brings that is newer *than* what is here; the newest time in it."""
        newest = than
        async for page in listing.pages():
            await self.importing.run(self._entries(page.pins, []))
            times = [pin.created for pin in page.pins if pin.created and pin.created > than]
            newest = max([newest, *times])
            self._listed += len(times)
        self._note(listing)
        return newest

    async def _take_saving(self, listing: PinListing, saved: Cursor | None) -> int | None:
        """Keep what *listing* brings, and save after each page; how many pins are claimed."""
        newest = None if saved is None else saved.newest
        last = "" if saved is None else saved.last
        async for page in listing.pages():
            newest = newest or max((pin.created for pin in page.pins if pin.created), default=None)
            held: list[str] = []
            await self.importing.run(self._entries(page.pins, held))
            self._listed += len(page.pins)
            last = await self._last_held(held) or last
            if newest is not None and last:
                listed, left_out = self._listed - page.again, self._left_out + listing.left_out
                self._save(Cursor(newest, page.before, last, self._tally.invalid, listed, left_out))
        self._note(listing)
        return listing.claimed

    async def _last_held(self, cids: Sequence[str]) -> str:
        """The last of *cids* that is held; empty where none is."""
        for cid in reversed(cids):
            if await self.holds(cid):
                return cid
        return ""

    async def _entries(self, pins: Sequence[ListedPin], held: list[str]) -> AsyncIterator[Entry]:
        """The entries of *pins*; those CIDs that can be pinned are added to *held*."""
        for number, listed in enumerate(pins, self._tally.read + 1):
            entry = self._entry(number, listed)
            if entry.refusal is None:
                held.append(entry.cid)
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

    def _note(self, listing: PinListing) -> None:
        self._left_out += listing.left_out
        if listing.ignores_before and _IGNORES_BEFORE not in self._tally.notes:
            self._tally.notes.append(_IGNORES_BEFORE)

    def _note_what_lacks(self, claimed: int) -> None:
        """Say what the source has and did not list, of *claimed* pins."""
        if self._left_out:
            self._tally.is_whole = False
            self._tally.notes.append(
                f"{self._left_out:,} pins were made at one time with more others than a page holds:"
                " the service cannot list them. Add them by hand."
            )
        elif claimed > self._listed:
            # Whoever removes the pins there after status 0 must have had all of them.
            self._tally.is_whole = False
            self._tally.notes.append(
                f"The service speaks of {claimed:,} pins, and lists {self._listed:,}."
            )

    @property
    def _tally(self) -> Tally:
        return self.importing.tally
