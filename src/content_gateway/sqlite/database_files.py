"""The files of an open SQLite database: whether they are still what their paths lead to.

In WAL mode SQLite never asks (its unix VFS compares the open file with the path only where it
opens a rollback journal): it goes on in a file that was unlinked, and takes a log that somebody has
cut for its own, which spoils the database at the next checkpoint. So whoever answers asks here
first. Knows the names of the files and the two headers that tell what must be in them; who may read
them is left to permissions.py, when to ask and what is answered then to the databases."""

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
from content_gateway.files.permissions import tighten, tighten_folder
from content_gateway.sqlite.wal_index import FRAME_HEADER, INDEX_BYTES, LOG_HEADER, WalIndex

LOOK_SECONDS: Final = 1.0
_MAGIC: Final = b"SQLite format 3\0"
_TRIES: Final = 20

Identity = tuple[int, int]  # device, inode


class FileIdentity(NamedTuple):
    """What is at a path; *size* in bytes, *written* in nanoseconds since 1970."""

    device: int
    inode: int
    size: int
    written: int


_NOTHING: Final = FileIdentity(-1, -1, -1, -1)

log = structlog.get_logger(__name__)


class DatabaseFiles:
    """The database at *path*, its log and its index; *name* is what people call it."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._paths = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
        self._names = [str(file) for file in self._paths]  # a Path takes as long as the look
        self._identities: list[Identity] = []
        self._log = -1
        # When the database was written, and the index then.
        self._seen: tuple[int, WalIndex] | None = None
        # The index and what is at the paths, as they were when a look found nothing wrong.
        self._sound: tuple[bytes, Sequence[FileIdentity]] | None = None
        self._problem: str | None = None
        self._has_all = True
        self._files: dict[Identity, int] = {}  # where this process has them open
        self._is_sound = False  # behind the last commit, and none has begun since
        self._is_right = False  # as far as this turn of the event loop has looked

    def prepare(self) -> None:
        """Make the folder and an empty file where there is none; nobody but us may read them.

        Raises OSError, and WrongSettings where there is a log without its database: SQLite would
        throw the log away, and what was promised is in it."""
        path, wal, _ = self._paths
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _size(wal) and not _size(path):
            raise WrongSettings(
                f"data_dir: {wal} is there, and the database it belongs to is not: put {path.name}"
                " back, or take both away"
            )
        with suppress(FileExistsError):
            # Before SQLite has it open: any close of a file drops the process's locks on it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        tighten_folder(path.parent)
        if [file for file in self._paths if tighten(file)]:
            log.info("files were taken from other users", database=self._name, mode="0600")

    def opened(self) -> None:
        """Remember the files, which SQLite has open now; raises OSError."""
        self._identities = [_identity(path.stat()) for path in self._paths]
        # SQLite has no lock on the log, so that it may be opened and closed beside it.
        self._log = os.open(self._paths[1], os.O_RDONLY | os.O_CLOEXEC)
        if _identity(os.fstat(self._log)) != self._identities[1]:
            raise OSError("its files were replaced while they were opened")
        self.check()

    def close(self) -> None:
        """Forget them."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def check_path(self) -> None:
        """As `check`, for what only reads: costs one look at the path while all is well."""
        if self._problem is not None or _found(self._names[0])[:2] != self._identities[0]:
            self.check()

    def check_turn(self) -> None:
        """As `check_path`, once for all that is read in one turn of the running event loop."""
        if not self._is_right:
            self.check_path()
            self._is_right = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_right = False

    @property
    def has_all(self) -> bool:
        """Whether all that was written is still in our hands, and the database is at its path.

        So it is where only the log was taken away, which is open here: a checkpoint saves it."""
        with suppress(StorageUnavailable):
            self.check()
        return self._has_all

    @property
    def is_behind(self) -> bool:
        """Whether the log has something that is not in the database yet, as far as can be told."""
        index = WalIndex.parse(self._index())
        return index is not None and index.checkpointed < index.frames

    def check(self) -> None:
        """Raises StorageUnavailable unless the files are sound; logs when that changes."""
        problem = self._look()
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

    def check_before(self, *, follows: bool) -> None:
        """As `check`, before a commit; the path alone where that *follows* another at once, behind
        which all was sound, so that nothing is written that was asked for after they went."""
        was_sound, self._is_sound = self._is_sound, False
        if follows and was_sound:
            self.check_path()
        else:
            self.check()

    def check_after(self) -> None:
        """As `check`, behind a commit."""
        self.check()
        self._is_sound = True

    async def watch(self) -> None:
        """Look once a second, for the log and for those who only read."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StorageUnavailable):
                self.check()

    def _look(self) -> str | None:
        """What is wrong with the files, if anything is, by an index that did not change meanwhile.

        A look is some ten calls of the system, and each gives the interpreter away: where nothing
        has changed since they were sound it is half of that."""
        for _ in range(_TRIES):
            lost: Sequence[int] = ()
            try:
                before, found = self._index(), [_found(name) for name in self._names]
                if (before, found) == self._sound:
                    return None
                lost = [n for n, file in enumerate(found) if file[:2] != self._identities[n]]
                index = WalIndex.parse(before)
                inside = self._look_inside(index, found, lost)
                if not lost and self._index() != before:
                    continue
                if inside is None and index is not None:
                    self._seen = found[0].written, index
            except OSError as wrong:
                inside = str(wrong)
            self._has_all = inside is None
            self._sound = None if lost or inside else (before, found)
            if not lost:
                return inside
            return f"{self._paths[lost[0]].name} is gone, or another file is in its place"
        return self._problem  # others write without a pause; the next look will find it out

    def _look_inside(
        self, index: WalIndex | None, found: Sequence[FileIdentity], lost: Sequence[int]
    ) -> str | None:
        """Whether the files hold what they must by the *index*."""
        if lost not in ([], [1]):
            return "it is not at its path"
        database, wal, _ = found
        size = os.fstat(self._log).st_size if lost else wal.size
        return self._problem_of_database(index, database) or self._problem_of_log(index, size)

    def _problem_of_database(self, index: WalIndex | None, found: FileIdentity) -> str | None:
        name = self._paths[0].name
        sound = self._sound  # other threads look too
        if sound is None or found != sound[1][0]:
            file = self._open_file(self._identities[0])
            if not found.size or (file is not None and os.pread(file, len(_MAGIC), 0) != _MAGIC):
                return f"{name} was emptied or written over"
        if index is None:
            return None
        is_complete = index.checkpointed >= index.frames
        if is_complete and found.size < index.pages * index.page_bytes:
            return f"{name} was cut off"
        # Only a checkpoint writes it, and each of them moves the index: before, and afterwards.
        if self._seen is not None and index.attempted <= index.checkpointed:
            written, seen = self._seen
            if index.checkpoint == seen.checkpoint and found.written != written:
                return f"{name} was written over"
        return None

    def _problem_of_log(self, index: WalIndex | None, size: int) -> str | None:
        if index is None or not index.frames:
            return None  # nothing in it is needed
        last = LOG_HEADER + (index.frames - 1) * (FRAME_HEADER + index.page_bytes)
        header = os.pread(self._log, LOG_HEADER, 0)
        frame = os.pread(self._log, FRAME_HEADER, last)
        if (
            header[16:24] != index.salts
            or frame[8:16] != index.salts
            or size < last + FRAME_HEADER + index.page_bytes
        ):
            return f"{self._paths[1].name} was cut off or written over"
        return None

    def _index(self) -> bytes:
        """The beginning of the index as it stands; b"" where it cannot be read."""
        file = self._open_file(self._identities[2])
        return b"" if file is None else os.pread(file, INDEX_BYTES, 0)

    def _open_file(self, identity: Identity) -> int | None:
        """A file that this process, SQLite in it, has open and that is *identity*; None if none is.

        Not one of our own: to close it would take SQLite's locks away (fcntl(2))."""
        file = self._files.get(identity)
        if file is not None and _is(file, identity):
            return file
        with suppress(OSError):  # Linux only
            for name in os.listdir("/proc/self/fd"):
                if _is(int(name), identity):
                    self._files[identity] = int(name)
                    return int(name)
        return None


def uri_of(path: Path, *, reads_only: bool = False) -> str:
    """What SQLite opens the file at *path* by, and never makes one."""
    mode = "ro" if reads_only else "rw"
    return f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"


def _is(file: int, identity: Identity) -> bool:
    """Whether the open *file* is *identity*."""
    try:
        return _identity(os.fstat(file)) == identity
    except OSError:
        return False


def _found(name: str) -> FileIdentity:
    """What is at *name*; nothing has numbers of its own."""
    try:
        found = os.stat(name)
    except OSError:
        return _NOTHING
    return FileIdentity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    """How long the file is; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
