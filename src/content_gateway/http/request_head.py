"""The head of a request: what its request line and its Host may say.

Knows RFC 9112 sections 2.3 and 3.2 and RFC 3986 section 3.2.2: which versions of HTTP are spoken
here, and what a host is. Bytes in, a verdict out; how a refusal is sent is left to protocol.py."""

import re
from ipaddress import IPv6Address, ip_address
from typing import Final

from content_gateway.http.kinds import (
    BAD_REQUEST,
    FOREIGN_HOST,
    LARGE_HEAD,
    LONG_PATH,
    LONG_QUERY,
    UNKNOWN_HTTP,
    Kind,
)

_SPOKEN: Final = (b"HTTP/1.1", b"HTTP/1.0")
_ANY_HTTP: Final = re.compile(rb"HTTP/\d+(\.\d+)?")
# host [":" port]; a registered name has no userinfo, no spaces and no broken escapes.
_HOST: Final = re.compile(
    rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|((?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,255}))"
    rb"(?::([0-9]{0,5}))?"
)


def version_of(head: bytes) -> str | Kind:
    """The version that the request line of *head* names, "1.1" or "1.0"; or what is wrong with it.

    The parser takes RTSP and HTTP/2.0 for HTTP/1."""
    if head.find(b" HTTP/1.1\r\n", 0, head.find(b"\n") + 1) >= 0:
        return "1.1"  # as nearly always
    line = head.lstrip(b"\r\n")
    line = line[: max(0, line.find(b"\n"))].rstrip(b"\r ")
    protocol = line[line.rfind(b" ") + 1 :]
    if protocol in _SPOKEN:
        return protocol[-3:].decode()
    return UNKNOWN_HTTP if _ANY_HTTP.fullmatch(protocol) else BAD_REQUEST


def wrong_host(value: bytes, *, is_local: bool, sites: tuple[str, ...] = ()) -> Kind | None:
    """What is wrong with a Host field; if the service *is_local*, it is for local hosts only, and
    for those whose end is one of *sites*."""
    host = host_of(value)
    if host is None:
        return BAD_REQUEST
    is_foreign = is_local and not is_loopback(value) and not host.removesuffix(".").endswith(sites)
    return FOREIGN_HOST if is_foreign else None


def names_another_host(target: bytes, host: bytes) -> bool:
    """Whether a request's *target* in absolute form is for another host than its *host* field.

    The one in the target would count (RFC 9112 section 3.2.2), and proxies that go by the other
    one exist; clients send the same in both (section 3.2)."""
    _, mark, rest = target.partition(b"://")
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    return bool(mark) and host_of(authority) != host_of(host)


def host_of(value: bytes) -> str | None:
    """The host in a Host field, lower-case, without port; None if invalid (RFC 9110, 4.2.1)."""
    found = _HOST.fullmatch(value)
    if found is None or (found[3] and int(found[3]) > 65_535):
        return None
    if found[1] is not None:
        try:
            return str(IPv6Address(found[1].decode()))
        except ValueError:
            return None
    return found[2].decode().lower()


def is_loopback(value: bytes) -> bool:
    """Whether a Host field names this machine: 127.0.0.0/8, ::1 or localhost, at any port.

    DNS rebinding sends a browser here under another name, but not under these."""
    host = host_of(value)
    # A dot behind a name says that nothing follows it (RFC 1034 section 3.1).
    if host is None or host.removesuffix(".") == "localhost":
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def too_large(url: bytes, path_bytes: int) -> Kind:
    """What makes a head too large whose target is *url*, as far as it has arrived."""
    path, _, query = url.partition(b"?")
    if len(path) > path_bytes:
        return LONG_PATH
    return LONG_QUERY if len(query) > path_bytes else LARGE_HEAD
