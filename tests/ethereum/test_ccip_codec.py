"""What contracts say about off-chain lookups, and what a batch gateway answers: against eth-abi."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from eth_abi.abi import decode, encode
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import (
    InvalidUpstreamResponse,
    PinFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.ccip import (
    MAX_BATCH,
    MAX_LOOKUP_BYTES,
    OffchainLookup,
    encode_batch,
    encode_failure,
    read_lookup,
    read_query,
)
from content_gateway.ethereum.gateways import (
    MAX_URL_BYTES,
    GatewayFailed,
    GatewayRefused,
    GatewayRequest,
)
from tests.fakes.ethereum import selector

LOOKUP = "OffchainLookup(address,string[],bytes,bytes4,bytes)"
LOOKUP_TYPES = ["address", "string[]", "bytes", "bytes4", "bytes"]
QUERY = "query((address,string[],bytes)[])"
QUERY_TYPES = ["(address,string[],bytes)[]"]
SENDER = bytes(range(20))
T = TypeVar("T")


def lookup(
    sender: bytes = SENDER,
    urls: Sequence[str] = ("https://gateway.example/{data}",),
    data: bytes = b"question",
    callback: bytes = b"back",
    extra: bytes = b"extra",
) -> bytes:
    """The data of a revert with OffchainLookup."""
    return selector(LOOKUP) + encode(LOOKUP_TYPES, [sender, urls, data, callback, extra])


def query(*requests: tuple[bytes, Sequence[str], bytes]) -> bytes:
    """A call of the batch gateway."""
    return selector(QUERY) + encode(QUERY_TYPES, [requests])


ADDRESSES = st.binary(min_size=20, max_size=20)
URLS = st.lists(st.text(max_size=60), max_size=6)
REQUESTS = st.tuples(ADDRESSES, URLS, st.binary(max_size=200))


@given(ADDRESSES, URLS, st.binary(max_size=300), st.binary(min_size=4, max_size=4), st.binary())
@settings(max_examples=500, deadline=None)
def test_a_lookup_is_read_as_eth_abi_wrote_it(
    sender: bytes, urls: list[str], data: bytes, callback: bytes, extra: bytes
) -> None:
    """Every field of every lookup comes out as it went in."""
    expected = OffchainLookup(GatewayRequest(sender, tuple(urls), data), callback, extra)
    assert read_lookup(lookup(sender, urls, data, callback, extra)) == expected


@given(st.lists(REQUESTS, max_size=MAX_BATCH))
@settings(max_examples=500, deadline=None)
def test_a_query_is_read_as_eth_abi_wrote_it(
    requests: list[tuple[bytes, list[str], bytes]],
) -> None:
    """The same for the batch gateway's function."""
    expected = [GatewayRequest(sender, tuple(urls), data) for sender, urls, data in requests]
    assert read_query(query(*requests)) == expected


def test_another_error_is_no_lookup() -> None:
    """Other errors of a contract, and calls of other functions, are not lookups."""
    assert read_lookup(b"") is None
    assert read_lookup(selector("Error(string)") + lookup()[4:]) is None
    with pytest.raises(ValueError, match="another function"):
        read_query(selector("query(bytes)") + query()[4:])


