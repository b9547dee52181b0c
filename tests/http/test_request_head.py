"""What a request line and a Host may say, on a real socket; and HTTP that is not spoken here."""

from collections.abc import Iterator

import pytest

from content_gateway.http.limits import ClientLimits
from tests.http.raw import Edge, Wire, get, running_edge

BOUNDS = ClientLimits(head_seconds=5, idle=5, linger=0.3, drain=0.1, stop=2)


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    with running_edge("uvloop", BOUNDS) as edge:
        yield edge


@pytest.fixture(scope="module")
def local() -> Iterator[Edge]:
    """A server that answers to hosts of this machine only."""
    with running_edge(
        "uvloop", ClientLimits(head_seconds=5, idle=5, linger=0.3, is_local=True)
    ) as edge:
        yield edge


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET / HTTP/2.0", 505),
        ("GET / HTTP/2", 505),
        ("GET / HTTP/0.9", 505),
        ("GET / HTTP/1.2", 505),
        ("GET / HTTP/3.0", 505),
        ("PRI * HTTP/2.0", 505),
        ("GET / RTSP/1.0", 400),
        ("DESCRIBE / RTSP/1.0", 400),
        ("OPTIONS rtsp://here/ RTSP/1.0", 400),
        ("SOURCE / ICE/1.0", 400),
        ("GET / http/1.1", 400),
        ("GET /", 400),
    ],
)
def test_only_http_1_is_spoken(edge: Edge, wire: Wire, line: str, status: int) -> None:
    """Another protocol, or another version of this one, is refused and never half understood."""
    edge.app.forget()
    answer = wire.ask(f"{line}\r\nHost: here\r\n\r\n".encode())
    assert answer.is_refusal(status)
    assert not edge.app.requests


@pytest.mark.parametrize(
    "host",
    [
        *("", "a b", "user@here", "user:word@here", "here:", "here:80", "[::1]:8080"),
        *(
            "here:99999",
            "here:-1",
            "here:x",
            "here:80:80",
            "[::1",
            "::1",
            "[::g]",
            "[]",
            "[1.2.3.4]",
        ),
        *("here/", "here?", "here#", "http://here", "a,b", "%zz", "%41", "hére", "a\\b", "<here>"),
        *("EXAMPLE.com.", "xn--bcher-kva.example", "127.1", "_under.score", "a" * 256),
    ],
)
def test_a_host_is_one(wire: Wire, host: str) -> None:
    """What cannot be a host is refused: userinfo, spaces, no port that there is, nothing at all."""
    good = {"here:", "here:80", "[::1]:8080", "%41", "a,b", "127.1", "_under.score"}
    good |= {"EXAMPLE.com.", "xn--bcher-kva.example"}
    answer = wire.ask(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.status == 200 if host in good else answer.is_refusal(400)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *(("127.0.0.1", True), ("127.0.0.1:8080", True), ("127.9.9.9:1", True), ("[::1]", True)),
        *(("[::1]:8080", True), ("localhost", True), ("LOCALHOST:9", True)),
        *(("localhost.", True), ("localhost.:8080", True), ("localhost..", False)),
        *(("[0:0:0:0:0:0:0:1]", True), ("evil.example", False), ("localhost.evil.example", False)),
        *(("evil.localhost", False), ("127.0.0.1.evil.example", False), ("0.0.0.0", False)),
        *(("192.168.0.1", False), ("[::]", False), ("[::ffff:127.0.0.1]", False)),
        *(("2130706433", False), ("127.1", False)),
    ],
)
def test_a_service_that_takes_any_key_answers_to_this_machine_only(
    local: Edge, host: str, is_here: bool
) -> None:
    """A page can make its own name lead to a developer's service (DNS rebinding); its requests have
    that name in the Host field, and are told what to do."""
    local.app.forget()
    with local.connect() as wire:
        answer = wire.ask(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert answer.status == 200 if is_here else answer.is_refusal(421)
        if not is_here:
            assert "localhost" in answer.json["detail"]
    assert local.app.requests == (["/"] if is_here else [])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/" + "a" * 3_000, "path"),
        ("/" + "a" * 20_000, "path"),
        ("/" + "a" * 3_000 + "?b=" + "c" * 20_000, "path"),
        ("/a?b=" + "c" * 20_000, "query"),
        ("/" + "a" * 2_000 + "?b=" + "c" * 20_000, "query"),
    ],
)
def test_a_long_query_is_not_called_a_long_path(wire: Wire, target: str, said: str) -> None:
    """Whoever reads the refusal must know what to make shorter."""
    answer = wire.ask(get(target))
    assert answer.is_refusal(414)
    assert f"The {said} is" in answer.json["detail"]


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://here/version", "here", 200),
        ("http://HERE:80/version", "here:8080", 200),
        ("http://[::1]/", "[0::1]", 200),
        ("http://there/version", "here", 400),
        ("http://there", "here", 400),
        ("http://there?http://here", "here", 400),
        ("http://me@here/", "here", 400),
        ("/http://there/", "here", 200),
    ],
)
def test_a_target_and_its_host_field_name_one_host(
    edge: Edge, target: str, host: str, status: int
) -> None:
    """Which of two would count is what servers in a row may differ about."""
    with edge.connect() as wire:
        answer = wire.ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert answer.status == status
