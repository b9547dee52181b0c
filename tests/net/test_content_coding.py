"""Compression that nobody asked for: undone under the cap, in steps, or refused."""

import gzip
import zlib
from collections.abc import Callable

import pytest

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.net.content_coding import MAX_MEMBERS, PIECE, decoder_of
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.flood import flooding
from tests.lag import MOST_LAG, loop_lag

TEXT = b'{"data":"0x' + bytes(range(48, 58)) * 40_000 + b'"}'


def bare(data: bytes) -> bytes:
    """Deflate without the zlib format around it, as some servers send it."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    "deflate": zlib.compress,
    " deflate ": bare,
    "identity": bytes,
    "": bytes,
}


def head(coding: str, length: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (
        coding.encode(),
        length,
    )


async def ask(coding: str, sent: bytes, *, max_bytes: int = 1 << 20) -> bytes:
    """The body that the guarded client makes of what was *sent*, without holding the loop."""
    with flooding(head(coding, len(sent)) + sent) as server:
        async with HttpClient(Guard(local_gateways=[server.url])) as outbound, loop_lag() as lag:
            try:
                url = server.url + "/"
                answer = await outbound.ask("GET", url, seconds=60, max_bytes=max_bytes)
            finally:
                assert lag.worst < MOST_LAG
            return answer.body


@pytest.mark.parametrize("coding", CODINGS)
async def test_what_was_compressed_is_read(coding: str) -> None:
    """The body is the same, whichever way it came; the cap counts what it stands for."""
    sent = CODINGS[coding](TEXT)
    assert await ask(coding, sent) == TEXT
    assert await ask(coding, sent, max_bytes=len(TEXT)) == TEXT
    with pytest.raises(InvalidUpstreamResponse, match="bytes"):
        await ask(coding, sent, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_stream_is_read_likewise(coding: str) -> None:
    """Blocks and listings that come in pieces may be compressed by somebody on the way, too."""
    sent = CODINGS[coding](TEXT)
    with flooding(head(coding, len(sent)) + sent) as server:
        async with (
            HttpClient() as outbound,
            outbound.stream("GET", server.url, seconds=60, idle_seconds=60) as stream,
        ):
            assert b"".join([chunk async for chunk in stream.chunks()]) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("cut", [1, 10, 100])
async def test_what_is_cut_or_broken_is_no_answer(coding: str, cut: int) -> None:
    """A coding that does not end, and one that is not what it says."""
    sent = CODINGS[coding](TEXT)
    with pytest.raises(InvalidUpstreamResponse, match="cut short"):
        await ask(coding, sent[:-cut])
    with pytest.raises(InvalidUpstreamResponse, match=r"broken|parts|cut short"):
        await ask(coding, TEXT)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "\x80"])
async def test_other_codings_are_refused(coding: str) -> None:
    """Nobody asked for any: what everybody can undo is enough."""
    with pytest.raises(InvalidUpstreamResponse, match="nobody asked"):
        await ask(coding, gzip.compress(b"{}"))


async def test_a_bomb_stays_small() -> None:
    """400 KB that stand for 400 MB are left at the cap, in pieces, and hold nobody up."""
    bomb = gzip.compress(bytes(400_000_000), 9)
    assert len(bomb) < 1 << 20
    with pytest.raises(InvalidUpstreamResponse, match="more than"):
        await ask("gzip", bomb)
    longest = total = 0
    decoder = decoder_of("gzip")
    assert decoder is not None
    for piece in decoder.decode(bomb):
        longest, total = max(longest, len(piece)), total + len(piece)
        if total > 1 << 20:
            break
    assert longest <= PIECE


async def test_members_have_a_number() -> None:
    """A file of thousands of empty members costs a decoder each (RFC 1952, section 2.2)."""
    few = gzip.compress(b"ab") * MAX_MEMBERS
    assert await ask("gzip", few) == b"ab" * MAX_MEMBERS
    with pytest.raises(InvalidUpstreamResponse, match="parts"):
        await ask("gzip", gzip.compress(b"") * 40_000)


async def test_blocks_of_nothing_cost_little() -> None:
    """A megabyte of empty blocks stands for nothing, and is read as such."""
    compressor = zlib.compressobj(wbits=31)
    nothing = compressor.compress(b"") + b"\x00\x00\x00\xff\xff" * 200_000 + compressor.flush()
    assert await ask("gzip", nothing) == b""
