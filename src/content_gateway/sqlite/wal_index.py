"""The index of an SQLite database's log: what must be in the log and in the database.

Knows the bytes of the file that SQLite calls the shared memory (sqlite.org/walformat.html, "The
WAL-Index File Format"). Bytes in, values out: whose files they are, and what follows from them, is
left to database_files.py."""

import struct
from typing import Final, NamedTuple, Self

LOG_HEADER: Final = 32  # bytes before the first frame of a log
FRAME_HEADER: Final = 24  # bytes before the page of each frame
# In the byte order of the machine: twice a header of 48 bytes, then how many frames are in the
# database file already, and behind the locks how many somebody has begun to put there.
_HEADER: Final = struct.Struct("=14xHII8x8s8x")
_HEADER_BYTES: Final = 48
_BACKFILL: Final = struct.Struct("=96xI28xI")
INDEX_BYTES: Final = _BACKFILL.size


class WalIndex(NamedTuple):
    """What must be in the files: the log's *frames* of *page_bytes*, under *salts*, of which as
    many as *checkpointed* are in the database, which has *pages* with the last commit."""

    page_bytes: int
    frames: int
    pages: int
    salts: bytes
    checkpointed: int
    attempted: int

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """The index that begins with *data*; None while somebody changes it, or where that is not
        all of its beginning."""
        if len(data) < INDEX_BYTES or not data.startswith(data[_HEADER_BYTES : 2 * _HEADER_BYTES]):
            return None
        size, frames, pages, salts = _HEADER.unpack_from(data)
        checkpointed, attempted = _BACKFILL.unpack_from(data)
        page_bytes = 65_536 if size == 1 else size
        return cls(page_bytes, frames, pages, salts, checkpointed, attempted)

    @property
    def checkpoint(self) -> tuple[bytes, int, int]:
        """What is another after each checkpoint."""
        return self.salts, self.checkpointed, self.attempted
