"""Wallet addresses: coin types, published vectors of every coin, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidCoinType
from content_gateway.model.wallet import (
    ETHEREUM,
    CoinType,
    address_text,
    checksummed,
    is_evm,
    parse_coin_type,
    parse_evm_address,
)

BITCOIN, LITECOIN, DOGECOIN, SOLANA = (CoinType(n) for n in (0, 2, 3, 501))
BASE = CoinType(0x80000000 | 8453)
DEFAULT_EVM = CoinType(0x80000000)

# EIP-55's own examples.
CHECKSUMMED = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]

# ENSIP-9 and the test vectors of ensdomains/address-encoder; those of Bitcoin's witness
# programs are BIP-173's and BIP-350's for the main network.
KEPT_AND_WRITTEN = [
    (
        BITCOIN,
        "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    ),
    (
        BITCOIN,
        "a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1887",
        "3Ai1JZ8pdJb2ksieUV8FsxSNVJCpoPi8W6",
    ),
    (
        BITCOIN,
        "0014751e76e8199196d454941c45d1b3a323f1433bd6",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
    ),
    (
        BITCOIN,
        "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
        "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
    ),
    (
        BITCOIN,
        "5128751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45d1b3a323f1433bd6",
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
    ),
    (BITCOIN, "6002751e", "bc1sw50qgdz25j"),
    (BITCOIN, "5210751e76e8199196d454941c45d1b3a323", "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs"),
    (
        BITCOIN,
        "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
    ),
    (
        LITECOIN,
        "76a914a5f4d12ce3685781b227c1f39548ddef429e978388ac",
        "LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz",
    ),
    (
        LITECOIN,
        "a914b48297bff5dadecc5f36145cec6a5f20d57c8f9b87",
        "MQMcJhpWHYVeQArcZR3sBgyPZxxRtnH441",
    ),
    (
        LITECOIN,
        "0014687c150c26af5493befeed7036043812115ca36c",
        "ltc1qdp7p2rpx4a2f80h7a4crvppczgg4egmv5c78w8",
    ),
    (
        DOGECOIN,
        "76a9144620b70031f0e9437e374a2100934fba4911046088ac",
        "DBXu2kgc3xtvCUWFcxFE3r9hEYgmuaaCyD",
    ),
    (
        DOGECOIN,
        "a914f8f5d99a9fc21aa676e74d15e7b8134557615bda87",
        "AF8ekvSf6eiSBRspJjnfzK6d1EM6pnPq3G",
    ),
    (
        SOLANA,
        "8a11e71b96cabbe3216e3153b09694f39fc85022cbc076f79846a3ab4d8c1991",
        "AHy6YZA8BsHgQfVkk7MbwpAN94iyN7Nf1zN4nPqUN32Q",
    ),
    (SOLANA, "00" * 32, "1" * 32),  # the System Program
    (
        CoinType(61),
        "314159265dd8dbb310642f98f50c066173c1259b",
        "0x314159265dD8dbb310642f98f50C066173C1259b",
    ),
]


# -- coin types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number", [0, 2, 3, 60, 61, 501, 0x80000000, 0x80000002, 0x80000000 | 8453, 0xFFFFFFFF]
)
def test_a_supported_coin_type_is_its_number(number: int) -> None:
    """Decimal numbers of the coins we can write, EVM chains (ENSIP-11) and their default."""
    assert parse_coin_type(str(number)) == number


def test_ethereum_has_one_coin_type() -> None:
    """ENSIP-11 leaves chain 1 the number it had: whoever computes 2147483649 means 60."""
    assert parse_coin_type("2147483649") == ETHEREUM


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 60",
        "60 ",
        "+60",
        "-1",
        "6e1",
        "60.0",
        "0x3c",
        "eth",
        "６０",
        "²",
        "1_0",
        "4294967296",
        "9999999999",
        "00000000060",
        "9" * 5000,
    ],
)
def test_what_is_no_coin_type_is_refused(text: str) -> None:
    """Signs, blanks, other digits, hex and numbers of more than 32 bits are no coin type."""
    with pytest.raises(InvalidCoinType, match="decimal number"):
        parse_coin_type(text)


@pytest.mark.parametrize("number", [1, 22, 144, 354, 714, 0x7FFFFFFF])
def test_of_a_coin_we_cannot_write_the_bytes_are_told(number: int) -> None:
    """As 0x and hexadecimal digits, up to a bound that no address in use comes near."""
    coin = parse_coin_type(str(number))
    assert address_text(coin, bytes.fromhex("00a1ff")) == "0x00a1ff"
    assert address_text(coin, b"\1" * 512) == "0x" + "01" * 512
    with pytest.raises(ValueError, match="513 bytes"):
        address_text(coin, b"\1" * 513)


def test_evm_chains_share_one_form() -> None:
    """Ethereum, its classic sister and every chain of ENSIP-11 have the same addresses."""
    raw = bytes.fromhex(CHECKSUMMED[4][2:])
    for coin in (ETHEREUM, CoinType(61), BASE, DEFAULT_EVM):
        assert is_evm(coin)
        assert address_text(coin, raw) == CHECKSUMMED[4]
    assert not any(is_evm(coin) for coin in (BITCOIN, LITECOIN, DOGECOIN, SOLANA))


# -- vectors --------------------------------------------------------------------------------


@pytest.mark.parametrize(("coin", "kept", "written"), KEPT_AND_WRITTEN)
def test_published_addresses_are_written(coin: CoinType, kept: str, written: str) -> None:
    """The bytes that resolvers keep become the text that the standards give for them."""
    assert address_text(coin, bytes.fromhex(kept)) == written


@pytest.mark.parametrize("text", CHECKSUMMED)
def test_checksums_are_those_of_eip_55(text: str) -> None:
    """The standard's examples come out as printed there, and are read in three cases."""
    raw = bytes.fromhex(text[2:])
    assert checksummed(raw) == text
    for spelling in (text, text.lower(), "0x" + text[2:].upper()):
        assert parse_evm_address(spelling) == raw


