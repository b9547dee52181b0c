"""What this server and its application tell each other beyond ASGI.

The names of the extensions in a scope, and what an application may ask of a connection. What
happens on either side is left to protocol.py and to those who answer."""

from typing import Final, Protocol

from content_gateway.http.limits import ClientLimits

# An encoded slash is part of a segment and separates none (RFC 3986 section 2.2). In the scope's
# path it is this lone surrogate, which decoding UTF-8 can never produce.
ENCODED_SLASH: Final = "\udc2f"
# The ASGI extension that is present if the request has a body. Its "length" is that of
# Content-Length, None without one. A body of up to MAX_BODY_BYTES comes whole in one `receive`.
SENT_BODY: Final = "content_gateway.sent_body"
MAX_BODY_BYTES: Final = 64 * 1024
# Keys of `scope["state"]`: the Connection, and HardenedProtocol.answer.
CONNECTION: Final = "content_gateway.connection"
ANSWER: Final = "content_gateway.answer"


class Connection(Protocol):
    """What an application may ask of the connection that it answers on."""

    bounds: ClientLimits

    def unread(self) -> int:
        """How many bytes were sent that the client has not acknowledged."""

    def use_large_buffer(self, is_large: bool, /) -> None:
        """Set the size of the kernel's send buffer: for a large answer, or the usual one."""

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""

    def reset(self) -> None:
        """Close it by a TCP reset, so that no client takes half an answer for a whole one."""
