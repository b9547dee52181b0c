"""Content codings: an answer that came compressed although nobody asked for it (RFC 9110, 8.4).

Undoes gzip and deflate in small pieces, so that whoever reads decides when it is enough. Knows
nothing of HTTP but the names of the codings; the cap is the caller's."""

import zlib
from collections.abc import Iterator
from typing import Final

from content_gateway.errors import InvalidUpstreamResponse

PIECE: Final = 64 * 1024  # bytes that one step may bring
MAX_MEMBERS: Final = 16  # of one gzip file (RFC 1952, section 2.2); each costs 40 KB to begin
_GZIP: Final = 16 + zlib.MAX_WBITS
_DEFLATE: Final = 8  # the compression method in the first byte of a zlib stream (RFC 1950)


class Decoder:
    """One body's coding, "gzip" or "deflate"."""

    def __init__(self, coding: str) -> None:
        self._is_gzip = coding == "gzip"
        self._members = 0
        self._stream: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        """What *data*, the next bytes of the body, stands for: pieces of at most PIECE bytes.

        Raises InvalidUpstreamResponse for what is not of the coding."""
        try:
            while data:
                if self._stream is None:
                    self._stream = self._begin(data)
                stream = self._stream
                piece = stream.decompress(data, PIECE)
                yield piece
                data = stream.unconsumed_tail
                while len(piece) == PIECE and not data and not stream.eof:
                    piece = stream.decompress(b"", PIECE)  # what did not fit
                    yield piece
                if stream.eof:
                    self._stream, data = None, stream.unused_data
        except zlib.error as wrong:
            raise InvalidUpstreamResponse("The compressed answer is broken.") from wrong

    def _begin(self, data: bytes) -> "zlib._Decompress":
        self._members += 1
        if self._members > (MAX_MEMBERS if self._is_gzip else 1):
            raise InvalidUpstreamResponse("The compressed answer has too many parts.")
        if self._is_gzip:
            return zlib.decompressobj(_GZIP)
        # RFC 9110, section 8.4.1.2: some send the bare data without the zlib format around it.
        is_zlib = data[0] & 0x0F == _DEFLATE
        return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)

    def finish(self) -> None:
        """The body has ended; raises InvalidUpstreamResponse when the coding has not."""
        if self._stream is not None:
            raise InvalidUpstreamResponse("The compressed answer is cut short.")


def decoder_of(content_encoding: str | None) -> Decoder | None:
    """The decoder of a Content-Encoding, None for none; raises InvalidUpstreamResponse."""
    coding = (content_encoding or "identity").strip().lower()
    match coding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Decoder("gzip")
        case "deflate":
            return Decoder("deflate")
    raise InvalidUpstreamResponse("The answer is compressed in a way that nobody asked for.")
