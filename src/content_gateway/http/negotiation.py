"""Content negotiation: which forms of an answer a client accepts, and how much it likes each.

Knows the members of Accept and Accept-Encoding with their weights (RFC 9110, sections 12.4.2,
12.5.1 and 12.5.3). Which forms there are is left to the handlers."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from content_gateway.http.kinds import BAD_WEIGHT
from content_gateway.http.messages import listed
from content_gateway.http.problems import HttpRefusal

_WEIGHT: Final = re.compile(rb"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


class Accepted(NamedTuple):
    """One member of the field: a media range or a coding, in lower case."""

    name: bytes
    parameters: dict[bytes, bytes]
    weight: float


def accepted(headers: Iterable[tuple[bytes, bytes]], field: bytes) -> list[Accepted]:
    """The members of *field* in *headers*; raises HttpRefusal for a weight that is none (`nan`)."""
    values = [value for name, value in headers if name == field]
    return [_member(text) for value in values for text in listed(value.lower()) if text]


def accepts_gzip(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether gzip may be sent; raises HttpRefusal. Without the field none is asked for."""
    weights = {member.name: member.weight for member in accepted(headers, b"accept-encoding")}
    return weights.get(b"gzip", weights.get(b"*", 0)) > 0


def weight_of(media_type: bytes, headers: Iterable[tuple[bytes, bytes]]) -> float:
    """How much *media_type* is liked, 0 to 1: the most specific range counts; raises HttpRefusal.

    Without the field everything is liked the same."""
    asked = accepted(headers, b"accept")
    if not asked:
        return 1.0
    for name in (media_type, media_type.partition(b"/")[0] + b"/*", b"*/*"):
        weights = [member.weight for member in asked if member.name == name]
        if weights:
            return max(weights)
    return 0.0


def _member(text: bytes) -> Accepted:
    name, *parts = [part.strip() for part in text.split(b";")]
    parameters = dict(part.partition(b"=")[::2] for part in parts)
    weight = parameters.pop(b"q", b"1")
    if _WEIGHT.fullmatch(weight) is None:
        raise HttpRefusal(BAD_WEIGHT)
    return Accepted(name, parameters, float(weight))
