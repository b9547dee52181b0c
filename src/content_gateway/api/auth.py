"""Who asks: the x-api-key header to a requestor.

Knows the header and that exactly one of it must be there; whether a key is good is decided by
the keys it is given. Says nothing to the caller: a refusal's reason is for the log."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from content_gateway.errors import KeyRefused, ScopeMissing
from content_gateway.keys import Requestor

HEADER = b"x-api-key"


class Keys(Protocol):
    """Whoever knows the keys."""

    def identify(self, key: str) -> Requestor:
        """The requestor behind *key*; raises KeyRefused or StorageUnavailable."""


class Admitted(msgspec.Struct, frozen=True):
    """A requestor that may do what it asked for, and the key as it was sent."""

    requestor: Requestor
    key: str


def admit(keys: Keys, headers: Iterable[tuple[bytes, bytes]], scope: str) -> Admitted:
    """Who sent *headers*; raises KeyRefused, ScopeMissing or StorageUnavailable."""
    given = [value for name, value in headers if name == HEADER]
    if len(given) != 1:
        raise KeyRefused("missing" if not given else "doubled")
    key = given[0].strip(b" \t").decode("latin-1")  # RFC 9110 section 5.5
    requestor = keys.identify(key)
    if scope not in requestor.scopes:
        raise ScopeMissing(f"The API key does not have the scope '{scope}'.")
    return Admitted(requestor, key)
