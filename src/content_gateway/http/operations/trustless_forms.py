"""The form in which the trustless gateway is asked: for a block, a CAR, or an IPNS record.

Knows ipfs/specs trustless-gateway.md, "Request Query Parameters" and "CAR format signaling": the
query goes before Accept, and what it leaves open Accept may say. What is served under it is left to
trustless_gateway.py and ipns_records.py."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from content_gateway.http.entity_bytes import EntityBytes, parse_entity_bytes
from content_gateway.http.kinds import NO_FORMAT, NOT_ACCEPTABLE
from content_gateway.http.messages import Request
from content_gateway.http.negotiation import accepted
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.query import choice, name_for_people, parse_query
from content_gateway.ipld.selection import Scope

RAW: Final = b"application/vnd.ipld.raw"
CAR: Final = b"application/vnd.ipld.car"
IPNS_RECORD: Final = b"application/vnd.ipfs.ipns-record"
_SCOPES: Final[Mapping[str, Scope]] = {"all": "all", "block": "block", "entity": "entity"}
# Every CAR is in the order of a depth-first walk.
_TAKEN: Final = {
    b"version": (b"1",),
    b"order": (b"dfs", b"unk", b""),
    b"dups": (b"n", b"y", b""),
}
_PARAMETERS: Final = (
    *("format", "dag-scope", "entity-bytes", "car-version", "car-order", "car-dups"),
    "filename",
    "download",  # a path gateway's, which changes nothing here
)
RECORD_QUERY: Final = "format=ipns-record"
_RECORD_PARAMETERS: Final = ("format", "filename", "download")
_BLOCK_AT_PATH: Final = "A raw block has no path: ask for its CID, or for a CAR of the path."


@dataclass(frozen=True, slots=True)
class ContentForm:
    """A raw block, or a CAR of *scope*, *entity_bytes* and *duplicates*, to be kept as *filename*.

    *is_named* by the query alone, and not by Accept."""

    is_car: bool
    scope: Scope = "all"
    entity_bytes: EntityBytes | None = None
    duplicates: bool = False
    filename: str | None = None
    is_named: bool = True

    @property
    def media_type(self) -> bytes:
        """As in `Content-Type`."""
        if not self.is_car:
            return RAW
        return CAR + b"; version=1; order=dfs; dups=" + (b"y" if self.duplicates else b"n")

    @property
    def suffix(self) -> str:
        """What tells it from other forms of one CID, in an ETag."""
        if not self.is_car:
            return ".raw"
        part = f".{self.entity_bytes}" if self.entity_bytes else ""
        return f".car.{self.scope}{part}{'.dups' if self.duplicates else ''}"

    @property
    def query(self) -> str:
        """The query that names it, without `filename`."""
        if not self.is_car:
            return "format=raw"
        named = ["format=car"]
        if self.entity_bytes:
            named.append(f"entity-bytes={self.entity_bytes}")
        elif self.scope != "all":
            named.append(f"dag-scope={self.scope}")
        return "&".join([*named, "car-dups=y"] if self.duplicates else named)


@dataclass(frozen=True, slots=True)
class RecordForm:
    """An IPNS record, to be kept as *filename*; *is_named* by the query, and not by Accept."""

    filename: str | None
    is_named: bool


def asked_form(request: Request, *, has_path: bool) -> ContentForm:
    """The form that *request* asks for, of a CID or of what is at a path below one.

    Raises InvalidQuery and HttpRefusal."""
    asked = parse_query(request.query, _PARAMETERS)
    named = asked.get("format")
    if named not in (None, "raw", "car"):
        raise HttpRefusal(NOT_ACCEPTABLE)
    if named == "raw" and has_path:
        raise HttpRefusal(NOT_ACCEPTABLE, detail=_BLOCK_AT_PATH)
    media_types = (CAR,) if named == "car" or has_path else (RAW, CAR)
    media_type, parameters = _accepted(request.headers, media_types, is_named=named is not None)
    scope = choice("dag-scope", asked.get("dag-scope", "all"), _SCOPES)
    entity_bytes = parse_entity_bytes(asked.get("entity-bytes", "0:*"))
    filename = name_for_people(asked.get("filename"), "filename") or None
    if named == "raw" or (named is None and media_type == RAW):
        return ContentForm(False, filename=filename, is_named=named is not None)
    for name in ("version", "order", "dups"):
        chosen = asked.get(f"car-{name}")
        if chosen is not None and chosen.encode() not in _TAKEN[name.encode()]:
            raise HttpRefusal(NOT_ACCEPTABLE)
    dups = asked.get("car-dups") or parameters.get(b"dups", b"n").decode()
    return ContentForm(
        True,
        "entity" if "entity-bytes" in asked else _SCOPES[scope],
        entity_bytes,
        dups == "y",
        filename,
        is_named=named is not None and (dups == "y") == (asked.get("car-dups") == "y"),
    )


def asked_record(request: Request) -> RecordForm:
    """How *request* asks for an IPNS record; raises InvalidQuery, and HttpRefusal where it asks for
    anything else."""
    asked = parse_query(request.query, _RECORD_PARAMETERS)
    named = asked.get("format")
    if named not in (None, "ipns-record"):
        raise HttpRefusal(NOT_ACCEPTABLE)
    _accepted(request.headers, (IPNS_RECORD,), is_named=named is not None)
    return RecordForm(
        name_for_people(asked.get("filename"), "filename") or None, is_named=named is not None
    )


def _accepted(
    headers: Iterable[tuple[bytes, bytes]], media_types: Collection[bytes], *, is_named: bool
) -> tuple[bytes, Mapping[bytes, bytes]]:
    """The one of *media_types* that Accept likes best, and its parameters.

    Raises HttpRefusal where it likes none; not where the form *is_named* elsewhere."""
    asked = accepted(headers, b"accept")
    fitting: list[tuple[float, bytes, Mapping[bytes, bytes]]] = []
    for media_type, quoted, weight in asked:
        given = {name: value.strip(b'"') for name, value in quoted.items()}
        fits = all(value in _TAKEN.get(name, ()) for name, value in given.items())
        if weight and media_type in media_types and (fits or media_type != CAR):
            fitting.append((weight, media_type, given))
    if fitting:
        return max(fitting, key=lambda one: one[0])[1:]
    if is_named:
        return b"", {}
    is_any = all(one == (b"*/*", {}, 1.0) for one in asked)
    raise HttpRefusal(NO_FORMAT if is_any else NOT_ACCEPTABLE)
