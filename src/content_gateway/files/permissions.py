"""Who may read our files: nobody but us, also where an earlier version was laxer.

Knows modes and owners (chmod(2), chown(2)), and which files a data folder holds."""

import os
import stat
from pathlib import Path
from typing import Final

import structlog

# What a data folder holds: two databases with all that stands beside them, and the demonstration.
_OURS: Final = ("ledger.sqlite", "blocks.sqlite", "demo")

log = structlog.get_logger(__name__)


def tighten(path: Path, mode: int = 0o600) -> bool:
    """Take *path* from everybody but its owner, if that is us; whether anything was taken.

    What is not there, is not ours, or cannot be changed is left as it is."""
    try:
        found = path.lstat()
        if found.st_uid != os.geteuid() or stat.S_ISLNK(found.st_mode):
            return False
        if not stat.S_IMODE(found.st_mode) & ~mode:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & mode)
    except OSError:
        return False
    return True


def give_to_owner_of(path: Path, other: Path) -> None:
    """Give *path* to whoever *other* belongs to, where we are root: a service is somebody else.

    Raises OSError."""
    if os.geteuid() == 0:
        found = other.stat()
        os.chown(path, found.st_uid, found.st_gid)


def tighten_folder(folder: Path) -> None:
    """Take a data folder that an earlier version made from everybody else.

    Not one that holds anything but ours: it may be somebody's home, or /tmp."""
    try:
        is_ours = all(entry.name.startswith(_OURS) for entry in folder.iterdir())
    except OSError:
        return
    if is_ours and tighten(folder, 0o700):
        log.info("the data folder was taken from other users", folder=str(folder), mode="0700")
