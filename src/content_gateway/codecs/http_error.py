"""`HttpError(uint16 status, string message)`: a failed gateway, as contracts and we tell of it.

Knows the error of ENSIP-21 and which statuses mean that trying again may help. Who failed, and
what follows from it, is left to the callers."""

from typing import Final

from content_gateway.codecs import abi

SELECTOR: Final = bytes.fromhex("01800152")
TIMEOUT: Final = 504  # as a proxy says that its server did not answer in time
INVALID: Final = 502  # as it says that its server gave an invalid answer (RFC 9110 section 15.6.3)
UNAVAILABLE: Final = 503
_TOO_LATE_OR_TOO_MUCH: Final = (408, 429)


def encode(status: int, message: str) -> bytes:
    """The error as a contract reverts with it."""
    return SELECTOR + abi.uint(status) + abi.uint(2 * abi.WORD) + abi.tail(message.encode())


def read_status(data: bytes) -> int:
    """The status in an error; 0 where it cannot be read."""
    try:
        return abi.read_uint(data, len(SELECTOR))
    except ValueError:
        return 0


def is_refusal(status: int) -> bool:
    """True when the gateway works and will refuse the same request again."""
    return 400 <= status < 500 and status not in _TOO_LATE_OR_TOO_MUCH
