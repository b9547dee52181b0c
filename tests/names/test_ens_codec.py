"""What is sent to the Universal Resolver, and what its answers and refusals mean."""

import pytest
from eth_abi.abi import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import (
    GatewayError,
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.ccip import encode_failure
from content_gateway.ethereum.gateways import GatewayFailed
from content_gateway.model.domain import DomainName
from content_gateway.model.records import ContentRecord, Failed, OtherContent
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.ens import encode_query, read_element, read_elements
from content_gateway.names.resolver_records import Address, read_address, read_content
from content_gateway.names.reverts import read_refusal, read_resolver_error
from tests.fakes.ethereum import namehash, selector
from tests.samples import BASE, CONTENT, IPFS, WALLET

ADDRESS_RECORD = encode(["address"], [WALLET])
CONTENT_RECORD = encode(["bytes"], [IPFS])
UNSUPPORTED = selector("UnsupportedResolverProfile(bytes4)") + encode(
    ["bytes4"], [b"\x3b\x3b\x57\xde"]
)
HTTP_ERROR = selector("HttpError(uint16,string)") + encode(
    ["uint16", "string"], [503, "unavailable"]
)
ERROR = selector("Error(string)") + encode(["string"], ["out of luck"])


def answer(*elements: bytes) -> bytes:
    """What `resolve` returns for a multicall with these results."""
    results = encode(["bytes[]"], [list(elements)])
    return encode(["bytes", "address"], [results, "0x" + "ab" * 20])


def read_answer(returned: bytes) -> tuple[str | Failed | None, ContentRecord | Failed | None]:
    """Wallet and content in what `resolve` returned."""
    address, content = (read_element(element) for element in read_elements(returned, 2))
    return read_address(address, ETHEREUM).text, read_content(content)


@pytest.mark.parametrize("text", ["vitalik.eth", "a.b.c.d.eth", "bücher.eth", "x" * 200 + ".eth"])
def test_the_question_is_what_eth_abi_would_send(text: str) -> None:
    """`resolve(name, multicall([addr(node), contenthash(node)]))`, byte for byte."""
    name = DomainName.parse(text)
    node = namehash(text)
    calls = [selector("addr(bytes32)") + node, selector("contenthash(bytes32)") + node]
    multicall = selector("multicall(bytes[])") + encode(["bytes[]"], [calls])
    expected = selector("resolve(bytes,bytes)") + encode(["bytes", "bytes"], [name.wire, multicall])
    assert encode_query(name, *calls) == expected


def test_both_records_are_read() -> None:
    """Address and content come out of one answer."""
    assert read_answer(answer(ADDRESS_RECORD, CONTENT_RECORD)) == (WALLET, CONTENT)


def test_zero_and_empty_are_unset() -> None:
    """The zero address and an empty contenthash are how resolvers say 'not set'."""
    unset = answer(encode(["address"], ["0x" + "00" * 20]), encode(["bytes"], [b""]))
    assert read_answer(unset) == (None, None)


@pytest.mark.parametrize("element", [b"", UNSUPPORTED])
def test_a_record_the_resolver_does_not_know_is_unset(element: bytes) -> None:
    """An old resolver without contenthash still tells the address, and the other way round."""
    assert read_answer(answer(ADDRESS_RECORD, element)) == (WALLET, None)
    assert read_answer(answer(element, CONTENT_RECORD)) == (None, CONTENT)
    assert read_answer(answer(element, element)) == (None, None)


@pytest.mark.parametrize("place", [0, 1])
def test_a_failed_gateway_is_an_outage(place: int) -> None:
    """When the off-chain gateway behind one record fails, we do not know: it may be set."""
    elements = [ADDRESS_RECORD, CONTENT_RECORD]
    elements[place] = HTTP_ERROR
    records = read_answer(answer(*elements))
    assert records[place] == Failed(UpstreamUnavailable, "The name's off-chain gateway failed.")
    assert records[1 - place] == (WALLET, CONTENT)[1 - place]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("element", [ERROR, b"\x01\x02\x03\x04", b"\x00", ERROR + b"\x00"])
def test_a_failed_resolver_is_no_answer(place: int, element: bytes) -> None:
    """A record that failed for any other reason is never read as 'not set' (ENSIP-23)."""
    elements = [ADDRESS_RECORD, CONTENT_RECORD]
    elements[place] = element
    records = read_answer(answer(*elements))
    failed = records[place]
    assert isinstance(failed, Failed)
    assert failed.kind is ResolverFailed
    assert records[1 - place] == (WALLET, CONTENT)[1 - place]


@pytest.mark.parametrize("raw", [b"\xff" * 8, bytes.fromhex("e301"), IPFS + b"\0", bytes(600)])
def test_an_unreadable_contenthash_is_the_owners_affair(raw: bytes) -> None:
    """What the owner wrote is a fact about the name: the address is told all the same."""
    wallet, content = read_answer(answer(ADDRESS_RECORD, encode(["bytes"], [raw])))
    assert wallet == WALLET
    assert content == OtherContent("unreadable", raw[:512].hex())


@pytest.mark.parametrize(
    "returned",
    [
        b"",
        bytes(32),
        b"\xff" * 320,
        encode(["bytes", "address"], [b"", "0x" + "ab" * 20]),
        answer(),
        answer(ADDRESS_RECORD),
        answer(ADDRESS_RECORD, CONTENT_RECORD, CONTENT_RECORD),
    ],
)
def test_an_impossible_answer_is_garbage(returned: bytes) -> None:
    """An answer that is no valid ABI is refused as a whole."""
    with pytest.raises(ValueError, match=r"ABI|asked for"):
        read_answer(returned)


@pytest.mark.parametrize(
    ("elements", "place"),
    [
        ((b"\x01" + ADDRESS_RECORD[1:], CONTENT_RECORD), 0),  # more than 20 bytes of address
        ((ADDRESS_RECORD, ADDRESS_RECORD), 1),  # an address where bytes should be
    ],
)
def test_an_impossible_record_fails_alone(elements: tuple[bytes, bytes], place: int) -> None:
    """A resolver may return anything; what it says of the other record stands."""
    records = read_answer(answer(*elements))
    assert isinstance(records[place], Failed)
    assert records[1 - place] == (WALLET, CONTENT)[1 - place]


def test_an_address_on_another_chain_is_bytes() -> None:
    """`addr(node, coinType)` (ENSIP-9, ENSIP-11) returns `bytes`."""
    record = encode(["bytes"], [bytes.fromhex(WALLET[2:])])
    assert read_address(record, BASE) == Address(WALLET)


@pytest.mark.parametrize("raw", [b"", bytes(20)])
def test_an_unset_address_on_another_chain_is_none(raw: bytes) -> None:
    """Nothing, or zeros: neither is an address."""
    assert read_address(encode(["bytes"], [raw]), BASE) == Address(None, is_zero=True)


def test_an_address_of_the_wrong_length_is_no_address() -> None:
    """19 bytes on an EVM chain cannot be shown to anybody."""
    failed = read_address(encode(["bytes"], [b"\1" * 19]), BASE).text
    assert isinstance(failed, Failed)
    assert failed.kind is ResolverFailed


@pytest.mark.parametrize("element", [b"", UNSUPPORTED])
def test_an_address_that_is_not_zero_is_not_unset(element: bytes) -> None:
    """A function that is missing, and one that said nothing, leave no place for the owner."""
    assert read_address(read_element(element), ETHEREUM) == Address(None)
    assert read_address(read_element(bytes(32)), ETHEREUM) == Address(None, is_zero=True)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_mutated_answer_is_read_or_an_upstream_error(data: st.DataObject) -> None:
    """However an answer is bent, nothing but ValueError is raised."""
    returned = bytearray(answer(ADDRESS_RECORD, CONTENT_RECORD))
    for _ in range(data.draw(st.integers(1, 5))):
        returned[data.draw(st.integers(0, len(returned) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_answer(bytes(returned[: data.draw(st.integers(0, len(returned)))]))
    except ValueError:
        return


@pytest.mark.parametrize(
    ("signature", "meaning"),
    [
        ("ResolverNotFound(bytes)", NameNotFound),
        ("ResolverNotContract(bytes,address)", NameNotFound),
        ("UnsupportedResolverProfile(bytes4)", NameNotFound),
        ("HttpError(uint16,string)", UpstreamUnavailable),
        ("OffchainLookup(address,string[],bytes,bytes4,bytes)", UpstreamUnavailable),
        ("ResolverFunctionNotSupported()", NameNotFound),
        ("NotImplemented()", NameNotFound),
        ("CouldNotResolve(bytes)", NameNotFound),
        ("ResolverError(bytes)", ResolverFailed),
        ("DNSDecodingFailed(bytes)", InvalidUpstreamResponse),
        ("Error(string)", InvalidUpstreamResponse),
        ("Panic(uint256)", InvalidUpstreamResponse),
    ],
)
def test_each_refusal_has_its_meaning(signature: str, meaning: type[GatewayError]) -> None:
    """Only refusals that say 'there is nothing' become absence; the rest is an outage."""
    assert type(read_refusal(selector(signature) + bytes(64))) is meaning


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (400, ResolverFailed),
        (404, ResolverFailed),
        (408, UpstreamUnavailable),
        (429, UpstreamUnavailable),
        (500, UpstreamUnavailable),
        (502, InvalidUpstreamResponse),
        (503, UpstreamUnavailable),
        (504, UpstreamTimeout),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_gateways_status_tells_failure_from_refusal(
    status: int, meaning: type[GatewayError], wrapped: bool
) -> None:
    """4xx is a refusal, which stays; 5xx and 429 are failures, which may pass."""
    data = selector("HttpError(uint16,string)") + encode(["uint16", "string"], [status, "x"])
    if wrapped:
        data = selector("ResolverError(bytes)") + encode(["bytes"], [data])
    assert type(read_refusal(data)) is meaning


@pytest.mark.parametrize(
    "failed",
    [
        InvalidUpstreamResponse("The name's off-chain gateway did not answer in JSON."),
        UpstreamUnavailable("The server cannot be reached."),
        UpstreamTimeout("No complete answer within 2 s."),
        GatewayFailed(500),
        GatewayFailed(502),
        GatewayFailed(503),
    ],
)
def test_a_failed_gateway_is_the_same_in_a_batch_and_alone(failed: UpstreamError) -> None:
    """Whoever is told of it by a contract hears of the same fault; an answer that is none is not
    an outage, and what a gateway says of its own server is not that gateway's invalid answer."""
    told = read_refusal(encode_failure(failed))
    assert isinstance(failed, type(told))


def wrapped(error: bytes) -> bytes:
    """The resolver's *error* as the Universal Resolver passes it on."""
    return selector("ResolverError(bytes)") + encode(["bytes"], [error])


@pytest.mark.parametrize(
    "error",
    [
        UNSUPPORTED,
        selector("ResolverFunctionNotSupported()"),
        selector("NotImplemented()"),
        selector("CouldNotResolve(bytes)") + encode(["bytes"], [b"\3com\0"]),
    ],
)
def test_what_is_not_there_is_absent_even_when_wrapped(error: bytes) -> None:
    """ResolverError around a resolver's word for absence says that there is no such record."""
    for _ in range(3):
        error = wrapped(error)
        assert type(read_refusal(error)) is NameNotFound


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (b"", "without a reason"),
        (ERROR, 'with "out of luck"'),
        (selector("Panic(uint256)") + encode(["uint256"], [0x11]), "with Panic(0x11)"),
        (selector("InvalidOperation()"), "with InvalidOperation()"),
        (selector("InvalidAddressFormat()"), "with InvalidAddressFormat()"),
        (
            selector("InvalidAddressFormat(bytes)") + encode(["bytes"], [b"?"]),
            "with InvalidAddressFormat(bytes)",
        ),
        (selector("Odd()"), f"with the unknown error 0x{selector('Odd()').hex()}"),
        (b"\x01", "with the unknown error 0x01"),
        (selector("Error(string)") + b"\xff" * 40, "with the unknown error 0x08c379a0"),
    ],
)
def test_the_resolvers_error_is_the_resolvers(error: bytes, how: str) -> None:
    """It is told by name where that is known; ENS is to blame for its own errors only."""
    told = [read_resolver_error(error), read_resolver_error(wrapped(error))]
    told.append(read_refusal(wrapped(error)))
    assert {(type(one), one.detail) for one in told} == {
        (ResolverFailed, f"The name's resolver reverted {how}.")
    }
    ens = read_refusal(error)
    assert (type(ens), ens.detail) == (InvalidUpstreamResponse, f"ENS refused {how}.")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"a" * 10_000, "a" * 100),
        (b'"; its wallet is 0xdead', "'; its wallet is 0xdead"),
        ("a\nb\x00c\u202ed\x1b[31m".encode(), "a\ufffdb\ufffdc\ufffdd\ufffd[31m"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_what_a_resolver_says_is_bounded_and_cannot_pass_for_ours(text: bytes, told: str) -> None:
    """The resolver's text is bounded to one printable line, with its quotes replaced."""
    error = selector("Error(string)") + encode(["bytes"], [text])
    assert read_resolver_error(error).detail == f'The name\'s resolver reverted with "{told}".'


def test_errors_wrapped_without_end_are_not_unwrapped_without_end() -> None:
    """A hundred layers are one unknown error."""
    error = ERROR
    for _ in range(100):
        error = wrapped(error)
    assert "unknown error 0x95c0c752" in read_resolver_error(error).detail


@given(st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_an_unknown_refusal_is_never_absence(data: bytes) -> None:
    """A revert that we do not understand tells nothing about the name."""
    assert isinstance(read_refusal(data), UpstreamError)
