"""The content of a domain: its files, below our own paths and on hosts of their own.

Knows what a gateway says of a file (ipfs/specs path-gateway.md): its type, validator and roots, the
part that was asked for, how long it serves; `index.html` of directories, and their slash. On a host
of its own content is a site, for browsers; below our own paths it is data, which no browser may run
(ADR 23). What a name shows is left to names/, what is at a path to unixfs/."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import PathNotFound, UpstreamTimeout
from content_gateway.http import media_types
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.messages import (
    LARGE_BODY,
    PATH_SAFE,
    Answer,
    Handler,
    Handlers,
    Request,
    Response,
    ResponseStream,
    demands_refresh,
    has_current_etag,
)
from content_gateway.http.operations.site_rules import SiteRules
from content_gateway.http.problems import Headers
from content_gateway.http.ranges import Span, asked_span
from content_gateway.http.redirect_rules import Target
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.names.content import ContentNames, NameContent
from content_gateway.unixfs.reader import UnixFs, UnixFsEntry

Mode: TypeAlias = Literal["off", "verified", "redirect"]
CheckPath: TypeAlias = Callable[[Cid | IpnsName | DomainName, Sequence[str]], None]

_INDEX: Final = "index.html"
_WHILE_REVALIDATE: Final = 60  # seconds that a cache may serve what it asks about meanwhile
_DOTS: Final = frozenset((".", ".."))  # which clients resolve, encoded or not (WHATWG URL)


@dataclass(frozen=True, slots=True)
class Face:
    """How content is shown: whose caches may keep it, and the fields that guard it."""

    cache: bytes
    fields: tuple[tuple[bytes, bytes], ...]


# Below the paths of the API, for programs that have a key: no browser shows it as a page of ours.
DATA: Final = Face(
    b"private",
    (
        (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
        (b"x-frame-options", b"DENY"),
    ),
)
# On a host of its own, for everybody, and for pages of other origins as everything public is.
SITE: Final = Face(
    b"public",
    (
        (b"access-control-allow-origin", b"*"),
        (
            b"access-control-expose-headers",
            b"Content-Length, Content-Range, ETag, X-Ipfs-Path, X-Ipfs-Roots",
        ),
        (b"origin-agent-cluster", b"?1"),
    ),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request is for: the text of a *domain* and the *path* in it, with its slashes."""

    domain: str
    path: str
    face: Face
    is_head: bool

    @property
    def segments(self) -> list[str]:
        """The names on the way; what stands between two slashes is none."""
        return [segment for segment in self.path.split("/") if segment]


@dataclass(frozen=True, slots=True)
class _Found:
    """A file or directory, and its *name* in the one above it, empty for the root."""

    entry: UnixFsEntry
    name: str


