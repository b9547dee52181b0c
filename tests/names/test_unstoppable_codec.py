"""What is sent to a ProxyReader, and what the records in its answers mean."""

from collections.abc import Mapping

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import BASE58BTC
from content_gateway.errors import ResolverFailed
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    ContentRecord,
    Failed,
    IpfsContent,
    IpnsContent,
    OtherContent,
)
from content_gateway.model.wallet import parse_evm_address
from content_gateway.names.resolver_records import Address
from content_gateway.names.unstoppable import (
    CONTENT_KEYS,
    MAX_UNREADABLE_TEXT,
    WALLET_KEYS,
    TokenRecords,
    encode_query,
    read_answer,
)
from content_gateway.settings.unstoppable_defaults import PROXY_READERS, TLDS
from tests.fakes.unstoppable import GET_DATA, NOBODY, namehash, returned
from tests.samples import CID_TEXT, CONTENT, KEY_TEXT, OTHER, OWNER, WALLET

# One directory in both versions (docs.ipfs.tech, "CID conversion").
V0 = "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR"
V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"
IPNS = IpnsContent(IpnsName.parse(KEY_TEXT))
KEYS = [*WALLET_KEYS, *CONTENT_KEYS]
LEGACY_WALLET, (HASH, LEGACY_HASH) = WALLET_KEYS[-1], CONTENT_KEYS


def read(records: Mapping[str, str | bytes], owner: str = OWNER) -> TokenRecords:
    """What is read from an answer with these records."""
    values = [records.get(key, b"") for key in KEYS]
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    return read_answer(returned(owner, raw))


def wallet_of(records: Mapping[str, str | bytes]) -> str | Failed | None:
    """The wallet that is read."""
    return read(records).address.text


def test_wallet_keys_are_read_in_order() -> None:
    """The most particular key wins, the oldest comes last."""
    addresses = {
        key: to_checksum_address("0x" + f"{n:02x}" * 20) for n, key in enumerate(WALLET_KEYS, 1)
    }
    for start in range(len(WALLET_KEYS)):
        remaining = WALLET_KEYS[start:]
        records = {key: addresses[key] for key in remaining}
        assert wallet_of(records) == addresses[remaining[0]]


@pytest.mark.parametrize(
    "value",
    [
        "0x",
        WALLET[:-1],
        WALLET + "0",
        WALLET[2:],
        " " + WALLET,
        WALLET + "\n",
        WALLET.swapcase().replace("0X", "0x"),  # a checksum, and a wrong one
        "vitalik.eth",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
        "0x" + "１" * 40,
        b"\xff" * 42,
        b"0" * 100_000,
    ],
)
def test_what_is_no_address_is_passed_over(value: str | bytes) -> None:
    """After an unreadable wallet the next key is read; without one the record has failed."""
    assert read({WALLET_KEYS[1]: value}).address == Address(
        Failed(ResolverFailed, "The name's wallet record is not an address.")
    )
    assert wallet_of({WALLET_KEYS[1]: value, LEGACY_WALLET: OTHER}) == OTHER


@pytest.mark.parametrize("value", ["", NOBODY])
def test_a_wallet_may_be_unset(value: str) -> None:
    """Nothing, or the zero address: the owner may stand in for it."""
    assert read({WALLET_KEYS[1]: value}).address == Address(None, is_zero=True)
    assert wallet_of({WALLET_KEYS[1]: value, LEGACY_WALLET: OTHER}) == OTHER


@pytest.mark.parametrize("value", [WALLET, WALLET.lower(), "0x" + WALLET[2:].upper()])
def test_an_address_may_go_without_a_checksum(value: str) -> None:
    """Digits of one case are taken as they are, and shown with their checksum."""
    assert wallet_of({LEGACY_WALLET: value}) == WALLET


# -- content --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (CID_TEXT, CONTENT),
        ("ipfs://" + CID_TEXT, CONTENT),
        ("/ipfs/" + CID_TEXT, CONTENT),
        (V0, IpfsContent(Cid.parse(V1))),
        (KEY_TEXT, IPNS),
        ("ipns://" + KEY_TEXT, IPNS),
        ("/ipns/" + KEY_TEXT, IPNS),
        ("ipfs://" + KEY_TEXT, IPNS),
        (BASE58BTC.encode(IPNS.name.multihash), IPNS),  # 12D3Koo...
        ("ipns://docs.ipfs.tech", IpnsContent(IpnsName.parse("docs.ipfs.tech"))),
        ("/ipns/docs.ipfs.tech", IpnsContent(IpnsName.parse("docs.ipfs.tech"))),
    ],
)
@pytest.mark.parametrize("key", CONTENT_KEYS)
def test_content_is_read_in_any_spelling(key: str, text: str, content: ContentRecord) -> None:
    """A CID or an IPNS name, bare, as a URI or as a path, under the new key and the old."""
    assert read({key: text}).content == content


