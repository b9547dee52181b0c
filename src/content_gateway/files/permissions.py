"""Who may read our files: nobody but us, also where an earlier version was laxer, and where root
has run a command of ours.

Knows modes and owners (chmod(2), chown(2)), and which files a data folder holds."""

import os
import pwd
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


def open_own(path: Path) -> int:
    """A descriptor of the file at *path*, to read and write; made, for its owner alone, if missing.

    What root makes belongs to the owner of its folder: root's command must not be in the way of the
    service that runs as that user. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        # Exclusive: never give away what was there before, or what a link points at.
        file = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.fchown(file, folder.st_uid, folder.st_gid)
    return file


def refusal(path: Path, *, makes: bool = True) -> str | None:
    """Why this process may not read and write the file at *path*, in words.

    Nor make it, if it *makes* what is missing. None where it is not for somebody else's rights."""
    if os.geteuid() == 0:
        return None
    *folders, file = (*reversed(path.absolute().parents), path.absolute())
    reached = folders[0]
    for folder in folders:
        if not folder.is_dir():
            break
        reached = folder
        if not os.access(folder, os.X_OK):
            return _belongs_to_another(folder)
    if file.exists():
        return None if os.access(file, os.R_OK | os.W_OK) else _belongs_to_another(file)
    return None if not makes or os.access(reached, os.W_OK) else _belongs_to_another(reached)


def _belongs_to_another(path: Path) -> str | None:
    """Whose *path* is, which this process may not use, and what to do, if it is not its own."""
    if path.stat().st_uid == os.geteuid():
        return None
    owner, we = _user(path.stat().st_uid), _user(os.geteuid())
    return f"{path} belongs to {owner}, and this runs as {we}: run it as {owner}, or elsewhere"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def give_to_owner_of(path: Path, other: Path) -> None:
    """Give *path* to whoever *other* belongs to, where we are root: a service is somebody else.

    Raises OSError."""
    if os.geteuid() == 0:
        found = other.stat()
        os.chown(path, found.st_uid, found.st_gid, follow_symlinks=False)


def tighten_folder(folder: Path) -> None:
    """Take a data folder that an earlier version made from everybody else.

    Not one that holds anything but ours: it may be somebody's home, or /tmp."""
    try:
        is_ours = all(entry.name.startswith(_OURS) for entry in folder.iterdir())
    except OSError:
        return
    if is_ours and tighten(folder, 0o700):
        log.info("the data folder was taken from other users", folder=str(folder), mode="0700")