class ContentHandlers:
    """Serves what *names* show, from *files*; in the mode "redirect" it says where else that is.

    A large answer is one of the *answers* sent at once. *seconds* may pass until an answer
    begins. *check_path* raises Blocked for segments below a name, or a CID. *visitors*
    limits how many names that are not known yet one address may have looked up by their hosts."""

    def __init__(
        self,
        names: ContentNames,
        files: UnixFs,
        answers: FairSemaphore,
        *,
        mode: Mode = "verified",
        redirect_to: str = "",
        seconds: float = 30.0,
        check_path: CheckPath = lambda root, segments: None,
        visitors: AddressLimits | None = None,
    ) -> None:
        self._names = names
        self._files = files
        self._rules = SiteRules(files)
        self._answers = answers
        self._mode = mode
        self._redirect_to = redirect_to
        self._seconds = seconds
        self._check_path = check_path
        self._visitors = AddressLimits(0) if visitors is None else visitors

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        if self._mode == "off":
            return {"getDomainContent": None, "headDomainContent": None}
        return {
            "getDomainContent": Handler(self.get, "resolve"),
            "headDomainContent": Handler(self.head, "resolve"),
        }

    async def get(self, request: Request) -> Answer:
        """A file of a domain, as data."""
        return await self._answer(_asked(request, DATA, is_head=False), request)

    async def head(self, request: Request) -> Answer:
        """As `get`, without a body."""
        return await self._answer(_asked(request, DATA, is_head=True), request)

    async def get_site(self, request: Request) -> Answer:
        """A file of a domain, on a host that is its own."""
        return await self._answer(_asked(request, SITE, is_head=False), request)

    async def head_site(self, request: Request) -> Answer:
        """As `get_site`, without a body."""
        return await self._answer(_asked(request, SITE, is_head=True), request)

    async def _answer(self, asked: _Asked, request: Request) -> Answer:
        begins_by = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(begins_by):
                content = await self._content(asked, request)
                if self._mode == "redirect":
                    return self._elsewhere(asked, content, request)
                try:
                    found, status = await self._found(asked, content, request), 200
                except PathNotFound as missing:
                    target = await self._target(asked, content, request)
                    if target is None:
                        raise missing from None
                    if target.is_redirect:
                        return _redirected(asked, content, target, request)
                    # The place stands in for what was asked for, with no slash to be sent to.
                    in_its_place = replace(asked, path=f"{target.place}/")
                    found = await self._found(in_its_place, content, request)
                    asked, status = replace(asked, path=target.place), target.status
                if found.entry.is_directory:
                    return _with_slash(asked, content, request)
                body = await self._body(asked, content, request, found, status)
        except TimeoutError as late:
            raise UpstreamTimeout("The content did not come in time.") from late
        if isinstance(body, Response):
            return body
        span, headers, status = body
        permit = self._answers.request(request.charged)
        await permit.granted()
        pieces = self._files.read(found.entry, span.start, span.stop, request.charged)
        return ResponseStream(pieces, headers, status, permit.release)

    async def _body(
        self,
        asked: _Asked,
        content: NameContent,
        request: Request,
        found: _Found,
        status: int,
    ) -> Response | tuple[Span, Headers, int]:
        """The answer with the file that was *found*; of a large one what is to be streamed, and
        under what.

        Only of one that was asked for, *status* 200, a part may be sent, or nothing."""
        entry = found.entry
        headers = [*_common(asked, content), *_of_entry(entry)]
        span, etag = Span(0, entry.size, entry.size), _etag(entry)
        if status == 200:
            if has_current_etag(request.headers, etag):
                return Response(b"", headers, 304)
            if not asked.is_head:  # Range is for GET alone (RFC 9110 section 14.2)
                span = asked_span(request.headers, etag, entry.size)
        media_type = await self._media_type(found, request)
        headers += [
            (b"content-type", media_type.encode()),
            (b"content-length", b"%d" % span.length),
        ]
        if not span.is_whole:
            headers.append(span.content_range())
            status = 206
        if asked.is_head:
            return Response(b"", headers, status)
        if span.length <= LARGE_BODY:
            return Response(await self._whole(entry, span, request), headers, status)
        return span, headers, status

    async def _content(self, asked: _Asked, request: Request) -> NameContent:
        name = DomainName.parse_plain(asked.domain)
        if name is None:  # one that is not plain loads a large library, once
            name = await asyncio.to_thread(DomainName.parse, asked.domain)
        if asked.face is SITE and not self._names.knows(name):
            self._visitors.take(request.charged)
        return await self._names.find(
            name, force_refresh=demands_refresh(request.headers), requestor=request.charged
        )

    async def _found(self, asked: _Asked, content: NameContent, request: Request) -> _Found:
        """What is at the path; a directory only where its slash is missing."""
        self._check_names(content, asked.segments)
        segments = [*content.segments, *asked.segments]
        entry = await self._files.find(content.path.cid, segments, request.charged)
        if not entry.is_directory or not asked.path.endswith("/"):
            return _Found(entry, segments[-1] if segments else "")
        self._check_names(content, [*asked.segments, _INDEX])
        index = await self._files.child(entry, _INDEX, request.charged)
        if index is None or index.is_directory:
            raise PathNotFound("This is a directory without an index.html; nothing is listed.")
        return _Found(index, _INDEX)

    def _check_names(self, content: NameContent, segments: Sequence[str]) -> None:
        """Raise Blocked for *segments* that are not served below a name of the *content*."""
        for name in content.names:
            self._check_path(name, segments)

    async def _target(self, asked: _Asked, content: NameContent, request: Request) -> Target | None:
        """Where the site says that a path leads which is not there; only where it has a host of
        its own (IPIP-290)."""
        if asked.face is not SITE:
            return None
        root = await self._files.find(content.path.cid, content.segments, request.charged)
        return await self._rules.target(root, asked.segments, request.charged)

    async def _media_type(self, found: _Found, request: Request) -> str:
        entry = found.entry
        if entry.is_symlink:
            return media_types.SYMLINK
        known = media_types.by_name(found.name)
        if known is not None:
            return known
        beginning = Span(0, min(entry.size, media_types.SNIFFED), entry.size)
        return media_types.by_content(await self._whole(entry, beginning, request))

    async def _whole(self, entry: UnixFsEntry, span: Span, request: Request) -> bytes:
        pieces: AsyncIterator[bytes]
        async with aclosing(
            self._files.read(entry, span.start, span.stop, request.charged)
        ) as pieces:
            return b"".join([piece async for piece in pieces])

    def _elsewhere(self, asked: _Asked, content: NameContent, request: Request) -> Response:
        """Where the content is, on a gateway that the operator names, with the query that was sent.

        Raises PathNotFound, and Blocked."""
        if _DOTS.intersection(asked.segments):
            raise PathNotFound("A path with the segment . or .. would lead to other content there.")
        self._check_names(content, asked.segments)
        self._check_path(content.path.cid, [*content.segments, *asked.segments])
        place = self._redirect_to.format(
            cid=content.path.cid,
            domain=quote(asked.domain, safe=""),
            path=quote(content.path.path.rstrip("/") + (asked.path or "/"), safe=PATH_SAFE),
        )
        headers = [*_common(asked, content), (b"location", _with_query(place, request))]
        return Response(b"", [*headers, (b"content-length", b"0")], 307)


