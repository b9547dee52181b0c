"""Files that a command writes for a person: whole or not there, and for their owner only.

Knows the temporary name beside the file, under which it is written. What is in it is the
command's business."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from content_gateway.errors import GatewayError


def refuse_to_replace(file: Path, *, force: bool) -> None:
    """Raises GatewayError when *file* is there already, unless *force* says to replace it."""
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise GatewayError(f"{file} is no regular file.")
    if not force:
        raise GatewayError(f"{file} is there already; --force replaces it.")


@contextmanager
def written(file: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """The stream that becomes *file* at the end, if nothing fails; standard output for None.

    Raises GatewayError as `refuse_to_replace` does, and when it cannot be written."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    refuse_to_replace(file, force=force)
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=_for_us) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        refuse_to_replace(file, force=force)
        part.replace(file)
    except OSError as wrong:
        raise GatewayError(f"{file} cannot be written: {wrong.strerror}.") from wrong
    finally:
        with suppress(OSError):
            part.unlink()


def _for_us(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
