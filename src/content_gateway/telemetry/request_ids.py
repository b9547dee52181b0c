"""Request ids: our own, or the one that a request has already.

Knows the two header fields that carry one through several services. What an id is written into is
left to http/."""

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

# What proxies and clients use: UUIDs, ULIDs, hex, counters. Nothing that ends a line or a JSON
# string, and nothing that looks like a key of ours.
_REQUEST_ID: Final = re.compile(rb"(?!.*cg_)[0-9A-Za-z._:+/=@-]{1,128}")
# W3C Trace Context, section 3.2.2: version, trace id, parent id, flags; ff is no version, and a
# trace id of zeros none. A later version may have more behind its flags.
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


def request_ids() -> Iterator[str]:
    """Ids that are unique across processes and restarts: a random start, then a count."""
    prefix = f"{secrets.token_hex(4)}{os.getpid():x}"
    return (f"{prefix}-{number}" for number in count(1))


def sent_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The id that the request was given before it came here: its X-Request-Id, else the trace id of
    its traceparent. None without one, or where it has not the form of one."""
    trace = None
    for name, value in headers:
        if name == b"x-request-id":
            if _REQUEST_ID.fullmatch(value):
                return value.decode("ascii")
        elif name == b"traceparent" and (found := _TRACEPARENT.fullmatch(value)):
            trace = found[1].decode("ascii")
    return trace