def _asked(request: Request, face: Face, *, is_head: bool) -> _Asked:
    """The request for `domain`, or `domain/path`."""
    domain, slash, path = request.argument.partition("/")
    return _Asked(domain, slash + path, face, is_head)


def _common(asked: _Asked, content: NameContent) -> Headers:
    """The fields that every answer about *content* has."""
    path = quote(f"/ipns/{asked.domain}{asked.path}", safe=PATH_SAFE)
    return [
        (b"cache-control", _cache_control(asked.face, content)),
        (b"x-ipfs-path", path.encode()),
        (b"x-content-type-options", b"nosniff"),
        *asked.face.fields,
    ]


def _cache_control(face: Face, content: NameContent) -> bytes:
    """How long caches may serve it: as long as the name is known to show it."""
    seconds = int(content.fresh_for.total_seconds()) if content.fresh_for else 0
    if not seconds:
        return b"%b, no-cache" % face.cache
    return b"%b, max-age=%d, stale-while-revalidate=%d" % (
        face.cache,
        seconds,
        _WHILE_REVALIDATE,
    )


def _of_entry(entry: UnixFsEntry) -> Headers:
    return [
        (b"etag", _etag(entry)),
        (b"accept-ranges", b"bytes"),
        (b"x-ipfs-roots", ",".join(map(str, entry.roots)).encode()),
    ]


def _etag(entry: UnixFsEntry) -> bytes:
    return b'"%b"' % str(entry.cid).encode()


def _with_slash(asked: _Asked, content: NameContent, request: Request) -> Response:
    """To the same place with a slash behind it, from where a page's links lead into it."""
    if asked.face is SITE:
        to = "/".join(("", *asked.segments))
    else:
        # Relative to the last segment: a proxy may have put something before the path.
        to = f"./{(asked.segments or [asked.domain])[-1]}"
    place = _with_query(f"{quote(to, safe=PATH_SAFE)}/", request)
    headers = [*_common(asked, content), (b"location", place), (b"content-length", b"0")]
    return Response(b"", headers, 301)


def _redirected(asked: _Asked, content: NameContent, target: Target, request: Request) -> Response:
    """To where a rule of the site leads, with the query that was sent."""
    place = _with_query(quote(target.place, safe=f"{PATH_SAFE}%?#[]"), request)
    headers = [*_common(asked, content), (b"location", place), (b"content-length", b"0")]
    return Response(b"", headers, target.status)


def _with_query(place: str, request: Request) -> bytes:
    """The reference *place* (RFC 3986) with the query of *request* behind its own."""
    reference, mark, fragment = place.encode().partition(b"#")
    if request.query:
        reference += (b"&" if b"?" in reference else b"?") + request.query
    return reference + mark + fragment
