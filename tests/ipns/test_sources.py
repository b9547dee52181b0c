"""Gateways and Kubo as sources of IPNS records: a record, none, or an outage."""

import json
from base64 import b64encode
from collections.abc import Callable

import pytest

from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ipns.sources.http import HttpSource
from content_gateway.ipns.sources.kubo import MAX_ANSWER_BYTES, KuboSource, read_value
from content_gateway.model.ipns_name import MAX_RECORD_BYTES
from content_gateway.net.http_client import HttpClient
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.ipns.signing import RsaSigner, Signer

SIGNER = Signer()
NAME = SIGNER.name
Source = HttpSource | KuboSource
SOURCES: dict[str, Callable[..., Source]] = {
    "router": HttpSource.router,
    "gateway": HttpSource.gateway,
    "kubo": KuboSource,
}
REQUESTS = {
    "router": f"/routing/v1/ipns/{NAME}",
    "gateway": f"/ipns/{NAME}?format=ipns-record",
    "kubo": f"/api/v0/routing/get?arg=/ipns/{NAME}",
}


@pytest.fixture(params=SOURCES)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def source(kind: str, outbound: HttpClient, origin: Origin) -> Source:
    return SOURCES[kind](outbound, origin.url + "/", seconds=2)


async def test_a_record_is_handed_on_as_it_is(source: Source, kind: str, origin: Origin) -> None:
    """One request, by the canonical name; the bytes are the publisher's, of either kind of key."""
    rsa = RsaSigner()
    origin.records |= {NAME.text: SIGNER.record(), rsa.name.text: rsa.record(v1=True)}
    assert await source.record(NAME) == SIGNER.record()
    assert origin.requests == [REQUESTS[kind]]
    assert await source.record(rsa.name) == rsa.record(v1=True)


async def test_a_source_without_the_record_has_none(source: Source) -> None:
    """404, and Kubo's own "not found" with status 500, are absence and no outage."""
    assert await source.record(NAME) is None


@pytest.mark.parametrize("mood", ["html", "404"])
@pytest.mark.parametrize("kind", ["router", "gateway"], indirect=True)
async def test_what_is_no_record_is_none(source: Source, origin: Origin, mood: Mood) -> None:
    """Pages and 404 are how public gateways say that they have no record."""
    origin.records[NAME.text] = SIGNER.record()
    origin.misbehave(mood)
    assert await source.record(NAME) is None
    assert len(origin.requests) == 1


@pytest.mark.parametrize("kind", ["router", "gateway"], indirect=True)
async def test_a_redirect_is_an_outage(source: Source, origin: Origin) -> None:
    """It is not followed, so nobody has looked for the record."""
    origin.records[NAME.text] = SIGNER.record()
    origin.misbehave("redirect")
    with pytest.raises(InvalidUpstreamResponse):
        await source.record(NAME)
    assert len(origin.requests) == 1


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("html", InvalidUpstreamResponse),
        ("404", UpstreamUnavailable),
        ("redirect", UpstreamUnavailable),
    ],
)
@pytest.mark.parametrize("kind", ["kubo"], indirect=True)
async def test_what_is_no_kubo_is_an_outage(
    source: Source, origin: Origin, mood: Mood, error: type[UpstreamError]
) -> None:
    """Where no RPC API answers, nothing was looked for: the operator's setting is wrong."""
    origin.misbehave(mood)
    with pytest.raises(error):
        await source.record(NAME)


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("dark", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("huge", InvalidUpstreamResponse),
        ("garbage", InvalidUpstreamResponse),
        ("cut", UpstreamUnavailable),
        ("429", UpstreamUnavailable),
        ("500", UpstreamUnavailable),
        ("503", UpstreamUnavailable),
    ],
)
async def test_an_outage_is_not_an_absence(
    source: Source, origin: Origin, mood: Mood, error: type[UpstreamError]
) -> None:
    """A source that fails has not said that there is no record."""
    origin.misbehave(mood)
    with pytest.raises(error):
        await source.record(NAME)
    assert origin.bytes_flooded < 16_000_000


async def test_a_record_is_at_most_10_kib(source: Source, origin: Origin) -> None:
    """The specification's limit is the last size that is taken, base64 around it or not."""
    origin.records[NAME.text] = bytes(MAX_RECORD_BYTES)
    assert await source.record(NAME) == bytes(MAX_RECORD_BYTES)
    origin.records[NAME.text] += b"\0"
    with pytest.raises(InvalidUpstreamResponse):
        await source.record(NAME)


def event(record: bytes | str, kind: int = 5) -> bytes:
    """One event of Kubo's."""
    extra = b64encode(record).decode() if isinstance(record, bytes) else record
    return json.dumps({"ID": "", "Type": kind, "Responses": None, "Extra": extra}).encode() + b"\n"


@pytest.mark.parametrize(
    "body",
    [
        event(b"record"),
        event(b"record").rstrip(),
        event("asking somebody", 0) + event(b"record"),
        event(b"older") + event("12D3KooW", 1) + event(b"record"),
        event(b"record") + event("a query failed", 3),
    ],
)
def test_the_last_value_among_kubos_events_is_the_record(body: bytes) -> None:
    """Kubo 0.42 sends one event; others may tell of the search, and the best value comes last."""
    assert read_value(body) == b"record"


BAD: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no value": lambda: event("a query failed", 3),
    "an error": lambda: b'{"Message":"routing: not found","Code":0,"Type":"error"}\n',
    "no text": lambda: b'{"Type":5,"Extra":null}',
    "a number": lambda: b'{"Type":5,"Extra":7}',
    "no base64": lambda: event("?" * 8),
    "cut base64": lambda: event("AAAAA"),
    "not ASCII": lambda: event("é" * 4),
    "a list": lambda: b"[]\n",
    "half a line": lambda: event(b"record")[:-4],
    "a page behind it": lambda: event(b"record") + b"<p>hello",
    "not UTF-8": lambda: b'{"Type":5,"Extra":"\xff"}',
    "too large": lambda: event(bytes(MAX_RECORD_BYTES + 1)),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_events_without_a_record_are_garbage(body: Callable[[], bytes]) -> None:
    """An answer of status 200 without one valid record is refused."""
    with pytest.raises(InvalidUpstreamResponse):
        read_value(body())


def test_the_largest_record_fits_into_an_answer() -> None:
    """The cap on Kubo's answer leaves room for base64 and for events around the record."""
    assert len(event(bytes(MAX_RECORD_BYTES))) < MAX_ANSWER_BYTES / 4