@pytest.mark.parametrize(
    "value",
    [
        "docs.ipfs.tech",
        "https://ipfs.io/ipfs/" + CID_TEXT,
        f"ipfs://{CID_TEXT}/index.html",
        CID_TEXT + " ",
        "bafybeibj6",
        "ipns://",
        "/ipfs/",
        " ",
        "\0",
    ],
)
def test_unreadable_content_is_told_as_such(value: str) -> None:
    """What the owner wrote is a fact about the name, and is never guessed at."""
    assert read({HASH: value}).content == OtherContent("unreadable", value)


@pytest.mark.parametrize("value", [b"\xff\xfe" * 30, b"\xc3", "b" + "a" * 100_000, "ü" * 1500])
def test_bytes_that_are_no_text_are_bounded_and_no_outage(value: str | bytes) -> None:
    """Broken UTF-8 and whole novels are unreadable content, cut to a bound."""
    content = read({HASH: value}).content
    assert isinstance(content, OtherContent)
    assert content.codec == "unreadable"
    assert 0 < len(content.text) <= MAX_UNREADABLE_TEXT


def test_the_newer_content_key_wins() -> None:
    """The old key speaks only where the new one is unset: it is no substitute for a broken one."""
    assert read({HASH: KEY_TEXT, LEGACY_HASH: CID_TEXT}).content == IPNS
    assert read({LEGACY_HASH: CID_TEXT}).content == CONTENT
    broken = read({HASH: "?", LEGACY_HASH: CID_TEXT}).content
    assert broken == OtherContent("unreadable", "?")


# -- the wire -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["brad.crypto", "a.b.c.x", "1.888", "x" * 200 + ".nft"])
def test_the_question_is_what_eth_abi_would_send(text: str) -> None:
    """`getData(keys, node)`, byte for byte."""
    expected = GET_DATA + encode(["string[]", "uint256"], [KEYS, namehash(text)])
    assert encode_query(DomainName.parse(text).namehash) == expected


def test_without_an_owner_nothing_is_held() -> None:
    """An expired name keeps its records on the chain; without an owner they are void."""
    assert read({LEGACY_WALLET: WALLET, HASH: CID_TEXT}, owner=NOBODY) == TokenRecords()


def test_the_number_of_records_must_be_right() -> None:
    """An answer with more or fewer values than keys cannot be the ProxyReader's."""
    for count in (0, 5, 7, 64, 65):
        with pytest.raises(ValueError, match=r"records were asked for|elements"):
            read_answer(returned(OWNER, [b""] * count))


@settings(max_examples=300)
@given(
    st.binary(min_size=20, max_size=20).filter(any),
    st.lists(st.binary(max_size=70), min_size=6, max_size=6),
)
def test_any_answer_of_the_contract_is_read(owner: bytes, values: list[bytes]) -> None:
    """Whatever the records hold, the owner is read, and a record is valid, failed or left out."""
    holding = read_answer(returned("0x" + owner.hex(), values))
    assert holding.owner == owner
    wallet = holding.address.text
    assert isinstance(wallet, Failed | None) or len(parse_evm_address(wallet)) == 20
    assert (holding.content is None) == (not any(values[len(WALLET_KEYS) :]))


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_answer_is_refused_or_read(data: st.DataObject) -> None:
    """Cut, flipped or overwritten answers raise ValueError, if anything."""
    answer = bytearray(returned(OWNER, [WALLET.encode()] * 4 + [CID_TEXT.encode()] * 2))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(answer) - 1))
        answer[at] = data.draw(st.integers(0, 255))
    cut = bytes(answer[: data.draw(st.integers(0, len(answer)))])
    try:
        holding = read_answer(cut)
    except ValueError:
        return
    assert isinstance(holding, TokenRecords)


def test_the_default_contracts_are_written_right() -> None:
    """Each address carries its checksum, and the chain that is believed last is Ethereum."""
    addresses = list(PROXY_READERS.values())
    assert [to_checksum_address(address) for address in addresses] == addresses
    assert list(PROXY_READERS) == ["polygon", "base", "sonic", "ethereum"]


def test_the_default_endings_are_labels() -> None:
    """Each is one lower-case label, said once; none is ENS's."""
    assert len(set(TLDS)) == len(TLDS)
    assert all(DomainName.parse("a." + ending).text == "a." + ending for ending in TLDS)
    assert "eth" not in TLDS
