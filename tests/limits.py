"""Limits of this process (getrlimit(2)), lowered for a moment."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_descriptors() -> Iterator[None]:
    """No more can be opened in the block; those that are open stay so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
