"""The block store: verified blocks in files, one a multihash, and the marks of complete DAGs.

Knows the folder layout and how a file becomes durable (write aside, sync, rename, sync the
folder). What a DAG is, and where blocks come from, is left to the store and the retrieval."""

import os
import tempfile
from pathlib import Path
from typing import Final

from content_gateway.content.cid import Cid
from content_gateway.content.multiformats import BASE32, digest_of

MAX_BLOCK_BYTES: Final = 2 * 1024 * 1024


def is_block_of(cid: Cid, data: bytes) -> bool:
    """Whether *data* has the digest that *cid* names; False where we cannot compute it."""
    return digest_of(cid.hash_code, data) == cid.digest


class Blockstore:
    """Blocks and marks below one folder. Its methods touch the disk: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self._blocks = folder / "blocks"
        self._marks = folder / "pins"

    def open(self) -> None:
        """Make the folders; raises OSError."""
        self._blocks.mkdir(parents=True, exist_ok=True)
        self._marks.mkdir(parents=True, exist_ok=True)

    def get(self, cid: Cid) -> bytes | None:
        """The block's bytes, verified again; None if it is not there or has rotted."""
        try:
            data = self._path(cid).read_bytes()
        except FileNotFoundError:
            return None
        return data if is_block_of(cid, data) else None

    def put(self, cid: Cid, data: bytes) -> None:
        """Keep *data*, which was verified, durably."""
        path = self._path(cid)
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            _sync_folder(self._blocks)
        _write(path, data)

    def mark(self, cid: Cid, blocks: int, size: int) -> None:
        """Say durably that the whole DAG below *cid* is here."""
        _write(self._marks / str(cid), f"{blocks} blocks, {size} bytes\n".encode())

    def is_marked(self, cid: Cid) -> bool:
        """Whether the whole DAG below *cid* was kept."""
        return (self._marks / str(cid)).exists()

    def _path(self, cid: Cid) -> Path:
        # The last letters of a multihash are evenly spread; the very last holds few bits.
        name = BASE32.encode(cid.multihash)
        return self._blocks / name[-3:-1] / name


def _write(path: Path, data: bytes) -> None:
    """Make *path* hold *data*: all of it or, after a crash, what was there before."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Make the names in the folder *path* durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
