"""What a valid setting looks like: checked text and numbers, as types.

Knows the form of each by itself and says what it must be; groups.py has the settings."""

import math
import re
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator

from content_gateway.codecs.quantities import parse_bytes, parse_seconds
from content_gateway.model import multiaddr

_ORIGIN = re.compile(r"(https?)://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"https": "443", "http": "80"}


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("must be an http:// or https:// address")
    return text


def _ws_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("ws", "wss") or not parts.hostname or parts.port == 0:
        raise ValueError("must be a ws:// or wss:// address")
    return text


def _address(text: str) -> str:
    try:
        if text.startswith("0x") and len(bytes.fromhex(text[2:])) == 20:
            return text
    except ValueError:
        pass
    raise ValueError("must be a contract address: 0x and 40 hex digits")


def _database_url(text: str) -> str:
    """SQLite's are ours; PostgreSQL's are libpq's (its manual, "Connection Strings"): a URI, or
    words such as `host=db1,db2 dbname=gateway`. What is in them is read where they are opened."""
    is_file = text.startswith("sqlite:///") and ":memory:" not in text
    if text and not is_file and not is_postgres(text):
        raise ValueError(
            "must be sqlite:///PATH (four slashes for an absolute path), or"
            " postgresql://USER@HOST/DATABASE"
        )
    return text


def is_postgres(url: str) -> bool:
    """Whether *url*, of a database, is one of PostgreSQL."""
    is_words = re.match(r"\s*[a-z_]+\s*=", url) is not None
    return url.startswith(("postgresql://", "postgres://")) or (is_words and "://" not in url)


def shown_database(url: str) -> str:
    """*url* of a PostgreSQL, without anything that could be a secret: its hosts and its name."""
    if "://" in url:
        parts = urlsplit(url)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
    found = dict(re.findall(r"(host|port|dbname|service)\s*=\s*'?([^\s']*)", url))
    return "postgresql " + " ".join(f"{name}={value}" for name, value in found.items())


_STORE_FORMS: Final = (
    "must be redis://HOST:PORT/DATABASE, rediss:// (TLS), valkey://, valkeys:// or unix:///PATH;"
    " a password stands in it as redis://:PASSWORD@HOST, its special letters as %XX"
)
_STORE_QUERIES: Final = {"unix": {"db"}, "rediss": {"ssl_ca_certs"}, "valkeys": {"ssl_ca_certs"}}


def _store_url(text: str) -> str:
    """As the clients of Valkey and Redis write it; what is left out has their defaults.

    No error repeats what was given: a password with a slash is read as a part of the path."""
    if not text:
        return text
    try:
        parts = urlsplit(text)
        is_socket, port = parts.scheme == "unix", parts.port
        query = parse_qs(parts.query, keep_blank_values=True)
    except ValueError:
        raise ValueError(_STORE_FORMS) from None
    known = parts.scheme in ("redis", "rediss", "valkey", "valkeys", "unix")
    if not known or port == 0 or parts.fragment or is_socket == bool(parts.hostname):
        raise ValueError(_STORE_FORMS)
    database = query.get("db", ["0"])[0] if is_socket else parts.path.strip("/") or "0"
    if not re.fullmatch("[0-9]{1,4}", database) or (is_socket and parts.path in ("", "/")):
        raise ValueError(_STORE_FORMS)
    if unknown := set(query) - _STORE_QUERIES.get(parts.scheme, set()):
        raise ValueError(f"has {len(unknown)} parameters that are not known; ssl_ca_certs=FILE is")
    return text


def _ip_address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError("must be an IP address") from None


def _ip_network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError("must be an IP address or a network, as 10.0.0.0/8") from None


def _local_origin(text: str) -> str:
    found = re.fullmatch(r"http://(?:127\.0\.0\.1|\[::1\]):(\d{1,5})", text, re.ASCII)
    if found is None or int(found[1]) not in range(1, 65536) or int(found[1]) == 443:
        raise ValueError("must be http://127.0.0.1:PORT or http://[::1]:PORT, not port 443")
    return text


def _origin(text: str) -> str:
    """As a browser writes it (RFC 6454 section 6.2): anything else would match no page."""
    found = _ORIGIN.fullmatch(text)
    if text == "*" or (found and found[2] != _DEFAULT_PORTS[found[1]] and _is_port(found[2])):
        return text
    raise ValueError("must be an origin, as https://app.example or http://localhost:3000, or *")


_HOST_PATTERN: Final = re.compile(r"\*(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+", re.ASCII)


def _host_pattern(text: str) -> str:
    lowered = text.lower()
    if not _HOST_PATTERN.fullmatch(lowered) or len(lowered) > 200:
        raise ValueError("must be a wildcard and a domain, as *.example.limo")
    return lowered


def _redirect_template(text: str) -> str:
    try:
        filled = text.format(cid="cid", domain="domain.example", path="/path")
    except (LookupError, ValueError, AttributeError):
        filled = ""
    parts = urlsplit(filled)
    names_content = "{cid}" in text or "{domain}" in text
    if not (names_content and "{path}" in text and text.isascii() and filled.isprintable()):
        raise ValueError("must have {path} in it, and {cid} or {domain}, and no other braces")
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in filled:
        raise ValueError("must be an http:// or https:// address")
    return text


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) < 65536


def _replicas(number: int) -> int:
    if not -1 <= number <= 1000:
        raise ValueError("must be -1 (all peers), 0 (the cluster's default) or a number of peers")
    return number


def _multiaddr(text: str) -> str:
    try:
        if multiaddr.Multiaddr.parse(text).peer_id is not None:
            return text
    except ValueError:
        pass
    raise ValueError("must be a multiaddr with a peer id: /ip4/192.0.2.1/tcp/4001/p2p/12D3...")


def _seconds(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number of seconds")
    return parse_seconds(value) if isinstance(value, str) else value


def _bytes(value: Any) -> Any:
    return parse_bytes(value) if isinstance(value, str) else value


# They mark their settings, so that these are shown with a unit.
SECONDS: Final = BeforeValidator(_seconds)
BYTES: Final = BeforeValidator(_bytes)
Seconds = Annotated[float, SECONDS]
Bytes = Annotated[int, BYTES]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
WebSocketUrl = Annotated[str, AfterValidator(_ws_url)]
LocalOrigin = Annotated[str, AfterValidator(_local_origin)]
OptionalHttpUrl = Annotated[str, AfterValidator(lambda text: text and _http_url(text))]
Origin = Annotated[str, AfterValidator(_origin)]
HostPattern = Annotated[str, AfterValidator(_host_pattern)]
RedirectTemplate = Annotated[str, AfterValidator(_redirect_template)]
Replicas = Annotated[int, AfterValidator(_replicas)]
Multiaddr = Annotated[str, AfterValidator(_multiaddr)]
IpAddress = Annotated[str, AfterValidator(_ip_address)]
IpNetwork = Annotated[str, AfterValidator(_ip_network)]
Address = Annotated[str, AfterValidator(_address)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
