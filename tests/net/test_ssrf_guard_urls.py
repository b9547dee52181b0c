"""The form of a URL that a stranger chose: https, its own port, a host, and nothing odd."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import MAX_URL_CHARS, Guard
from tests.fakes.dns import Zone
from tests.fakes.miniature import Miniature, running

GUARD = Guard(local_gateways=["http://127.0.0.1:8080", "http://[::1]:9090"])


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://gateway.example", "https://gateway.example/"),
        ("https://gateway.example/", "https://gateway.example/"),
        ("https://gateway.example:443/a", "https://gateway.example/a"),
        ("HTTPS://Gateway.EXAMPLE/A/%2F%2e?b=C&d=%", "https://gateway.example/A/%2F%2e?b=C&d=%"),
        ("https://gateway.example?x=/@:", "https://gateway.example/?x=/@:"),
        ("https://a_b.x--y.xn--mgbaam7a8h/@/..", "https://a_b.x--y.xn--mgbaam7a8h/@/.."),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700::1111]:443/", "https://[2606:4700::1111]/"),
        ("http://127.0.0.1:8080/a/b?c", "http://127.0.0.1:8080/a/b?c"),
        ("http://[::1]:9090", "http://[::1]:9090/"),
    ],
)
def test_an_ordinary_url_is_asked_as_it_is(url: str, asked: str) -> None:
    """Host and scheme become lower case; path and query are sent as they were written."""
    assert str(GUARD.check_url(url)) == asked


@pytest.mark.parametrize(
    "url",
    [
        # schemes
        "http://gateway.example/",
        "http://gateway.example:443/",
        "ftp://gateway.example/",
        "ws://gateway.example/",
        "wss://gateway.example/",
        "file:///etc/passwd",
        "gopher://gateway.example/",
        "data:application/json,{}",
        "javascript:alert(1)",
        "https+unix://run/x.sock",
        "x-batch-gateway:true",
        "//gateway.example/",
        "/path",
        "",
        "https",
        "https:",
        "https:gateway.example",
        "https:/gateway.example",
        "https:///gateway.example",
        "https://",
        "https:\\\\gateway.example",
        " https://gateway.example/",
        "ht\ttps://gateway.example/",
        # ports
        "https://gateway.example:80/",
        "https://gateway.example:8443/",
        "https://gateway.example:0443/",
        "https://gateway.example:0/",
        "https://gateway.example:/",
        "https://gateway.example:99999/",
        "https://gateway.example:-443/",
        "https://gateway.example:443:443/",
        "https://gateway.example:４４３/",
        "https://:443/",
        # users
        "https://@gateway.example/",
        "https://user@gateway.example/",
        "https://user:pw@gateway.example/",
        "https://gateway.example@127.0.0.1/",
        "https://gateway.example:443@127.0.0.1/",
        "https://gateway.example%40127.0.0.1/",
        "https://gateway.example\\@127.0.0.1/",
        "https://127.0.0.1\\.gateway.example/",
        # fragments
        "https://gateway.example/#",
        "https://gateway.example/#a",
        "https://gateway.example#@127.0.0.1/",
        "https://127.0.0.1#.gateway.example/",
        # hosts
        "https://gateway",
        "https://gateway.example./",
        "https://.gateway.example/",
        "https://gateway..example/",
        "https://-gateway.example/",
        "https://gateway-.example/",
        "https://gateway.example-/",
        "https://gateway.3xample/",
        f"https://{'a' * 64}.example/",
        f"https://{'a.' * 130}example/",
        "https://gätewäy.example/",
        "https://gateway。example/",
        "https://gateway.example%2f/",
        "https://[gateway.example]/",
        "https://[]/",
        "https://[::1%25lo]/",
        "https://256.0.0.1/",
        "https://1.2.3/",
        "https://1.2.3.4.5/",
        # characters
        "https://gateway.example/a b",
        "https://gateway.example/a\r\nHost: inside",
        "https://gateway.example/\0",
        "https://gateway.example/\u200b",
        "https://gateway.example/é",
        "https://gateway.example/{data}",
        "https://gateway.example/\\",
        "https://gateway.example/<>",
        "https://gateway.example\n/",
        "https://gateway.example/\n",
        # exceptions are exact
        "http://127.0.0.1/",
        "http://127.0.0.1:8081/",
        "http://127.0.0.1:80800/",
        "https://127.0.0.1:8080/",
        "http://localhost:8080/",
        "http://127.0.0.2:8080/",
        "http://0x7f.0.0.1:8080/",
        "http://127.0.0.1:8080@10.0.0.1/",
        "http://user@127.0.0.1:8080/",
        "http://127.0.0.1:8080.gateway.example/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://[0:0:0:0:0:0:0:1]:9090/",
        pytest.param("https://gateway.example/" + "a" * MAX_URL_CHARS, id="too long"),
    ],
)
def test_any_other_form_is_not_asked(url: str) -> None:
    """Schemes, ports, users, fragments, hosts and characters that a gateway does not need."""
    with pytest.raises(InvalidUpstreamResponse):
        GUARD.check_url(url)


URLISH = st.text(st.sampled_from("htps:/@#?.[]%\\0127fx-aé。\t\n ") | st.characters(), max_size=40)


@given(st.one_of(URLISH, URLISH.map(lambda rest: f"https://{rest}"), st.text()))
@settings(max_examples=1000, deadline=None)
def test_whatever_is_allowed_is_https_on_443_without_user(url: str) -> None:
    """No text is allowed that the client would then read as something else."""
    try:
        asked = GUARD.check_url(url)
    except InvalidUpstreamResponse:
        return
    assert (asked.scheme, asked.port, asked.user, asked.password) == ("https", 443, None, None)
    assert asked.host
    assert "#" not in str(asked)
    assert url.lower().startswith(f"https://{asked.raw_authority}")


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "127.0.0.1:8080",
        "http://127.0.0.1",
        "http://127.0.0.1:8080/",
        "http://127.0.0.1:443",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "https://127.0.0.1:8080",
        "http://localhost:8080",
        "http://10.0.0.1:8080",
        "http://169.254.169.254:80",
        "http://[::ffff:127.0.0.1]:8080",
        "http://0.0.0.0:8080",
    ],
)
def test_a_local_gateway_is_a_literal_of_loopback_and_a_port(origin: str) -> None:
    """The exception for tests cannot be widened to other machines or to the port of https."""
    with pytest.raises(ValueError, match="not of the form"):
        Guard(local_gateways=[origin])


class Neighbour(Miniature):
    """A local server, which says what it was asked, or sends the client *elsewhere*."""

    def __init__(self, elsewhere: str = "") -> None:
        super().__init__()
        self.elsewhere = elsewhere

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.elsewhere:
            return web.Response(status=302, headers={"Location": self.elsewhere})
        return web.Response(text=request.path_qs)


@pytest.fixture
async def neighbour() -> AsyncIterator[Neighbour]:
    async with running(Neighbour()) as neighbour:
        yield neighbour


async def test_a_local_gateway_is_reached(neighbour: Neighbour) -> None:
    """The exception works, for any path of that origin."""
    async with HttpClient(Guard(local_gateways=[neighbour.url])) as outbound:
        answer = await outbound.ask("GET", neighbour.url + "/a?b", seconds=5, max_bytes=100)
    assert answer.body == b"/a?b"


async def test_nothing_else_is_reached_because_of_it(neighbour: Neighbour) -> None:
    """Neither other ports of the same address, nor that address by another name or scheme."""
    async with running(Neighbour()) as other:
        port = neighbour.url.rpartition(":")[2]
        zone = Zone({"gateway.example": ["127.0.0.1"]})
        async with HttpClient(Guard(local_gateways=[neighbour.url], resolver=zone)) as outbound:
            for url in (
                other.url,
                f"http://localhost:{port}/",
                f"http://gateway.example:{port}/",
                f"https://gateway.example:{port}/",
                f"https://127.0.0.1:{port}/",
                "https://gateway.example/",
                "https://127.0.0.1/",
            ):
                with pytest.raises((InvalidUpstreamResponse, UpstreamUnavailable)):
                    await outbound.ask("GET", url, seconds=30, max_bytes=100)
        assert neighbour.requests == other.requests == []


@pytest.mark.parametrize("path", ["/", "/latest/meta-data"])
async def test_a_redirect_leads_nowhere(neighbour: Neighbour, path: str) -> None:
    """A server that may be asked cannot send the client to one that may not."""
    async with running(Neighbour(neighbour.url + path)) as permitted:
        guard = Guard(local_gateways=[permitted.url, neighbour.url])
        async with HttpClient(guard) as outbound:
            answer = await outbound.ask("GET", permitted.url, seconds=5, max_bytes=100)
    assert answer.status == 302
    assert neighbour.requests == []
