"""The handlers of the pages for people: the front door, the reference, the errors, the console.

Everything comes from the files in pages/, nothing from elsewhere, and no page may be framed or run
a script of another origin. What a page does with the API is left to its script; a program that
asks for `/` gets JSON."""

import asyncio
import html
import re
from pathlib import Path
from typing import Final

import msgspec

from content_gateway.http.error_reference import reference
from content_gateway.http.kinds import UNKNOWN_PATH
from content_gateway.http.messages import Handler, Handlers, Request, Response
from content_gateway.http.negotiation import weight_of
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.http.representation import Representation, compressed

_FOLDER: Final = Path(__file__).parents[2] / "pages"
_FORMS: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
# By the name under /assets/.
ASSETS: Final = {
    Path(file).name: file
    for file in (
        *("site.css", "icon.svg", "front-door.js"),
        *("reference.css", "reference.js", "console.css", "console.js", "api.js", "show.js"),
        *("swagger-ui/swagger-ui.css", "swagger-ui/swagger-ui-bundle.js"),
    )
}
_ERRORS: Final = "errors.html"
# Content Security Policy 3, and what older browsers know of it. Pictures in the viewer's style
# sheet are data: URLs. Trusted Types cannot be required: the viewer does without them.
_GUARDED: Final[Headers] = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
_FRONT_DOOR: Final = {
    "message": "Content Gateway resolves name-service domains and pins IPFS content.",
    "links": {
        "reference": "/docs",
        "description": "/spec",
        "errors": "/docs/errors",
        "console": "/console",
        "version": "/version",
    },
}
_CODE: Final = re.compile("`([^`]+)`")


class PageHandlers:
    """Serves the pages and what they are made of; each file is read once, when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Representation] = {}
        self._loading = asyncio.Lock()
        said = msgspec.json.encode(_FRONT_DOOR)
        self._front_door = compressed(b"application/json", said)

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {
            "getFrontDoor": Handler(self.front_door, None),
            "getReference": Handler(self.reference, None),
            "getErrorReference": Handler(self.errors, None),
            "getConsole": Handler(self.console, None),
            "getAsset": Handler(self.asset, None),
        }

    async def front_door(self, request: Request) -> Response:
        """What this is and where to go on: a page where HTML is preferred, as browsers do."""
        vary = (b"vary", b"accept")
        page, said = b"text/html", b"application/json"
        if weight_of(page, request.headers) > weight_of(said, request.headers):
            return await self._serve("front-door.html", request, vary)
        return self._front_door.answer(request, vary)

    async def reference(self, request: Request) -> Response:
        """The API reference, with every operation callable."""
        return await self._serve("reference.html", request)

    async def errors(self, request: Request) -> Response:
        """Every code of a problem, with what to do about it."""
        return await self._serve(_ERRORS, request)

    async def console(self, request: Request) -> Response:
        """Names and pins by hand."""
        return await self._serve("console.html", request)

    async def asset(self, request: Request) -> Response:
        """A script, style sheet or picture of these pages; raises HttpRefusal for any other."""
        if request.argument not in ASSETS:
            raise HttpRefusal(UNKNOWN_PATH)
        return await self._serve(ASSETS[request.argument], request)

    async def _serve(self, file: str, request: Request, *more: tuple[bytes, bytes]) -> Response:
        if file not in self._loaded:
            async with self._loading:  # once: to compress the viewer takes a tenth of a second
                if file not in self._loaded:
                    self._loaded[file] = await asyncio.to_thread(_load, file)
        return self._loaded[file].answer(request, *_GUARDED, *more)


def _load(file: str) -> Representation:
    """The *file* of pages/, ready to be served."""
    path = _FOLDER / file
    body = path.read_bytes()
    if file == _ERRORS:
        body = body.replace(b"<!-- errors -->", _sections().encode())
    return compressed(_FORMS[path.suffix], body)


def _sections() -> str:
    """A section of HTML for each code, whose id is the code."""
    return "\n".join(
        f'<section id="{entry.code}"><h2><a href="#{entry.code}">{entry.code}</a></h2>'
        f"<p>{entry.statuses} {_marked_up(entry.title)}</p>"
        f"<ul>{''.join(f'<li>{_marked_up(detail)}</li>' for detail in entry.details)}</ul>"
        f"<p>{_marked_up(entry.advice)}</p></section>"
        for entry in reference()
    )


def _marked_up(text: str) -> str:
    """*text* as HTML; what stands between backquotes is code, as in Markdown."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text, quote=False))
