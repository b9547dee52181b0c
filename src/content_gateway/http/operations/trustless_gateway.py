"""The trustless gateway: what the embedded store holds, for clients that verify it themselves.

Knows ipfs/specs trustless-gateway.md: raw blocks and CARs by their CID, how the form is asked for,
and the header fields of what never changes. Only what is held is served."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import InvalidQuery, NotFound
from content_gateway.http.kinds import NO_FORMAT, NOT_ACCEPTABLE, ONLY_IF_CACHED
from content_gateway.http.messages import (
    LARGE_BODY,
    Answer,
    Handler,
    Handlers,
    Request,
    Response,
    ResponseStream,
    has_current_etag,
    in_one,
    length_of,
    listed,
)
from content_gateway.http.negotiation import accepted
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.http.query import choice, parse_query
from content_gateway.model.cid import Cid
from content_gateway.pins.pinning import PinDenylist

Scope: TypeAlias = Literal["all", "block", "entity"]

_SCOPES: Final[Mapping[str, Scope]] = {"all": "all", "block": "block", "entity": "entity"}
_RAW: Final = b"application/vnd.ipld.raw"
_CAR: Final = b"application/vnd.ipld.car"
# What the store writes: each block once, in the order of a depth-first walk.
_CAR_TYPE: Final = _CAR + b"; version=1; order=dfs; dups=n"
_TAKEN: Final = {
    b"version": (b"1",),
    b"order": (b"dfs", b"unk", b""),
    b"dups": (b"n", b""),
}
_PARAMETERS: Final = (
    *("format", "dag-scope", "entity-bytes", "car-version", "car-order", "car-dups"),
    *("filename", "download"),  # a path gateway's; they change nothing here
)
# What is read from the store at once, in turn by client: its threads take one after the other.
_READS: Final = 2
_WAITING_READS: Final = 1_000
_READ_SECONDS: Final = 60.0  # an answer that has begun is not given up for a busy disk
_FOR_EVER: Final = b"public, max-age=29030400, immutable"


class Store(Protocol):
    """Where the blocks are."""

    async def block(self, cid: Cid) -> bytes | None:
        """The block of *cid*, None if it is not held."""

    def car(self, cid: Cid, scope: Scope) -> AsyncGenerator[bytes, None]:
        """The CAR of what is below *cid*, each block once and depth first.

        Raises NotFound where a block is missing."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The form in which a CID is asked for; *is_named* by the query and not by Accept alone."""

    is_car: bool
    scope: Scope
    is_named: bool


class TrustlessHandlers:
    """Serves *store*; None: nothing is served, and there is nothing at these paths.

    Each answer is one of the *answers* sent at once, until its client has taken it."""

    def __init__(self, store: Store | None, denylist: PinDenylist, answers: FairSemaphore) -> None:
        self._store = store
        self._denylist = denylist
        self._answers = answers
        self._reads = FairSemaphore(
            _READS,
            waiting=_WAITING_READS,
            patience=_READ_SECONDS,
            detail="Too many blocks are being read; ask again soon.",
        )

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        if self._store is None:
            return {"getContent": None, "headContent": None}
        return {"getContent": Handler(self.get, None), "headContent": Handler(self.head, None)}

    async def get(self, request: Request) -> Answer:
        """The block, or the CAR of the DAG below it."""
        cid, wanted, headers = self._asked(request)
        permit = self._answers.request(request.charged)
        await permit.granted()
        answer: Answer | None = None
        try:
            root = await self._root(cid, request)
            if has_current_etag(request.headers, dict(headers)[b"etag"]):
                answer = Response(b"", headers, 304)
            elif wanted.is_car:
                pieces = self._car(cid, wanted.scope, request.charged)
                answer = ResponseStream(pieces, headers, done=permit.release)
            elif len(root) > LARGE_BODY:
                whole = [*headers, length_of(root)]
                answer = ResponseStream(in_one(root), whole, done=permit.release)
            else:
                answer = Response(root, [*headers, length_of(root)])
        finally:
            if not isinstance(answer, ResponseStream):
                permit.release()
        return answer

    async def head(self, request: Request) -> Response:
        """As `get`, without a body."""
        cid, wanted, headers = self._asked(request)
        async with self._answers.request(request.charged):
            root = await self._root(cid, request)
        if has_current_etag(request.headers, dict(headers)[b"etag"]):
            return Response(b"", headers, 304)
        return Response(b"", headers if wanted.is_car else [*headers, length_of(root)])

    def _asked(self, request: Request) -> tuple[Cid, _Wanted, Headers]:
        """What is asked for, in which form, and its header fields."""
        cid = Cid.parse(request.argument)
        self._denylist.check_cid(cid)
        wanted = _wanted(request)
        return cid, wanted, _headers(cid, wanted)

    async def _root(self, cid: Cid, request: Request) -> bytes:
        """The root block; raises NotFound and HttpRefusal."""
        assert self._store is not None  # noqa: S101 - else there is no such handler
        async with self._reads.request(request.charged):
            root = await self._store.block(cid)
        if root is None:
            raise HttpRefusal(ONLY_IF_CACHED) if _wants_only_cached(request.headers) else NotFound()
        return root

    async def _car(self, cid: Cid, scope: Scope, charged: str) -> AsyncGenerator[bytes, None]:
        """The CAR, each piece read in its client's turn."""
        assert self._store is not None  # noqa: S101
        async with aclosing(self._store.car(cid, scope)) as pieces:
            while True:
                async with self._reads.request(charged):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                yield piece


