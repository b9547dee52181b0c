"""The ways to load the service with one key, and what another key asks meanwhile.

Each is two functions from a number to a request's bytes. Knows paths and header fields only; who
sends them, and how quickly, is left to `flood.py` and `fairness.py`."""

import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from content_gateway.model.ipns_name import IpnsName

HOG: Final = "bench"  # whose pins `fill` makes
QUIET: Final = "quiet"
_SHA2_256_HEAD: Final = b"\x12\x20"
Request: TypeAlias = Callable[[int], bytes]
# From the port, and what the run has prepared for the way, to what is asked.
Maker: TypeAlias = Callable[[int, str], Request]


@dataclass(frozen=True)
class Way:
    """What the one asks over so many *connections*, and what the other asks."""

    load: Maker
    quiet: Maker
    connections: int = 64


def request(method: str, path: str, port: int, key: str) -> bytes:
    """A request as it is sent; without a *key* where that is empty."""
    fields = f"x-api-key: {key}\r\nAuthorization: Bearer {key}\r\n" if key else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{fields}\r\n".encode()


def _of(key: str, method: str, path: Callable[[int], str]) -> Maker:
    return lambda port, _: lambda number: request(method, path(number), port, key)


def _new_pin(number: int) -> str:
    return f"/ipfs/pin/add/{Cid(RAW, SHA2_256, os.urandom(32))}"


def _same_pin(number: int) -> str:
    return f"/ipfs/pin/add/{Cid(RAW, SHA2_256, (number % 100).to_bytes(32, 'big'))}"


def _search(number: int) -> str:
    return f"/psa/pins?name=nothing{number}&match=ipartial"


def _name(label: str) -> Callable[[int], str]:
    unique = os.urandom(4).hex()
    return lambda number: f"/domain/resolve/{label}{number}.{unique}.eth"


def _no_ipns(number: int) -> str:
    key = IpnsName.from_multihash(_SHA2_256_HEAD + os.urandom(32))
    return f"/ipns/resolve/{key.text}"


def _one_of(key: str, method: str = "GET") -> Maker:
    """Each of the paths in the argument, in turn."""

    def make(port: int, argument: str) -> Request:
        turns = itertools.cycle([request(method, path, port, key) for path in argument.split()])
        return lambda _: next(turns)

    return make


WAYS: Final[Mapping[str, Way]] = {
    "writes": Way(_of(HOG, "POST", _new_pin), _of(QUIET, "POST", _new_pin)),
    "searches": Way(_of(HOG, "GET", _search), _of(QUIET, "GET", lambda _: "/ipfs/pin/ls")),
    "look-ups": Way(_of(HOG, "GET", _name("hang")), _of(QUIET, "GET", _name("name")), 1_000),
    "ipns": Way(_of(HOG, "POST", _no_ipns), _one_of(QUIET, "POST"), 1_000),
    "cars": Way(_one_of(""), _one_of("")),
    "blocks": Way(_one_of(""), _one_of("")),
    # What costs nothing but the processor, in both keys' requests.
    "known names": Way(
        _of(HOG, "GET", lambda _: "/domain/resolve/site.demo"),
        _of(QUIET, "GET", lambda _: "/domain/resolve/site.demo"),
    ),
    "repeated pins": Way(_of(HOG, "POST", _same_pin), _of(QUIET, "POST", _same_pin)),
}
