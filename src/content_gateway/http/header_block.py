"""Header fields as the lines that are sent, each with its line break.

Fields that many answers share are made into lines once: joining them each time is a twentieth of
the time of a small answer. Knows RFC 9112 section 5; which fields there are is for messages.py."""

from collections.abc import Sequence

from content_gateway.http.problems import Headers


def block_of(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The lines of *fields*; ValueError for one with a line break in it.

    More line breaks than fields would be response splitting (RFC 9110 section 5.5)."""
    block = b"".join([b"%b: %b\r\n" % field for field in fields])
    if not block.count(b"\r") == block.count(b"\n") == len(fields):
        raise ValueError("a header field has the end of a line in it")
    return block


def fields_of(block: bytes) -> Headers:
    """The fields whose lines these are; the inverse of `block_of`."""
    fields = []
    for line in block.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        fields.append((name, value))
    return fields
