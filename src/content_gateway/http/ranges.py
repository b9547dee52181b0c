"""Ranges: the part of a body that a client asks for (RFC 9110 section 14).

Knows one range of bytes, which is all that is served: of several, and of what cannot be read, the
whole is sent, as a server may. What the bytes are of is left to the handlers."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from content_gateway.http.kinds import RANGE_NOT_SATISFIABLE
from content_gateway.http.problems import HttpRefusal

_ONE: Final = re.compile(
    rb"bytes=[ \t]*(?:(\d{1,19})-(\d{1,19})?|-(\d{1,19}))[ \t]*", re.IGNORECASE
)


class Span(NamedTuple):
    """The bytes from *start* to before *stop*, of *size* in all."""

    start: int
    stop: int
    size: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all there is."""
        return self.stop - self.start == self.size

    @property
    def length(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start

    def content_range(self) -> tuple[bytes, bytes]:
        """The header field that says which part it is."""
        return b"content-range", b"bytes %d-%d/%d" % (self.start, self.stop - 1, self.size)


def asked_span(headers: Iterable[tuple[bytes, bytes]], etag: bytes, size: int) -> Span:
    """The part of the *size* bytes under *etag* that is asked for.

    Raises HttpRefusal (416) for a range that begins behind the end."""
    whole = Span(0, size, size)
    ranges = [value for name, value in headers if name == b"range"]
    conditions = [value.strip() for name, value in headers if name == b"if-range"]
    found = _ONE.fullmatch(ranges[0]) if len(ranges) == 1 else None
    # A range of an empty file is passed over: some clients send one with every request.
    if found is None or not size or any(condition != etag for condition in conditions):
        return whole
    first, last, suffix = found.groups()
    if suffix is not None:
        length = min(int(suffix), size)
        start, stop = size - length, size
    else:
        start = int(first)
        stop = size if last is None else min(int(last) + 1, size)
        if last is not None and int(last) < start:
            return whole  # no range at all (section 14.1.1)
    if start >= stop:
        raise HttpRefusal(RANGE_NOT_SATISFIABLE, (b"content-range", b"bytes */%d" % size))
    return Span(start, stop, size)
