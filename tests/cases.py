"""Cases that one test goes through, where a service of its own for each would prove no more."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*what: object) -> Iterator[None]:
    """Have a failure within say in which case it was."""
    try:
        yield
    except BaseException as wrong:
        wrong.add_note(f"in the case {what!r}")
        raise
