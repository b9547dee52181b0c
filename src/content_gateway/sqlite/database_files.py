"""The files of an open SQLite database: whether they are still the ones at their paths.

In WAL mode SQLite never checks that (its unix VFS compares the open file with the path only where
it opens a rollback journal): it goes on writing to an unlinked file, and uses a WAL that somebody
has truncated, which corrupts the database at the next checkpoint. So every read and commit is
checked here. Knows the names of the files and the headers that say what they must contain; who may
read them is left to files/permissions.py, when to check to the databases."""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import structlog

from content_gateway.errors import StorageUnavailable, WrongSettings
from content_gateway.files.permissions import open_own, tighten, tighten_folder
from content_gateway.sqlite.wal_index import FRAME_HEADER, INDEX_BYTES, WAL_HEADER, WalIndex

CHECK_SECONDS: Final = 1.0
_MAGIC: Final = b"SQLite format 3\0"
_TRIES: Final = 20

Identity = tuple[int, int]  # device, inode


class FileStat(NamedTuple):
    """The file at a path; *size* in bytes, *written* (its mtime) in nanoseconds since 1970."""

    device: int
    inode: int
    size: int
    written: int


_MISSING: Final = FileStat(-1, -1, -1, -1)

log = structlog.get_logger(__name__)


class DatabaseFiles:
    """The database at *path*, its WAL and its WAL-index; *name* is what people call it."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._paths = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
        self._names = [str(file) for file in self._paths]  # a Path costs as much as the stat
        self._identities: list[Identity] = []
        self._wal = -1  # a file descriptor of our own
        # The database's mtime, and the WAL-index at that moment.
        self._last: tuple[int, WalIndex] | None = None
        # The WAL-index and the stats when a check last found nothing wrong.
        self._sound: tuple[bytes, Sequence[FileStat]] | None = None
        self._problem: str | None = None
        self._has_all = True
        self._descriptors: dict[Identity, int] = {}  # SQLite's own
        self._is_sound = False  # after the last commit, and none has begun since
        self._is_checked = False  # in this iteration of the event loop

    def prepare(self) -> None:
        """Create the folder and an empty file where they are missing, readable by us alone.

        Raises OSError, and WrongSettings where there is a WAL without its database: SQLite would
        delete the WAL, which holds acknowledged commits."""
        path, wal, _ = self._paths
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _size(wal) and not _size(path):
            raise WrongSettings(
                f"data_dir: {wal} is there, and the database it belongs to is not: put {path.name}"
                " back, or take both away"
            )
        if not path.exists():
            # Before SQLite opens it: any close of a file drops the process's fcntl locks on it.
            os.close(open_own(path))
        tighten_folder(path.parent)
        if [file for file in self._paths if tighten(file)]:
            log.info("files were taken from other users", database=self._name, mode="0600")

    def opened(self) -> None:
        """Remember which files SQLite has open now; raises OSError."""
        self._identities = [_identity(path.stat()) for path in self._paths]
        # SQLite holds no lock on the WAL, so that we may open and close it too.
        self._wal = os.open(self._paths[1], os.O_RDONLY | os.O_CLOEXEC)
        if _identity(os.fstat(self._wal)) != self._identities[1]:
            raise OSError("its files were replaced while they were opened")
        self.check()

    def close(self) -> None:
        """Close what was opened here."""
        if self._wal >= 0:
            os.close(self._wal)
            self._wal = -1

    def check_path(self) -> None:
        """As `check`, for reads: one stat while all is well."""
        if self._problem is not None or _stat(self._names[0])[:2] != self._identities[0]:
            self.check()

    def check_turn(self) -> None:
        """As `check_path`, once for all reads in one iteration of the running event loop."""
        if not self._is_checked:
            self.check_path()
            self._is_checked = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_checked = False

    @property
    def has_all(self) -> bool:
        """Whether every commit can still be read, and the database is at its path.

        That holds where only the WAL was unlinked, which is open here: a checkpoint saves it."""
        with suppress(StorageUnavailable):
            self.check()
        return self._has_all

    @property
    def is_behind(self) -> bool:
        """Whether the WAL has frames that are not in the database file yet, as far as we know."""
        index = WalIndex.parse(self._read_index())
        return index is not None and index.checkpointed < index.frames

    def check(self) -> None:
        """Raises StorageUnavailable unless the files are sound; logs when that changes."""
        problem = self._find_problem()
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                log.warning("the files of a database are back", database=self._name)
            else:
                log.error(
                    "the files of a database were taken away or changed, nothing is promised",
                    database=self._name,
                    path=str(self._paths[0]),
                    reason=problem,
                )
        if problem is not None:
            raise StorageUnavailable(
                f"The files of the {self._name} are not what they were; nothing is promised."
            )

    def refusal(self, wrong: sqlite3.Error, done: str) -> StorageUnavailable:
        """What to raise where SQLite refuses, so that nothing can be *done* ("read", "written").

        Logs why; callers are told that it is so, and the cause is chained."""
        log.error(f"the {self._name} cannot be {done}", reason=str(wrong))
        refused = StorageUnavailable(f"The {self._name} cannot be {done} now.")
        refused.__cause__ = wrong
        return refused

    def unreadable(self, wrong: sqlite3.Error) -> StorageUnavailable:
        """What to raise where SQLite refuses a read; raises it itself where the files are why."""
        self.check()
        return self.refusal(wrong, "read")

    def check_before(self, *, follows: bool) -> None:
        """As `check`, before a commit. Only the path is checked where the commit *follows* another
        at once: its writes were asked for before the check after that one."""
        was_sound, self._is_sound = self._is_sound, False
        if follows and was_sound:
            self.check_path()
        else:
            self.check()

    def check_after(self) -> None:
        """As `check`, after a commit."""
        self.check()
        self._is_sound = True

    async def watch(self) -> None:
        """Check once a second, so that the log tells of it where nobody writes."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with suppress(StorageUnavailable):
                self.check()

    def _find_problem(self) -> str | None:
        """What is wrong with the files, if anything, by a WAL-index that did not change meanwhile.

        That takes some ten system calls, each of which releases the interpreter lock; where nothing
        has changed since the files were sound, half as many."""
        for _ in range(_TRIES):
            lost: Sequence[int] = ()
            try:
                before, stats = self._read_index(), [_stat(name) for name in self._names]
                if (before, stats) == self._sound:
                    return None
                lost = [n for n, stat in enumerate(stats) if stat[:2] != self._identities[n]]
                index = WalIndex.parse(before)
                inside = self._problem_inside(index, stats, lost)
                if not lost and self._read_index() != before:
                    continue
                if inside is None and index is not None:
                    self._last = stats[0].written, index
            except OSError as wrong:
                inside = str(wrong)
            self._has_all = inside is None
            self._sound = None if lost or inside else (before, stats)
            if not lost:
                return inside
            return f"{self._paths[lost[0]].name} is gone, or another file is in its place"
        return self._problem  # others write without a pause: the next check will tell

    def _problem_inside(
        self, index: WalIndex | None, stats: Sequence[FileStat], lost: Sequence[int]
    ) -> str | None:
        """Why the files do not contain what they must by the *index*, if so."""
        if lost not in ([], [1]):
            return "it is not at its path"
        database, wal, _ = stats
        size = os.fstat(self._wal).st_size if lost else wal.size
        return self._problem_of_database(index, database) or self._problem_of_wal(index, size)

    def _problem_of_database(self, index: WalIndex | None, stat: FileStat) -> str | None:
        name = self._paths[0].name
        sound = self._sound  # other threads check too
        if sound is None or stat != sound[1][0]:
            file = self._descriptor_of(self._identities[0])
            if not stat.size or (file is not None and os.pread(file, len(_MAGIC), 0) != _MAGIC):
                return f"{name} was emptied or written over"
        if index is None:
            return None
        is_complete = index.checkpointed >= index.frames
        if is_complete and stat.size < index.pages * index.page_bytes:
            return f"{name} was cut off"
        # Only a checkpoint writes to it, and changes the WAL-index before (nBackfillAttempted) and
        # after (nBackfill). So a new mtime with the same WAL-index is somebody else's write.
        if self._last is not None and index.attempted <= index.checkpointed:
            written, last = self._last
            if index.checkpoint == last.checkpoint and stat.written != written:
                return f"{name} was written over"
        return None

    def _problem_of_wal(self, index: WalIndex | None, size: int) -> str | None:
        if index is None or not index.frames:
            return None  # no commit is in it
        last = WAL_HEADER + (index.frames - 1) * (FRAME_HEADER + index.page_bytes)
        header = os.pread(self._wal, WAL_HEADER, 0)
        frame = os.pread(self._wal, FRAME_HEADER, last)
        # sqlite.org/fileformat2.html, 4.1: the header and each frame carry the same two salts.
        if (
            header[16:24] != index.salts
            or frame[8:16] != index.salts
            or size < last + FRAME_HEADER + index.page_bytes
        ):
            return f"{self._paths[1].name} was cut off or written over"
        return None

    def _read_index(self) -> bytes:
        """The beginning of the WAL-index; b"" where it cannot be read."""
        file = self._descriptor_of(self._identities[2])
        return b"" if file is None else os.pread(file, INDEX_BYTES, 0)

    def _descriptor_of(self, identity: Identity) -> int | None:
        """The descriptor by which SQLite has the file *identity* open; None if it has not.

        One of our own would do harm: closing it drops SQLite's locks on the file (fcntl(2))."""
        file = self._descriptors.get(identity)
        if file is not None and _is(file, identity):
            return file
        with suppress(OSError):  # Linux only
            for name in os.listdir("/proc/self/fd"):
                if _is(int(name), identity):
                    self._descriptors[identity] = int(name)
                    return int(name)
        return None


def uri_of(path: Path, *, reads_only: bool = False) -> str:
    """The URI by which SQLite opens the file at *path*, and does not create it."""
    mode = "ro" if reads_only else "rw"
    return f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"


def _is(file: int, identity: Identity) -> bool:
    """Whether the descriptor *file* is of the file *identity*."""
    try:
        return _identity(os.fstat(file)) == identity
    except OSError:
        return False


def _stat(name: str) -> FileStat:
    """The file at *name*, or `_MISSING`."""
    try:
        found = os.stat(name)
    except OSError:
        return _MISSING
    return FileStat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    """The file's size in bytes; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
