"""What a path without a key serves: bytes with a validator, also compressed.

Knows conditional requests (RFC 9110 section 13) and the coding gzip. Each coding is a
representation of its own, with a validator of its own (RFC 9110 section 8.8.3.3). Where the bytes
come from is left to the handlers."""

import gzip
import hashlib
from typing import Final

import msgspec

from content_gateway.http.messages import Request, Response, has_current_etag, length_of
from content_gateway.http.negotiation import accepts_gzip
from content_gateway.http.problems import Headers

# To be kept, and asked about each time: an edit shows in the next answer.
_REVALIDATE: Final = (b"cache-control", b"no-cache")
_VARY: Final = (b"vary", b"accept-encoding")
_GZIP: Final = (b"content-encoding", b"gzip")


class Representation(msgspec.Struct, frozen=True):
    """A *body* of the form *media_type* under *etag*, quoted, and its *gzip* where there is one."""

    media_type: bytes
    body: bytes
    etag: bytes
    gzip: bytes | None = None

    def answer(self, request: Request, *more: tuple[bytes, bytes]) -> Response:
        """The body, compressed where that is asked for, or 304 where the caller has it already.

        *more* are header fields that it has beside. Raises HttpRefusal."""
        body, etag, coding = self.body, self.etag, list[tuple[bytes, bytes]]()
        headers: Headers = [_REVALIDATE, *more]
        if self.gzip is not None:
            headers.append(_VARY)
            if accepts_gzip(request.headers):
                body, etag, coding = self.gzip, self.etag[:-1] + b'.gzip"', [_GZIP]
        headers.append((b"etag", etag))
        if has_current_etag(request.headers, etag):
            # Its length would be that of the body it does not have (RFC 9110, 8.6).
            return Response(b"", headers, 304)
        form = (b"content-type", self.media_type)
        return Response(body, [form, *coding, *headers, length_of(body)])


def compressed(media_type: bytes, body: bytes) -> Representation:
    """The representation of *body*, compressed beside; takes 50 ms a megabyte."""
    digest = hashlib.sha256(body).hexdigest()[:32].encode()
    return Representation(media_type, body, b'"%b"' % digest, gzip.compress(body, mtime=0))
