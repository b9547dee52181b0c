"""A CAR as the source of an import: its blocks go to the embedded store, its roots become pins.

All of it is verified before anything is kept, and a root is pinned once all of its DAG is in the
store. Knows the order of these steps, and what to do instead where the backend is another one. How
blocks are read and kept is left to backends/embedded/."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from content_gateway.backends.embedded.car_file import CarFile
from content_gateway.cli.bulk_import import Entry, Import
from content_gateway.cli.status_line import bytes_text
from content_gateway.errors import GatewayError, PinFailed
from content_gateway.model.cid import Cid
from content_gateway.settings.model import Settings

if TYPE_CHECKING:
    from content_gateway.backends.embedded.store import EmbeddedStore

_MOST_ROOTS: Final = 100  # each takes a reading of the file
_COPIED: Final = 1024 * 1024
_INSTEAD: Final = {
    "kubo": "run `ipfs dag import FILE` on the node, and then `content-gateway pin add ROOT`",
    "ipfs-cluster": "run `ipfs-cluster-ctl add --format car FILE`, and then `content-gateway pin"
    " add ROOT`",
}


class CarImport:
    """The import of *roots*, or of those that the CAR names, into *store*, by *importing*."""

    def __init__(
        self, store: "EmbeddedStore", roots: Sequence[Cid], importing: Import, file: BinaryIO
    ) -> None:
        self._store = store
        self._roots = roots
        self._importing = importing
        self._car = CarFile(file, self._show)
        self._doing = ""

    async def run(self) -> None:
        """Verify all, then keep and pin root after root; raises GatewayError."""
        self._doing = "verified"
        try:
            named, _ = await self._car.verify()
        except ValueError as wrong:
            raise GatewayError(f"Nothing of the CAR was kept: {wrong}.") from wrong
        roots = list(dict.fromkeys(self._roots or named))
        if not roots:
            raise GatewayError("The CAR names no root: say --root CID.")
        if len(roots) > _MOST_ROOTS:
            raise GatewayError(
                f"The CAR names {len(roots):,} roots; {_MOST_ROOTS} at most are pinned at a time:"
                " say --root CID."
            )
        self._doing = "kept"
        await self._importing.run(self._entries(roots))
        self._importing.tally.doing = ""

    async def _entries(self, roots: Sequence[Cid]) -> AsyncIterator[Entry]:
        for number, root in enumerate(roots, 1):
            try:
                await self._store.take(root, self._car.sections)
            except PinFailed as failed:
                yield Entry(number, refusal=f"{root}: {failed.detail}")
            except ValueError as wrong:
                raise GatewayError(f"The CAR changed while it was read: {wrong}.") from wrong
            else:
                yield Entry(number, str(root))

    def _show(self, done: int) -> None:
        self._importing.tally.doing = f"{bytes_text(done)} {self._doing}"


def check_backend(settings: Settings) -> None:
    """Raises GatewayError, with what to do instead, where blocks are not kept by us."""
    backend = settings.pins.backend
    if backend != "embedded":
        raise GatewayError(
            f'A CAR goes to pins.backend "embedded", and here it is "{backend}":'
            f" {_INSTEAD[backend]}."
        )


@contextmanager
def seekable(file: str, settings: Settings) -> Iterator[BinaryIO]:
    """The file that is named, open; standard input (`-`) copied to one without a name first.

    Raises GatewayError, also for more than a pin may have."""
    try:
        if file != "-":
            path = Path(file)
            if not path.is_file():
                raise GatewayError(f"{file} is no regular file; `-` reads a pipe.")
            with open(path, "rb") as stream:
                yield stream
            return
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.data_dir) as copy:
            _copy(sys.stdin.buffer, copy, 2 * settings.embedded.max_bytes)
            yield copy
    except OSError as wrong:
        raise GatewayError(f"The CAR cannot be read: {os.strerror(wrong.errno or 0)}.") from wrong


def _copy(source: BinaryIO, target: BinaryIO, most: int) -> None:
    size = 0
    while piece := source.read(_COPIED):
        size += len(piece)
        if size > most:
            raise GatewayError(f"The CAR has more than {most} bytes (embedded.max_bytes).")
        target.write(piece)
