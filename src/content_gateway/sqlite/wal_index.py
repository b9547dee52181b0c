"""The WAL-index of a SQLite database: what the WAL and the database file must contain.

Knows the format of the -shm file (sqlite.org/walformat.html, "The WAL-Index File Format"). Bytes
in, values out: reading the file, and what follows from it, is left to database_files.py."""

import struct
from typing import Final, NamedTuple, Self

WAL_HEADER: Final = 32  # bytes before the first frame of a WAL
FRAME_HEADER: Final = 24  # bytes before the page of each frame
# In the byte order of the machine: a header of 48 bytes, twice, so that a torn one is seen; then
# nBackfill, and behind the lock bytes nBackfillAttempted.
_HEADER: Final = struct.Struct("=14xHII8x8s8x")
_HEADER_BYTES: Final = 48
_BACKFILL: Final = struct.Struct("=96xI28xI")
INDEX_BYTES: Final = _BACKFILL.size


class WalIndex(NamedTuple):
    """What must be in the files: a WAL of *frames* with *page_bytes* each, under *salts*, and a
    database of *pages*. *checkpointed* frames are in it; *attempted* ones may be partly."""

    page_bytes: int
    frames: int
    pages: int
    salts: bytes
    checkpointed: int
    attempted: int

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """The index that begins with *data*; None while it changes, or if *data* is too short."""
        if len(data) < INDEX_BYTES or not data.startswith(data[_HEADER_BYTES : 2 * _HEADER_BYTES]):
            return None
        size, frames, pages, salts = _HEADER.unpack_from(data)
        checkpointed, attempted = _BACKFILL.unpack_from(data)
        page_bytes = 65_536 if size == 1 else size
        return cls(page_bytes, frames, pages, salts, checkpointed, attempted)

    @property
    def checkpoint(self) -> tuple[bytes, int, int]:
        """Changes with each checkpoint."""
        return self.salts, self.checkpointed, self.attempted
