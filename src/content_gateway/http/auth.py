"""Who asks: the header field, or the segment of a path, that carries a key, to a requestor.

Knows the ways to send a key, and that exactly one must be used; whether a key is good is left
to the keys it is given. A refusal's reason is for the log, and not for the caller."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from content_gateway.api_keys import KeyRecord, Requestor
from content_gateway.errors import KeyRefused, ScopeMissing

# The scheme of operations whose last segment is the key: for clients that take nothing but a URL.
KEY_IN_PATH: Final = "path"
ANY_SCOPE: Final = "any"  # of an operation that every good key may call

Fields: TypeAlias = Iterable[tuple[bytes, bytes]]


class KeyVerifier(Protocol):
    """Whoever knows the keys."""

    def remembered(self, key: str) -> Requestor | None:
        """The requestor behind *key*, if that is known without reading anything; KeyRefused."""

    async def identify(self, key: str) -> Requestor:
        """The requestor behind *key*; raises KeyRefused or StorageUnavailable."""

    async def describe(self, key: str) -> KeyRecord | None:
        """What is stored of *key*, None if it was not issued; raises StorageUnavailable."""


class Principal(msgspec.Struct, frozen=True):
    """A requestor that may do what it asked for, and the key as it was sent."""

    requestor: Requestor
    key: str


CredentialSource: TypeAlias = Callable[[Fields], str]


def from_api_key(headers: Fields) -> str:
    """The key in the one x-api-key field of *headers*; raises KeyRefused."""
    return _only(headers, b"x-api-key")


def from_bearer(headers: Fields) -> str:
    """The token in the one Authorization field of *headers* (RFC 6750); raises KeyRefused."""
    scheme, _, token = _only(headers, b"authorization").partition(" ")
    if scheme.lower() != "bearer":
        raise KeyRefused("not a bearer token")
    return token.strip(" ")


# How the key is sent, by the name of the security scheme in the contract.
CREDENTIAL_SOURCES: Final[Mapping[str, CredentialSource]] = {
    "apiKey": from_api_key,
    "bearer": from_bearer,
}


def has_api_key(headers: Fields) -> bool:
    """Whether a key was sent at all, be it empty."""
    return any(name == b"x-api-key" for name, _ in headers)


def require_scope(requestor: Requestor, scope: str) -> None:
    """Raises ScopeMissing if the key of *requestor* does not have *scope*."""
    if scope != ANY_SCOPE and scope not in requestor.scopes:
        raise ScopeMissing(f"The API key does not have the scope '{scope}'.")


def _only(headers: Fields, field: bytes) -> str:
    given = None
    for name, value in headers:
        if name == field:
            if given is not None:
                raise KeyRefused("doubled")
            given = value
    if given is None:
        raise KeyRefused("missing")
    return given.strip(b" \t").decode("latin-1")  # RFC 9110 section 5.5
