"""Pages of other origins: what a browser is told before it calls, and what it may read."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.errors import WrongSettings
from content_gateway.http import cors
from content_gateway.settings.sources import load
from tests.contract import contract
from tests.service import Service, running_service

APP = "https://app.example"
# What a script may read of any answer (fetch.spec.whatwg.org, "CORS-safelisted response-header
# name"), and what the protocol sends for the connection.
SAFELISTED = {
    *("cache-control", "content-language", "content-length", "content-type", "expires"),
    *("last-modified", "pragma"),
}
UNSEEN = {"content-encoding", "vary"}
PREFLIGHT = [("Origin", APP), ("Access-Control-Request-Method", "GET")]
CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


@pytest.fixture
async def open_to_all(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path, cors__origins=["*"]) as service:
        yield service


@pytest.fixture
async def open_to_one(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path, cors__origins=[APP, "http://localhost:3000"]) as service:
        yield service


async def test_a_page_of_any_origin_may_read_every_answer(open_to_all: Service) -> None:
    """`*` stands in answers to everybody, errors too, so that caches may mix callers up."""
    for path, origin in (("/version", APP), ("/version", None), ("/nowhere", "null")):
        fields = [("Origin", origin)] if origin else []
        answer = await open_to_all.ask("GET", path, headers=fields)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
        assert "vary" not in answer.headers


@pytest.mark.parametrize("origin", [APP, "http://localhost:3000"])
async def test_a_page_of_a_listed_origin_may(open_to_one: Service, origin: str) -> None:
    """It is named alone, and no cache may hand the answer on to another."""
    for key in ("me", None):
        answer = await open_to_one.pin(CID, headers=[("Origin", origin)], key=key)
        assert answer.headers["access-control-allow-origin"] == origin
        assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    "origin",
    [None, "https://evil.example", APP + ".evil.example", "http://app.example", "null", "x" * 9000],
)
async def test_a_page_of_another_origin_may_not(open_to_one: Service, origin: str | None) -> None:
    """The answer is given, and the browser keeps it from the page."""
    fields = [("Origin", origin)] if origin else []
    answer = await open_to_one.ask("GET", "/version", headers=fields)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/domain/resolve/site.demo", "GET, HEAD, OPTIONS"),
        (f"/ipfs/pin/add/{CID}", "OPTIONS, POST"),
        ("/psa/pins", "GET, HEAD, OPTIONS, POST"),
        ("/psa/pins/one", "DELETE, GET, HEAD, OPTIONS, POST"),
    ],
)
async def test_a_preflight_needs_no_key(open_to_one: Service, path: str, methods: str) -> None:
    """It is told the path's methods and the fields that may be sent, for a day."""
    answer = await open_to_one.ask("OPTIONS", path, key=None, headers=PREFLIGHT)
    assert answer.status == 204
    assert answer.headers["allow"] == methods
    assert answer.headers["access-control-allow-methods"] == methods
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-max-age"] == "86400"
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"x-api-key", "authorization", "content-type", "cache-control"} <= set(allowed)
    # The page's own id of a request, and its trace (W3C Trace Context).
    assert {"x-request-id", "traceparent", "tracestate"} <= set(allowed)


async def test_a_preflight_of_another_origin_is_told_nothing(open_to_one: Service) -> None:
    """The browser finds no permission in it."""
    fields = [("Origin", "https://evil.example"), *PREFLIGHT[1:]]
    answer = await open_to_one.ask("OPTIONS", "/version", key=None, headers=fields)
    assert "access-control-allow-origin" not in answer.headers


async def test_a_page_may_read_that_there_is_nothing_at_a_path(open_to_one: Service) -> None:
    """Behind a preflight that was refused it would read no answer at all."""
    answer = await open_to_one.ask("OPTIONS", "/nowhere", key=None, headers=PREFLIGHT)
    assert answer.status == 204
    assert answer.headers["access-control-allow-methods"] == "DELETE, GET, HEAD, OPTIONS, POST"
    answer = await open_to_one.ask("GET", "/nowhere", headers=PREFLIGHT[:1])
    assert (answer.status, answer.json["code"]) == (404, "not-found")
    assert answer.headers["access-control-allow-origin"] == APP
    assert (await open_to_one.ask("OPTIONS", "/nowhere", key=None)).status == 404


async def test_options_says_what_is_allowed(service: Service) -> None:
    """Without CORS too, and of the whole server for `*` (RFC 9110, section 9.3.7)."""
    answer = await service.ask("OPTIONS", "/version", key=None, headers=PREFLIGHT)
    assert (answer.status, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert (await service.ask("OPTIONS", "/version", body=b"{}")).status == 400
    assert (await service.ask("DELETE", "/version")).headers["allow"] == "GET, HEAD, OPTIONS"


def test_every_field_of_ours_is_exposed() -> None:
    """What spec.yaml describes is what a page may read."""
    tree = contract().tree
    found: set[str] = set()

    def collect(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(fields := node.get("headers"), dict) and "responses" not in node:
                found.update(name.lower() for name in fields)
            for inner in node.values():
                collect(inner)
        elif isinstance(node, list):
            for inner in node:
                collect(inner)

    collect(tree["paths"])
    collect(tree["components"]["responses"])
    # A browser undoes the coding, and chooses by Vary among what it has kept.
    assert {name.decode() for name in cors.EXPOSED} == found - SAFELISTED - UNSEEN


@pytest.mark.parametrize(
    "origin",
    [
        *("app.example", "https://app.example/", "https://app.example/page", "https://APP.example"),
        *("https://app.example:443", "https://me@app.example", "ftp://app.example", "https://"),
        *("https://*.example", "null", "https://bücher.example", "https://app.example:99999", ""),
    ],
)
def test_what_is_no_origin_is_refused_at_the_start(tmp_path: Path, origin: str) -> None:
    """It would match no page, and nobody would know why."""
    with pytest.raises(WrongSettings, match=r"cors\.origins"):
        load(environ={}, command_line={"data_dir": tmp_path, "cors.origins": [origin]})