@pytest.mark.parametrize("text", CHECKSUMMED[4:])
def test_a_wrong_checksum_is_no_address(text: str) -> None:
    """In mixed case a single letter of the wrong case is a typing error, and refused."""
    for at, char in enumerate(text):
        if at > 1 and char.isalpha():
            wrong = text[:at] + char.swapcase() + text[at + 1 :]
            with pytest.raises(ValueError, match="checksum"):
                parse_evm_address(wrong)


@pytest.mark.parametrize(
    "text",
    ["", "0x", CHECKSUMMED[4][2:], CHECKSUMMED[4] + "0", CHECKSUMMED[4] + "\n", "0X" + "1" * 40],
)
def test_other_text_is_no_address(text: str) -> None:
    """An address is `0x` and 40 hex digits, and nothing besides."""
    with pytest.raises(ValueError, match="40 hex digits"):
        parse_evm_address(text)


# -- what cannot be written -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("coin", "kept"),
    [
        (ETHEREUM, "11" * 19),
        (ETHEREUM, "11" * 21),
        (ETHEREUM, "11" * 32),
        (BASE, "11" * 12),
        (SOLANA, "11" * 31),
        (SOLANA, "11" * 33),
        (BITCOIN, "11" * 20),  # a bare hash is no script
        (BITCOIN, "00"),
        (BITCOIN, "76a914" + "11" * 20 + "88ad"),
        (BITCOIN, "76a913" + "11" * 20 + "88ac"),
        (BITCOIN, "a914" + "11" * 20 + "88"),
        (BITCOIN, "a914" + "11" * 21 + "87"),
        (BITCOIN, "0015" + "11" * 21),  # BIP-141: version 0 is 20 or 32 bytes
        (BITCOIN, "0014" + "11" * 19),
        (BITCOIN, "0014" + "11" * 21),
        (BITCOIN, "5101" + "11"),  # a program has 2 bytes at least
        (BITCOIN, "5129" + "11" * 41),  # and 40 at most
        (BITCOIN, "5014" + "11" * 20),  # OP_RESERVED is no version
        (BITCOIN, "6114" + "11" * 20),  # nor is OP_NOP
        (BITCOIN, "6a14" + "11" * 20),  # OP_RETURN pays nobody
        (DOGECOIN, "0014" + "11" * 20),  # Dogecoin has no witness programs
    ],
)
def test_what_pays_to_nobody_is_refused(coin: CoinType, kept: str) -> None:
    """Wrong lengths, opcodes and pushes have no text; ValueError is all that they raise."""
    with pytest.raises(ValueError, match="no address"):
        address_text(coin, bytes.fromhex(kept))


@settings(max_examples=500)
@given(st.sampled_from([0, 2, 3, 60, 501, 0x80000000 | 10]), st.binary(min_size=1, max_size=64))
def test_any_bytes_are_written_or_refused(coin: int, raw: bytes) -> None:
    """Whatever a resolver keeps, the outcome is a plain text or ValueError."""
    try:
        text = address_text(CoinType(coin), raw)
    except ValueError:
        return
    assert text.isascii()
    assert text.isalnum()
