"""The pages for people: their forms, their guards, and what they are made of. How they work in a
browser is tested in tests/pages."""

import hashlib
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from content_gateway.http.kinds import KINDS
from content_gateway.http.operations import pages
from tests.service import Service, running_service

FOLDER = Path(pages.__file__).parents[2] / "pages"
PAGES = ("/docs", "/docs/errors", "/console")
AS_CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        yield service


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (None, False),
        ("*/*", False),
        ("application/json", False),
        ("text/html", True),
        (AS_CHROMIUM, True),
        ("application/json, text/html;q=0.9", False),
        ("text/*, application/json;q=0.5", True),
        ("text/html;q=0, */*", False),
        ("image/png", False),
    ],
)
async def test_the_front_door_is_a_page_where_one_is_preferred(
    service: Service, accept: str | None, is_page: bool
) -> None:
    """Programs get JSON, and caches are told that it depends on Accept."""
    fields = [] if accept is None else [("Accept", accept)]
    answer = await service.ask("GET", "/", key=None, headers=fields)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html") == is_page
    assert answer.headers["vary"] in ("accept", "accept-encoding")  # the last of two fields
    if not is_page:
        for path in answer.json["links"].values():
            assert (await service.ask("GET", path, key=None)).status == 200


@pytest.mark.parametrize("path", [*PAGES, "/assets/console.js", "/assets/site.css"])
async def test_a_page_cannot_be_framed_nor_run_what_others_serve(
    service: Service, path: str
) -> None:
    """Everything a page may load comes from here, and no inline script runs."""
    headers = (await service.ask("GET", path, key=None)).headers
    policy = dict(
        directive.strip().split(" ", 1)
        for directive in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


class _Loaded(HTMLParser):
    """What a page loads and links to; and whether it has script or style of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()
        self.ids: set[str] = set()
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.paths |= {value for name in ("src", "href") if (value := given.get(name))}
        self.ids |= {value} if (value := given.get("id")) else set()
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


@pytest.mark.parametrize("path", ["/", *PAGES])
async def test_all_that_a_page_names_is_served_here(service: Service, path: str) -> None:
    """Scripts, style sheets, pictures and links are paths of this service; nothing is inline."""
    answer = await service.ask("GET", path, key=None, headers=[("Accept", "text/html")])
    page = _Loaded()
    page.feed(answer.body.decode())
    assert not page.inline
    assert {"/", "/docs", "/console", "/assets/site.css"} <= page.paths
    for named in page.paths:
        assert named.startswith(("/", "#")), named
        if named.startswith("/"):
            assert (await service.ask("GET", named, key=None)).status == 200, named


async def test_every_file_is_served_and_nothing_else(service: Service) -> None:
    """What is not listed is not found, whatever the path says."""
    for name in pages.ASSETS:
        answer = await service.ask("GET", f"/assets/{name}", key=None)
        assert hashlib.sha256(answer.body).digest() == _digest_of(name)
    for name in ("front-door.html", "LICENSE", "..%2Fspec.yaml", "x.js", "%00"):
        answer = await service.ask("GET", f"/assets/{name}", key=None)
        assert (answer.status, answer.json["code"]) == (404, "not-found")


def _digest_of(name: str) -> bytes:
    (path,) = FOLDER.rglob(name)
    return hashlib.sha256(path.read_bytes()).digest()


def test_no_page_is_left_out() -> None:
    """Each file of pages/ is a page, an asset, or belongs to the viewer's release."""
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    own = {name for name in pages.ASSETS if not name.startswith("swagger-ui")}
    assert files == own | {"front-door.html", "reference.html", "errors.html", "console.html"}


def test_the_viewer_is_the_one_that_was_released() -> None:
    """Each file has the hash that was written down when it was taken over."""
    folder = FOLDER / "swagger-ui"
    lines = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in lines} | {"README.md", "SHA256SUMS"} == {
        path.name for path in folder.iterdir()
    }
    for digest, name in lines:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


async def test_every_code_has_its_place_on_the_page_of_errors(service: Service) -> None:
    """`type` of a problem leads to it."""
    page = _Loaded()
    page.feed((await service.ask("GET", "/docs/errors", key=None)).body.decode())
    assert {kind.code for kind in KINDS} <= page.ids
    refused = (await service.ask("GET", "/nowhere", key=None)).json
    assert refused["type"] == "/docs/errors#not-found"
    assert "/docs" in refused["detail"]
    path, _, fragment = refused["type"].partition("#")
    assert path == "/docs/errors"
    assert fragment in page.ids


async def test_a_page_is_sent_once_and_small(service: Service) -> None:
    """Compressed where that is asked for, and not again where the browser has it."""
    path = "/assets/swagger-ui-bundle.js"
    gzipped = [("Accept-Encoding", "gzip")]
    first = await service.ask("GET", path, key=None, headers=gzipped)
    assert int(first.headers["content-length"]) < len(first.body) / 3
    known = [*gzipped, ("If-None-Match", first.headers["etag"])]
    assert (await service.ask("GET", path, key=None, headers=known)).status == 304
