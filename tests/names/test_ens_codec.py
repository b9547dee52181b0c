"""What is sent to the Universal Resolver, and what its answers and refusals mean."""

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.content.cid import Cid
from content_gateway.content.domain import DomainName
from content_gateway.content.records import IpfsContent, OtherContent
from content_gateway.errors import (
    GatewayError,
    NameNotFound,
    UpstreamError,
    UpstreamNonsense,
    UpstreamUnavailable,
)
from content_gateway.names.ens import checksummed, encode_query, read_answer, read_refusal
from tests.fakes.ethereum import namehash, selector

WALLET = bytes.fromhex("d8da6bf26964af9d7eed9e03e53415d37aa96045")
CONTENTHASH = bytes.fromhex(
    "e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
)
CONTENT = IpfsContent(Cid.parse("bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"))
ADDRESS_RECORD = encode(["address"], [WALLET])
CONTENT_RECORD = encode(["bytes"], [CONTENTHASH])
UNSUPPORTED = selector("UnsupportedResolverProfile(bytes4)") + encode(
    ["bytes4"], [b"\x3b\x3b\x57\xde"]
)
HTTP_ERROR = selector("HttpError(uint16,string)") + encode(
    ["uint16", "string"], [502, "bad gateway"]
)
ERROR = selector("Error(string)") + encode(["string"], ["out of luck"])


def answer(*elements: bytes) -> bytes:
    """What `resolve` returns for a multicall with these results."""
    results = encode(["bytes[]"], [list(elements)])
    return encode(["bytes", "address"], [results, "0x" + "ab" * 20])


@pytest.mark.parametrize("text", ["vitalik.eth", "a.b.c.d.eth", "bücher.eth", "x" * 200 + ".eth"])
def test_the_question_is_what_eth_abi_would_send(text: str) -> None:
    """`resolve(name, multicall([addr(node), contenthash(node)]))`, byte for byte."""
    name = DomainName.parse(text)
    node = namehash(text)
    calls = [selector("addr(bytes32)") + node, selector("contenthash(bytes32)") + node]
    multicall = selector("multicall(bytes[])") + encode(["bytes[]"], [calls])
    expected = selector("resolve(bytes,bytes)") + encode(["bytes", "bytes"], [name.wire, multicall])
    assert encode_query(name, name.namehash) == expected


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
    with pytest.raises(UpstreamUnavailable):
        read_answer(answer(*elements))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("element", [ERROR, b"\x01\x02\x03\x04", b"\x00", ERROR + b"\x00"])
def test_a_failed_resolver_is_no_answer(place: int, element: bytes) -> None:
    """A record that failed for any other reason is never read as 'not set' (ENSIP-23)."""
    elements = [ADDRESS_RECORD, CONTENT_RECORD]
    elements[place] = element
    with pytest.raises(UpstreamNonsense):
        read_answer(answer(*elements))


@pytest.mark.parametrize(
    "raw", [b"\xff" * 8, bytes.fromhex("e301"), CONTENTHASH + b"\0", bytes(600)]
)
def test_an_unreadable_contenthash_is_the_owners_affair(raw: bytes) -> None:
    """What the owner wrote is a fact about the name: the address is told all the same."""
    wallet, content = read_answer(answer(ADDRESS_RECORD, encode(["bytes"], [raw])))
    assert wallet == WALLET
    assert content == OtherContent("unreadable", raw.hex())


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
        answer(b"\x01" + ADDRESS_RECORD[1:], CONTENT_RECORD),  # more than 20 bytes of address
        answer(ADDRESS_RECORD, ADDRESS_RECORD),  # an address where bytes should be
    ],
)
def test_an_impossible_answer_is_nonsense(returned: bytes) -> None:
    """A node that lies is caught lying; nothing of its answer is used."""
    with pytest.raises(UpstreamNonsense):
        read_answer(returned)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_mutated_answer_is_read_or_an_upstream_error(data: st.DataObject) -> None:
    """However an answer is bent, nothing but UpstreamError is raised."""
    returned = bytearray(answer(ADDRESS_RECORD, CONTENT_RECORD))
    for _ in range(data.draw(st.integers(1, 5))):
        returned[data.draw(st.integers(0, len(returned) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_answer(bytes(returned[: data.draw(st.integers(0, len(returned)))]))
    except UpstreamError:
        return


@pytest.mark.parametrize(
    ("signature", "meaning"),
    [
        ("ResolverNotFound(bytes)", NameNotFound),
        ("ResolverNotContract(bytes,address)", NameNotFound),
        ("UnsupportedResolverProfile(bytes4)", NameNotFound),
        ("HttpError(uint16,string)", UpstreamUnavailable),
        ("OffchainLookup(address,string[],bytes,bytes4,bytes)", UpstreamUnavailable),
        ("ResolverError(bytes)", UpstreamNonsense),
        ("DNSDecodingFailed(bytes)", UpstreamNonsense),
        ("Error(string)", UpstreamNonsense),
        ("Panic(uint256)", UpstreamNonsense),
    ],
)
def test_each_refusal_has_its_meaning(signature: str, meaning: type[GatewayError]) -> None:
    """Only refusals that say 'there is nothing' become absence; the rest is an outage."""
    assert type(read_refusal(selector(signature) + bytes(64))) is meaning


@given(st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_an_unknown_refusal_is_never_absence(data: bytes) -> None:
    """A revert that we do not understand tells nothing about the name."""
    assert isinstance(read_refusal(data), UpstreamError)


# EIP-55's own test cases.
@pytest.mark.parametrize(
    "address",
    [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x27b1fdb04752bbc536007a920d24acb045561c26",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    ],
)
def test_the_checksum_vectors_of_eip_55(address: str) -> None:
    """Addresses are shown with the checksum that wallets verify."""
    assert checksummed(bytes.fromhex(address[2:])) == address


@given(st.binary(min_size=20, max_size=20))
@settings(max_examples=50, deadline=None)
def test_the_checksum_agrees_with_eth_utils(address: bytes) -> None:
    """Any address has the checksum that another implementation gives it."""
    assert checksummed(address) == to_checksum_address(address)
