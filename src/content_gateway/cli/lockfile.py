"""The mark that a service leaves beside its ledger: whether one runs, and how it was set.

A command that works on the ledger must not do what the service would not: keep the pins with
another backend, or take a key for another requestor. Knows one small file and the lock on it,
which ends with the process, however that ends; what follows is left to the commands."""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from content_gateway.errors import GatewayError, StorageUnavailable, WrongSettings
from content_gateway.files.disk import is_of_the_disk
from content_gateway.files.permissions import open_own, refusal, tighten
from content_gateway.settings.model import Settings

_SIZE: Final = 256  # always as long, so that one write replaces all of it
# Another command may be probing in this very moment, and many in step with each other.
_PROBES: Final = 6
_BETWEEN_PROBES: Final = 0.02  # at most


class Lockfile(msgspec.Struct, frozen=True):
    """The last service of a ledger: its `pins.backend`, `keys.mode`, and if it had the demo."""

    backend: str
    keys: str
    has_demo: bool


@contextmanager
def held(settings: Settings, *, has_demo: bool) -> Iterator[None]:
    """While entered, this process is known as a service of the ledger; raises WrongSettings, and
    StorageUnavailable where the disk cannot be written now.

    The lock decides, not a status check before it: another backend's mark is replaced only by who
    has the lock alone, and who shares it finds the mark that all of them have."""
    mark = Lockfile(settings.pins.backend, settings.keys.mode, has_demo)
    path = _path(settings)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        tighten(path)  # earlier versions let everybody read it
        file = open_own(path)
    except OSError as wrong:
        raise _unusable(path, wrong) from wrong
    try:
        try:
            _take(file, mark)
        except OSError as wrong:
            raise _unusable(path, wrong) from wrong
        yield
    finally:
        os.close(file)


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """While entered, no service of the ledger runs, and none starts; raises GatewayError.

    The last service's mark stays as it is; a file without one says nothing."""
    path = _path(settings)
    try:
        file = open_own(path)
    except OSError as wrong:
        raise GatewayError(f"{path} cannot be used: {wrong.strerror}.") from wrong
    try:
        for _ in range(_PROBES):
            if _locked(file, fcntl.LOCK_EX):
                break
            _pause()
        else:
            raise GatewayError("A service runs on this ledger: stop it first.")
        yield
    finally:
        os.close(file)


def _take(file: int, mark: Lockfile) -> None:
    """Share the lock on *file* with those who have the backend of *mark*; raises WrongSettings."""
    other = None
    for _ in range(_PROBES):
        if _locked(file, fcntl.LOCK_EX):
            _write(file, mark)
        # To share it afterwards lets it go for a moment, in which another may come first.
        fcntl.flock(file, fcntl.LOCK_SH)
        other = _read(file)
        if other is not None and other.backend == mark.backend:
            _write(file, mark)
            return
        _pause()  # whoever probes has it alone for a moment, too
    backend = "another backend" if other is None else other.backend
    raise WrongSettings(
        f"pins.backend: a service with {backend} runs on this ledger; one ledger has one"
    )


def last(settings: Settings) -> Lockfile | None:
    """How the last service of the ledger was set, running or not; None if nobody knows."""
    try:
        file = os.open(_path(settings), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(file)
    finally:
        os.close(file)


def is_held(settings: Settings) -> bool:
    """Whether a service of the ledger runs on this machine."""
    try:
        file = os.open(_path(settings), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for _ in range(_PROBES):
            if _locked(file, fcntl.LOCK_EX):
                return False
            _pause()
        return True
    finally:
        os.close(file)


def _unusable(path: Path, wrong: OSError) -> GatewayError:
    """What to raise where the file at *path* cannot be made, opened or written."""
    if is_of_the_disk(wrong):
        return StorageUnavailable(f"{path} cannot be used now: {wrong.strerror}.")
    return WrongSettings(f"data_dir: {path} cannot be used: {refusal(path) or wrong.strerror}")


def _pause() -> None:
    time.sleep(random.uniform(0, _BETWEEN_PROBES))  # noqa: S311 - out of step, not secret


def _locked(file: int, kind: int) -> bool:
    """Whether the lock could be had at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read(file: int) -> Lockfile | None:
    try:
        return msgspec.json.decode(os.pread(file, _SIZE, 0), type=Lockfile)
    except (OSError, msgspec.DecodeError):
        return None


def _write(file: int, mark: Lockfile) -> None:
    os.pwrite(file, msgspec.json.encode(mark).ljust(_SIZE - 1) + b"\n", 0)


def _path(settings: Settings) -> Path:
    ledger = settings.ledger_path
    return ledger.with_name(ledger.name + ".service")
