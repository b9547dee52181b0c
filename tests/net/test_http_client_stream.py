"""Streamed answers: bounded like whole ones, and never mistaken for whole when they are cut."""

import asyncio

import pytest

from content_gateway.errors import InvalidUpstreamResponse, UpstreamTimeout, UpstreamUnavailable
from content_gateway.net.http_client import HttpClient
from tests.net.test_http_client import OK, Peer, listening


async def lines(
    outbound: HttpClient, peer: Peer, *, seconds: float = 5.0, idle: float = 5.0, pause: float = 0.0
) -> list[bytes]:
    """The lines of what *peer* says, each capped at 1,000 bytes; the reader takes its time."""
    read = []
    async with (
        listening(peer),
        outbound.stream("GET", peer.url, seconds=seconds, idle_seconds=idle) as stream,
    ):
        async for line in stream.lines(1_000):
            read.append(line)
            await asyncio.sleep(pause)
    return read


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """An answer in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + body + end


async def test_lines_are_put_together_from_pieces(outbound: HttpClient) -> None:
    """Where a server cuts its pieces does not matter; empty lines are no lines."""
    says = chunked(b'{"a":', b"1}\n\n", b'{"b":2}', b"\nrest")
    assert await lines(outbound, Peer(says)) == [b'{"a":1}', b'{"b":2}', b"rest"]


async def test_a_body_that_ends_too_early_is_no_end(outbound: HttpClient) -> None:
    """A cut stream raises; what was read until then is not all."""
    with pytest.raises(UpstreamUnavailable):
        await lines(outbound, Peer(chunked(b"one\n", end=b"")))


async def test_a_line_has_a_cap(outbound: HttpClient) -> None:
    """A line that does not end is not gathered for ever."""
    with pytest.raises(InvalidUpstreamResponse, match="1000 bytes"):
        await lines(outbound, Peer(OK + b"\r\n", forever=b"x" * 500))


@pytest.mark.parametrize("says", [b"", chunked(b"one\n", end=b"")])
async def test_silence_has_an_end(outbound: HttpClient, says: bytes) -> None:
    """Before the head and between two pieces, *idle_seconds* is all the server has."""
    with pytest.raises(UpstreamTimeout):
        await lines(outbound, Peer(says, hangs_up=False), idle=0.2)


async def test_the_deadline_is_for_all_of_it(outbound: HttpClient) -> None:
    """A server that always has one more line is left in the end."""
    with pytest.raises(UpstreamTimeout):
        await lines(outbound, Peer(OK + b"\r\n", forever=b"again\n"), seconds=0.3)


async def test_the_deadline_does_not_end_the_reader(outbound: HttpClient) -> None:
    """Passed while the reader is busy, it is found at the next read, as an error and no cancel."""
    says = chunked(b"one\n", end=b"")
    with pytest.raises(UpstreamTimeout):
        await lines(outbound, Peer(says, hangs_up=False), seconds=0.2, pause=0.5)
