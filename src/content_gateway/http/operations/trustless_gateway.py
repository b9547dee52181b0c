"""The trustless gateway: what the embedded store holds, for clients that verify it themselves.

Knows ipfs/specs trustless-gateway.md: raw blocks by their CID, CARs by a CID or a path below one,
and the header fields of what never changes. Only what is held is served; which form is asked for is
left to trustless_forms.py."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import NotFound, PathNotFound
from content_gateway.http.attachment import attachment
from content_gateway.http.kinds import ONLY_IF_CACHED
from content_gateway.http.messages import (
    LARGE_BODY,
    PATH_SAFE,
    Answer,
    Handler,
    Handlers,
    Request,
    Response,
    ResponseStream,
    has_current_etag,
    in_one,
    length_of,
    wants_only_cached,
)
from content_gateway.http.operations.trustless_forms import ContentForm, asked_form
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.ipld.selection import Selection
from content_gateway.model.cid import Cid
from content_gateway.unixfs.local_blocks import LocalBlocks
from content_gateway.unixfs.path_resolver import PathResolver, ResolvedPath

# What is read from the store at once, in turn by client: its threads take one after the other.
_READS: Final = 2
_WAITING_READS: Final = 1_000
_READ_SECONDS: Final = 60.0  # an answer that has begun is not given up for a busy disk
_FOR_EVER: Final = b"public, max-age=29030400, immutable"


class Store(Protocol):
    """Where the blocks are."""

    async def block(self, cid: Cid) -> bytes | None:
        """The block of *cid*, None if it is not held."""

    def car(self, cid: Cid, selection: Selection) -> AsyncGenerator[bytes, None]:
        """The CAR of the *selection* at *cid*, depth first; its header names *cid*.

        Raises NotFound where a block is missing, and Blocked."""


class ContentDenylist(Protocol):
    """The operator's denylist."""

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if the operator does not serve this content."""

    def check_path(self, root: Cid, segments: Sequence[str]) -> None:
        """Raises Blocked if the operator does not serve what is at the path below *root*."""

    def checker(self) -> Callable[[Cid], None] | None:
        """What raises Blocked for a block that is blocked now; None where none is."""


@dataclass(frozen=True, slots=True)
class _ContentRequest:
    """A request for what is at *segments* below *root*, in *form*."""

    root: Cid
    segments: tuple[str, ...]
    form: ContentForm

    @property
    def path(self) -> str:
        """As in a URL."""
        return quote("/".join(("/ipfs", str(self.root), *self.segments)), safe=PATH_SAFE)


class TrustlessHandlers:
    """Serves *store*; None: nothing is served, and there is nothing at these paths.

    Each answer is one of the *answers* sent at once, until its client has taken it."""

    def __init__(
        self, store: Store | None, denylist: ContentDenylist, answers: FairSemaphore
    ) -> None:
        self._store = store
        self._denylist = denylist
        self._answers = answers
        self._reads = FairSemaphore(
            _READS,
            waiting=_WAITING_READS,
            patience=_READ_SECONDS,
            detail="Too many blocks are being read; ask again soon.",
        )
        if store is not None:
            self._blocks = LocalBlocks(store, self._reads, denylist.checker)
            self._paths = PathResolver(self._blocks)

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        get = None if self._store is None else Handler(self.get, None)
        head = None if self._store is None else Handler(self.head, None)
        return {
            "getContent": get,
            "headContent": head,
            "getContentAtPath": get,
            "headContentAtPath": head,
        }

    async def get(self, request: Request) -> Answer:
        """The block, or a CAR."""
        asked = self._asked(request)
        permit = self._answers.request(request.charged)
        await permit.granted()
        answer: Answer | None = None
        try:
            end, block = await self._found(asked, request)
            headers = _headers(asked, end)
            if has_current_etag(request.headers, dict(headers)[b"etag"]):
                answer = Response(b"", headers, 304)
            elif asked.form.is_car:
                selection = await self._selection(asked.form, end, request.charged)
                pieces = self._car(end.cid, selection, request.charged)
                answer = ResponseStream(pieces, headers, done=permit.release)
            elif len(block) > LARGE_BODY:
                whole = [*headers, length_of(block)]
                answer = ResponseStream(in_one(block), whole, done=permit.release)
            else:
                answer = Response(block, [*headers, length_of(block)])
        finally:
            if not isinstance(answer, ResponseStream):
                permit.release()
        return answer

    async def head(self, request: Request) -> Response:
        """As `get`, without a body."""
        asked = self._asked(request)
        async with self._answers.request(request.charged):
            end, block = await self._found(asked, request)
            headers = _headers(asked, end)
            if has_current_etag(request.headers, dict(headers)[b"etag"]):
                return Response(b"", headers, 304)
            if asked.form.is_car:
                await self._selection(asked.form, end, request.charged)
                return Response(b"", headers)
        return Response(b"", [*headers, length_of(block)])

    def _asked(self, request: Request) -> _ContentRequest:
        """What is asked for; raises InvalidCid, Blocked, InvalidQuery and HttpRefusal."""
        root, _, path = request.argument.partition("/")
        segments = tuple(segment for segment in path.split("/") if segment)
        cid = Cid.parse(root)
        self._denylist.check_cid(cid)
        self._denylist.check_path(cid, segments)
        return _ContentRequest(cid, segments, asked_form(request, has_path=bool(segments)))

    async def _found(self, asked: _ContentRequest, request: Request) -> tuple[ResolvedPath, bytes]:
        """Where the path ends, and the block there; raises NotFound and HttpRefusal."""
        try:
            end = await self._paths.resolve(asked.root, asked.segments, request.charged)
            self._denylist.check_cid(end.cid)
            return end, await self._blocks.block(end.cid, request.charged)
        except PathNotFound:
            raise
        except NotFound:
            if wants_only_cached(request.headers):
                raise HttpRefusal(ONLY_IF_CACHED) from None
            raise NotFound from None

    async def _selection(self, form: ContentForm, end: ResolvedPath, charged: str) -> Selection:
        """Which blocks the CAR has; raises InvalidQuery where the bytes of a file are outside.

        Where there is nothing at the path these are what proves it: a client that believes nobody
        has no use for a 404."""
        if not end.is_there:
            return Selection("block", path=end.blocks)
        span = None
        if form.entity_bytes is not None:
            size = await self._paths.size(end.cid, charged)
            span = None if size is None else form.entity_bytes.within(size)
        return Selection(form.scope, span, form.duplicates, end.blocks)

    async def _car(
        self, cid: Cid, selection: Selection, charged: str
    ) -> AsyncGenerator[bytes, None]:
        """The CAR, each piece read in its client's turn."""
        assert self._store is not None  # noqa: S101 - else there is no such handler
        async with aclosing(self._store.car(cid, selection)) as pieces:
            while True:
                async with self._reads.request(charged):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                yield piece


def _headers(asked: _ContentRequest, end: ResolvedPath) -> Headers:
    """The header fields of what is at *end*, in the form that was asked for, except a length."""
    form = asked.form
    headers = [
        (b"content-type", form.media_type),
        attachment(form.filename or f"{end.cid}{'.car' if form.is_car else '.bin'}"),
        (b"cache-control", _FOR_EVER),
        (b"etag", f'"{end.cid}{form.suffix}"'.encode()),
        (b"vary", b"accept"),
        (b"accept-ranges", b"none"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-ipfs-path", asked.path.encode()),
        (b"x-ipfs-roots", ",".join(map(str, end.roots)).encode()),
    ]
    if not form.is_named:
        headers.append((b"content-location", f"{asked.path}?{form.query}".encode()))
    return headers