@pytest.mark.parametrize("cut", [4, 5, 36, 100, len(lookup()) - 32])
def test_a_lookup_that_is_cut_short_is_refused(cut: int) -> None:
    """Nothing is read beyond the end."""
    with pytest.raises(ValueError, match=r"cut short|longer"):
        read_lookup(lookup()[:cut])


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_what_no_contract_needs_is_refused() -> None:
    """Too many bytes, URLs, requests, and URLs that are too long."""
    small, big = "x" * MAX_URL_BYTES, "x" * (MAX_URL_BYTES + 1)
    assert read_lookup(lookup(urls=[small]))
    room = MAX_LOOKUP_BYTES - len(lookup(extra=b""))
    assert read_lookup(lookup(extra=bytes(room // 32 * 32)))
    assert len(read_query(query(*[(SENDER, [], b"")] * MAX_BATCH))) == MAX_BATCH
    for too_much in (
        lookup(urls=[big]),
        lookup(urls=["x"] * 65),
        lookup(extra=bytes(MAX_LOOKUP_BYTES)),
    ):
        with pytest.raises(ValueError, match="more than"):
            read_lookup(too_much)
    for too_much in (query((SENDER, [big], b"")), query(*[(SENDER, [], b"")] * (MAX_BATCH + 1))):
        with pytest.raises(ValueError, match="more than"):
            read_query(too_much)


def test_addresses_and_selectors_have_their_size() -> None:
    """A word with bytes beside the address or the selector holds something else."""
    good = lookup()
    dirty_sender = good[:4] + b"\1" + good[5:]
    at = 4 + 3 * 32
    dirty_callback = good[: at + 31] + b"\1" + good[at + 32 :]
    for dirty in (dirty_sender, dirty_callback):
        with pytest.raises(ValueError, match="longer"):
            read_lookup(dirty)


def test_many_offsets_to_one_long_text_cost_nothing() -> None:
    """The length is looked at before the text is read, however often it is pointed at."""
    urls = word(64) + b"".join(word(64 * 32) for _ in range(64)) + word(100_000) + bytes(100_000)
    heads = bytes(12) + SENDER + word(160) + word(0) + b"back".ljust(32, b"\0") + word(0)
    with pytest.raises(ValueError, match="a URL has more than"):
        read_lookup(selector(LOOKUP) + heads + urls)


def test_a_text_that_is_no_url_is_left_to_the_guard() -> None:
    """A URL that is not UTF-8 leaves the other URLs as they are."""
    broken = lookup(urls=["https://a.example/", "?" * 8]).replace(b"?" * 8, b"\xff" * 8)
    read = read_lookup(broken)
    assert read is not None
    assert read.request.urls == ("https://a.example/", "\ufffd" * 8)


FLAWS = st.one_of(
    st.tuples(st.integers(0, 10_000), st.binary(min_size=1, max_size=40)),
    # A word in place of another is an offset or a length that leads elsewhere.
    st.tuples(st.integers(0, 20).map((32).__mul__), st.integers(0, 600).map(word)),
)


def tampered(valid: bytes, flaws: list[tuple[int, bytes]], cut: int) -> bytes:
    """*valid* with bytes overwritten, and perhaps its end cut off."""
    data = bytearray(valid)
    for at, flaw in flaws:
        start = at % len(data)
        data[start : start + len(flaw)] = flaw
    return bytes(data[: max(4, len(data) - cut)])


def agrees(
    data: bytes, types: list[str], read: Callable[[bytes], T], make: Callable[..., T]
) -> None:
    """What is read from *data* is what eth-abi reads, unless it is refused."""
    try:
        ours = read(data)
    except ValueError:
        return
    try:
        theirs = make(*decode(types, data[4:], strict=False))
    except Exception:
        return
    assert ours == theirs


@given(st.lists(FLAWS, max_size=3), st.integers(0, 64))
@settings(max_examples=2000, deadline=None)
def test_a_tampered_lookup_is_refused_or_read_as_eth_abi_does(
    flaws: list[tuple[int, bytes]], cut: int
) -> None:
    """No flaw turns into another value than the one the bytes stand for, or another error."""

    def make(sender: str, urls: Sequence[str], data: bytes, *rest: Any) -> OffchainLookup:
        request = GatewayRequest(bytes.fromhex(sender[2:]), tuple(urls), data)
        return OffchainLookup(request, rest[0], rest[1])

    valid = lookup(urls=["https://a.example/{data}", "https://b.example/"], data=bytes(40))
    data = tampered(valid, [(4 + at, flaw) for at, flaw in flaws], cut)
    if data[:4] == selector(LOOKUP):
        agrees(data, LOOKUP_TYPES, read_lookup, make)


@given(st.lists(FLAWS, max_size=3), st.integers(0, 64))
@settings(max_examples=2000, deadline=None)
def test_a_tampered_query_is_refused_or_read_as_eth_abi_does(
    flaws: list[tuple[int, bytes]], cut: int
) -> None:
    """The same for the batch."""

    def make(requests: Sequence[tuple[str, Sequence[str], bytes]]) -> list[GatewayRequest]:
        return [
            GatewayRequest(bytes.fromhex(sender[2:]), tuple(urls), data)
            for sender, urls, data in requests
        ]

    valid = query((SENDER, ["https://a.example/"], b"one"), (SENDER[::-1], [], bytes(40)))
    data = tampered(valid, [(4 + at, flaw) for at, flaw in flaws], cut)
    if data[:4] == selector(QUERY):
        agrees(data, QUERY_TYPES, read_query, make)


@given(st.binary(max_size=400))
@settings(max_examples=1000, deadline=None)
def test_noise_is_refused(noise: bytes) -> None:
    """Random arguments raise ValueError or are read; nothing else ever happens."""
    for read in (read_lookup, read_query):
        try:
            read((selector(LOOKUP) if read is read_lookup else selector(QUERY)) + noise)
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("failed", "status"),
    [
        (GatewayRefused(404), 404),
        (GatewayFailed(429), 429),
        (GatewayFailed(500), 500),
        (UpstreamTimeout("late"), 504),
        (InvalidUpstreamResponse("odd"), 502),
        (UpstreamUnavailable("gone"), 503),
        (PinFailed("?"), 503),
    ],
)
def test_a_failure_is_an_http_error(failed: UpstreamError, status: int) -> None:
    """ENSIP-21's error for a status, and the one a proxy would give where there was none."""
    data = encode_failure(failed)
    assert data[:4] == selector("HttpError(uint16,string)")
    assert decode(["uint16", "string"], data[4:]) == (status, failed.detail)
    # ENSIP-23: this length is what tells an error from a record.
    assert len(data) % 32 == 4


@given(st.lists(st.one_of(st.binary(max_size=100), st.just(UpstreamTimeout("late")))))
@settings(max_examples=300, deadline=None)
def test_a_batch_is_read_by_eth_abi_as_it_was_meant(elements: list[bytes | UpstreamError]) -> None:
    """Failures and responses stand side by side, in the order of the requests."""
    failures, responses = decode(["bool[]", "bytes[]"], encode_batch(elements))
    assert len(failures) == len(responses) == len(elements)
    for failure, response, element in zip(failures, responses, elements, strict=True):
        assert failure == isinstance(element, UpstreamError)
        assert response == (
            encode_failure(element) if isinstance(element, UpstreamError) else element
        )
