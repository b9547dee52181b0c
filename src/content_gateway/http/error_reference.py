"""The reference of errors: what there is to know of each code, for docs/errors.md and /docs/errors.

Knows what a client can do about each, and whether the same request may succeed later; several kinds
of problems share one code. The words of answers are those of kinds.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from content_gateway.http.kinds import KINDS, Kind

_NEVER: Final = "Do not send it again as it is: it would be refused again."
_RETRY: Final = "Try again after the seconds in `Retry-After`, and wait longer after each failure."
# By code, in the order of kinds.py.
ADVICE: Final = {
    "not-found": f"See `/docs`, or `/spec` for programs. {_NEVER}",
    "method-not-allowed": f"`Allow` lists the methods that it takes. {_NEVER}",
    "bad-request": f"The request is not one that the service could read. {_NEVER}",
    "request-timeout": "Head and body have ten seconds each. Send it again, on a new connection.",
    "uri-too-long": f"A path has 2,048 bytes at most, a head 16 KiB in all. {_NEVER}",
    "header-fields-too-large": (
        f"Send fewer fields, or shorter ones; cookies are not needed. {_NEVER}"
    ),
    "http-version": f"Use HTTP/1.1, or a proxy that does. {_NEVER}",
    "host-not-local": "Ask for one of these hosts, or let the operator issue keys (`keys.mode`).",
    "too-many-connections": f"Use few connections, and keep them. {_RETRY}",
    "length-required": f"Send a `Content-Length`. {_NEVER}",
    "body-too-large": f"Send less; content itself is never sent here. {_NEVER}",
    "invalid-body": (
        f"The detail says what is wrong with it; `/spec` has the form of each body. {_NEVER}"
    ),
    "unsupported-media-type": (
        f"Send `Content-Type: application/json`, and no content coding. {_NEVER}"
    ),
    "not-acceptable": f"Ask with `Accept`, or `?format=`. {_NEVER}",
    "format-missing": (
        "Clients that verify what they get are served, with raw blocks, CARs and IPNS records."
        f" {_NEVER}"
    ),
    "not-held": "Pin it first, or ask another gateway; an IPNS name must be published.",
    "invalid-domain": f"The detail says what no name service could hold (ENSIP-15). {_NEVER}",
    "invalid-cid": (
        f"The detail says what is wrong with its spelling, or why it cannot be pinned. {_NEVER}"
    ),
    "invalid-ipns-name": f"It is a key in any spelling, or a DNSLink domain. {_NEVER}",
    "invalid-coin-type": (
        f"It is a number of SLIP-44, or 0x80000000 + the chain id (ENSIP-11). {_NEVER}"
    ),
    "invalid-address": (
        "Of EVM chains it is 0x and 40 hexadecimal digits, of one case or with the right checksum"
        f" (EIP-55); of others what the chain writes, or its bytes as 0x and digits. {_NEVER}"
    ),
    "invalid-query": (
        f"The detail names the parameter; one that is not known is never passed over. {_NEVER}"
    ),
    "invalid-cursor": f"Take `next` of the page before, as it is. {_NEVER}",
    "unexpected-body": f"Send none, or an empty JSON object. {_NEVER}",
    "unauthorized": (
        "The key is missing, misspelt, sent twice, expired or revoked; the operator's log says"
        f" which. {_NEVER}"
    ),
    "scope-missing": (
        f"`GET /key` lists what it may do; the operator issues keys with other scopes. {_NEVER}"
    ),
    "rate-limited": (
        "Wait for the seconds in `Retry-After`; `RateLimit` in every answer tells what is left,"
        " and `GET /key` all limits of the key."
    ),
    "quota-exceeded": "As for `rate-limited`; the operator can issue a key with a higher limit.",
    "too-many-at-once": (
        f"Wait for answers before you ask on; `GET /key` tells the limits of the key. {_RETRY}"
    ),
    "pin-limit-reached": (
        "Remove a pin, or let the operator raise the limit. Pins that are held already are not"
        " affected."
    ),
    "domain-not-found": (
        "Every name service that covers the domain said so; an outage is never answered like"
        " this. It may be registered later."
    ),
    "primary-name-not-found": (
        "No name is set for the address on that chain, or the name does not lead back to it"
        " (ENSIP-19): show the address. An outage is never answered like this."
    ),
    "task-not-found": "Tasks are told of for an hour. Start the resolution again.",
    "pin-not-found": "This key has no pin of that CID, or none with that request id. Add it.",
    "path-not-found": (
        "The detail says what is missing: the file, an `index.html`, or any content of the domain."
    ),
    "no-certificate": (
        "For a proxy that asks before it gets a certificate: the domain is below none of"
        " `gateway.hosts`, or has no content now, or that could not be found out."
    ),
    "range-not-satisfiable": f"`Content-Range` has the length. {_NEVER}",
    "blocked": f"The operator's denylist names it. {_NEVER}",
    "upstream-unavailable": f"A server behind this one is down or refuses. {_RETRY}",
    "content-unavailable": f"It may be pinned nowhere, or not be announced yet. {_RETRY}",
    "redirects-malformed": (
        "The site has a file `_redirects` that is not what IPIP-290 says; the detail says in which"
        f" line. What is there is still shown. {_NEVER}"
    ),
    "content-malformed": f"Its blocks are what their CIDs say, and contradict each other. {_NEVER}",
    "upstream-timeout": f"A server behind this one is too slow. {_RETRY}",
    "invalid-upstream-response": (
        "A server behind this one, or the name's own resolver, gave an answer that cannot be"
        " right. Try again in a minute; if it stays, tell the operator the `requestId`."
    ),
    "overloaded": f"Too much of this key's work, or of all, is waiting; nothing was done. {_RETRY}",
    "storage-unavailable": (
        "The service cannot read or write its ledger; nothing is promised. With PostgreSQL a pin"
        " may have been made or removed all the same, where the connection broke at that moment:"
        f" its status tells, and asking again does no harm. {_RETRY}"
    ),
    "contract-broken": "Tell the operator; everything else is answered.",
    "internal-error": (
        "Tell the operator the `requestId`. A pin may have been added: ask for its status."
    ),
}


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """What the reference says of one code; *details* are the words of each of its kinds."""

    code: str
    statuses: str
    title: str
    details: tuple[str, ...]
    advice: str
    has_retry_after: bool


def reference() -> list[CodeEntry]:
    """Every code, by status."""
    by_code = sorted(KINDS, key=lambda kind: kind.code)
    entries = [_entry(code, [*kinds]) for code, kinds in groupby(by_code, lambda kind: kind.code)]
    return sorted(entries, key=lambda entry: entry.statuses)


def _entry(code: str, kinds: list[Kind]) -> CodeEntry:
    kinds.sort(key=lambda kind: kind.status)
    return CodeEntry(
        code=code,
        statuses=", ".join(_once(str(kind.status) for kind in kinds)),
        title=kinds[0].title,
        details=tuple(_once(kind.detail for kind in kinds)),
        advice=ADVICE[code],
        has_retry_after=any(name == b"retry-after" for kind in kinds for name, _ in kind.headers),
    )


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
