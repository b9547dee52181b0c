"""Descriptors: who may not take the last ones of those that this process may have open.

A new one has the lowest number that is free (POSIX, open(2)), so its number tells how many are
taken, without counting. Outgoing connections leave some for incoming ones, and these leave some
for the ledger and the blocks. Knows numbers; who makes room is left to connections.py."""

import errno
import os
import resource
import socket
from typing import Final

# The last ones of a small number; a share of it at most.
_KEPT_FOR_FILES: Final = 64
_KEPT_FOR_CALLERS: Final = 128

# No descriptor, no memory, no port of our own: no server can be blamed for them.
_OURS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}
_MOST_CAUSES: Final = 10


def most_files() -> int:
    """How many descriptors this process may have (RLIMIT_NOFILE)."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_048_576 if files == resource.RLIM_INFINITY else files


def is_for_files(descriptor: int) -> bool:
    """Whether *descriptor* is one of the last, which are kept for files of the service."""
    most = most_files()
    return descriptor >= most - min(_KEPT_FOR_FILES, most // 8)


def open_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket to connect with; OSError (EMFILE) where it would be one of the last."""
    opened = socket.socket(family, kind, protocol)
    most = most_files()
    if opened.fileno() >= most - min(_KEPT_FOR_CALLERS, most // 4):
        opened.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return opened


def own_lack(wrong: BaseException) -> OSError | None:
    """The error in *wrong*, or behind it, that says that we lack something ourselves."""
    found: BaseException | None = wrong
    for _ in range(_MOST_CAUSES):
        if isinstance(found, OSError) and found.errno in _OURS:
            return found
        found = found and (found.__cause__ or found.__context__)
    return None