def _wanted(request: Request) -> _Wanted:
    """The form that *request* asks for; raises InvalidQuery and HttpRefusal."""
    asked = parse_query(request.query, _PARAMETERS)
    form = asked.get("format")
    if form is None:
        is_car = _accepts_car(request.headers)
    elif form in ("raw", "car"):
        is_car = form == "car"
    else:
        raise HttpRefusal(NOT_ACCEPTABLE)
    scope = choice("dag-scope", asked.get("dag-scope", "all"), _SCOPES)
    if asked.get("entity-bytes", "0:*") != "0:*":
        raise InvalidQuery("Parts of an entity are not served: entity-bytes can only be 0:*.")
    if "entity-bytes" in asked:
        scope = "entity"
    for name in (b"version", b"order", b"dups"):
        chosen = asked.get(f"car-{name.decode()}")
        if is_car and chosen is not None and chosen.encode() not in _TAKEN[name]:
            raise HttpRefusal(NOT_ACCEPTABLE)
    return _Wanted(is_car, _SCOPES[scope], form is not None)


def _accepts_car(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether Accept asks for a CAR, not a raw block; raises HttpRefusal where for neither."""
    asked = accepted(headers, b"accept")
    fitting: list[tuple[float, bool]] = []
    for media_type, given, weight in asked:
        fits = all(value.strip(b'"') in _TAKEN.get(name, ()) for name, value in given.items())
        if weight and (media_type == _RAW or (media_type == _CAR and fits)):
            fitting.append((weight, media_type == _CAR))
    if not fitting:
        is_any = all(one == (b"*/*", {}, 1.0) for one in asked)
        raise HttpRefusal(NO_FORMAT if is_any else NOT_ACCEPTABLE)
    return max(fitting, key=lambda wanted: wanted[0])[1]


def _wants_only_cached(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether `Cache-Control: only-if-cached` was sent, whose answer has a status of its own."""
    return any(
        name == b"cache-control" and b"only-if-cached" in listed(value.lower())
        for name, value in headers
    )


def _headers(cid: Cid, wanted: _Wanted) -> Headers:
    """The header fields of *cid* in the form of *wanted*, except a length."""
    name = str(cid).encode()
    form = b"car" if wanted.is_car else b"raw"
    etag = name + b".car." + wanted.scope.encode() if wanted.is_car else name + b".raw"
    file = name + (b".car" if wanted.is_car else b".bin")
    headers = [
        (b"content-type", _CAR_TYPE if wanted.is_car else _RAW),
        (b"content-disposition", b'attachment; filename="' + file + b'"'),
        (b"cache-control", _FOR_EVER),
        (b"etag", b'"' + etag + b'"'),
        (b"vary", b"accept"),
        (b"accept-ranges", b"none"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-ipfs-path", b"/ipfs/" + name),
        (b"x-ipfs-roots", name),
    ]
    if not wanted.is_named:
        is_part = wanted.is_car and wanted.scope != "all"
        scope = b"&dag-scope=" + wanted.scope.encode() if is_part else b""
        headers.append((b"content-location", b"/ipfs/" + name + b"?format=" + form + scope))
    return headers
