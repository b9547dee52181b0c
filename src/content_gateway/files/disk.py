"""What a disk says that cannot be written now: the state of a machine, and no wrong setting.

Knows the numbers of such errors (errno(3)). It may pass, so whoever is refused may try again;
SQLite's own errors are left to sqlite/database.py."""

import errno
import os
from pathlib import Path
from typing import Final

_OF_THE_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)


def is_of_the_disk(wrong: OSError) -> bool:
    """Whether *wrong* says that the disk is full, read-only or broken."""
    return wrong.errno in _OF_THE_DISK


def is_read_only(folder: Path) -> bool:
    """Whether *folder* is there, on a file system that nobody can write to."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False
