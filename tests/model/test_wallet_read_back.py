"""Wallet addresses, read back by other means: other packages, and arithmetic of another kind."""

from hashlib import sha256

import multiformats.multibase
import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidAddress
from content_gateway.model.wallet import (
    CoinType,
    address_text,
    checksummed,
    parse_address,
    parse_evm_address,
)

BITCOIN, LITECOIN, DOGECOIN, SOLANA = (CoinType(n) for n in (0, 2, 3, 501))


@settings(max_examples=200)
@given(st.binary(min_size=20, max_size=20))
def test_another_implementation_agrees_on_checksums(raw: bytes) -> None:
    """eth-utils writes and reads what we read and write."""
    assert checksummed(raw) == to_checksum_address(raw)
    assert parse_evm_address(to_checksum_address(raw)) == raw


@settings(max_examples=200)
@given(st.binary(min_size=32, max_size=32))
def test_solana_is_base58_of_the_key(raw: bytes) -> None:
    """The `multiformats` package reads the key back."""
    assert multiformats.multibase.decode("z" + address_text(SOLANA, raw)) == raw


@settings(max_examples=200)
@given(
    st.sampled_from([(BITCOIN, 0x00, 0x05), (LITECOIN, 0x30, 0x32), (DOGECOIN, 0x1E, 0x16)]),
    st.booleans(),
    st.binary(min_size=20, max_size=20),
)
def test_base58check_is_version_hash_and_checksum(
    kind: tuple[CoinType, int, int], to_script: bool, hashed: bytes
) -> None:
    """Read back by the `multiformats` package: 25 bytes, of which the last 4 guard the others."""
    coin, pubkey, script = kind
    raw = b"\xa9\x14" + hashed + b"\x87" if to_script else b"\x76\xa9\x14" + hashed + b"\x88\xac"
    data = multiformats.multibase.decode("z" + address_text(coin, raw))
    assert data[:-4] == bytes([script if to_script else pubkey]) + hashed
    assert data[-4:] == sha256(sha256(data[:-4]).digest()).digest()[:4]


LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def residue(text: str) -> int:
    """What long division by BIP-173's polynomial leaves of a string, digit by digit over GF(32).

    Not the packed shifts of the code under test: coefficients, with products by repeated
    doubling modulo x^5 + x^3 + 1, as the standard defines the code."""
    prefix, _, data = text.rpartition("1")
    digits = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    digits += [LETTERS.index(c) for c in data]
    rest = [0, 0, 0, 0, 0, 1]
    for digit in digits:
        top, rest = rest[0], [*rest[1:], digit]
        rest = [r ^ times(top, g) for r, g in zip(rest, (29, 22, 20, 21, 29, 18), strict=True)]
    return int("".join(f"{digit:05b}" for digit in rest), 2)


def times(a: int, b: int) -> int:
    """The product in GF(32)."""
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0b101001 if a & 16 else 0)
        b >>= 1
    return product


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a12uel5l", 1),
        ("abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", 1),
        ("split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w", 1),
        ("a1lqfn3a", 0x2BC830A3),
        ("abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx", 0x2BC830A3),
        ("split1checkupstagehandshakeupstreamerranterredcaperredlc445v", 0x2BC830A3),
    ],
)
def test_the_measure_is_right(text: str, left: int) -> None:
    """The division finds BIP-173's and BIP-350's valid strings valid."""
    assert residue(text) == left


@settings(max_examples=300)
@given(
    st.sampled_from([(BITCOIN, "bc"), (LITECOIN, "ltc")]),
    st.integers(0, 16),
    st.binary(min_size=2, max_size=40),
)
def test_witness_programs_come_back(
    kind: tuple[CoinType, str], version: int, program: bytes
) -> None:
    """Version and program stand in the text, under the checksum that belongs to the version."""
    coin, prefix = kind
    program = program if version else (program * 16)[:32]
    opcode = 0x50 + version if version else 0
    text = address_text(coin, bytes([opcode, len(program)]) + program)
    assert text.startswith(prefix + "1")
    assert residue(text) == (0x2BC830A3 if version else 1)
    digits = [LETTERS.index(char) for char in text.removeprefix(prefix + "1")[:-6]]
    assert digits[0] == version
    bits = "".join(f"{digit:05b}" for digit in digits[1:])
    assert bits[: 8 * len(program)] == "".join(f"{byte:08b}" for byte in program)
    assert set(bits[8 * len(program) :]) <= {"0"}
    assert len(bits) - 8 * len(program) < 5


SCRIPTS = st.one_of(
    st.binary(min_size=20, max_size=20).map(lambda raw: b"\xa9\x14" + raw + b"\x87"),
    st.binary(min_size=20, max_size=20).map(lambda raw: b"\x76\xa9\x14" + raw + b"\x88\xac"),
    st.binary(min_size=32, max_size=32).map(lambda raw: b"\x00\x20" + raw),
    st.binary(min_size=2, max_size=40).map(lambda raw: bytes([0x51, len(raw)]) + raw),
)
KEPT = st.one_of(
    st.tuples(st.sampled_from([BITCOIN, LITECOIN]), SCRIPTS),
    st.tuples(st.just(DOGECOIN), SCRIPTS.filter(lambda raw: raw[0] in (0xA9, 0x76))),
    st.tuples(st.just(SOLANA), st.binary(min_size=32, max_size=32)),
    st.tuples(
        st.sampled_from([CoinType(n) for n in (60, 61, 0x80000000, 0x80000000 | 8453)]),
        st.binary(min_size=20, max_size=20),
    ),
    st.tuples(st.just(CoinType(700)), st.binary(min_size=1, max_size=512)),
)


@settings(max_examples=300)
@given(KEPT)
def test_what_is_written_is_read_back(kept: tuple[CoinType, bytes]) -> None:
    """Every address, of every coin; but on EVM chains also the bytes in hexadecimal digits."""
    coin, raw = kept
    assert parse_address(coin, address_text(coin, raw)) == raw
    assert parse_address(coin, "0x" + raw.hex()) == raw


@settings(max_examples=300)
@given(KEPT.filter(lambda kept: kept[0] != 700), st.integers(0, 100), st.sampled_from("q1zA0"))
def test_a_slip_of_the_pen_is_no_other_address(
    kept: tuple[CoinType, bytes], place: int, letter: str
) -> None:
    """One letter that is another: refused, or (EVM, in one case) what is written now."""
    coin, raw = kept
    text = address_text(coin, raw)
    place %= len(text)
    other = text[:place] + letter + text[place + 1 :]
    try:
        read = parse_address(coin, other)
    except InvalidAddress:
        return
    # Solana's addresses have no checksum; two letters in one are another key.
    assert other in (text, address_text(coin, read), address_text(coin, read).lower())


@settings(max_examples=300)
@given(st.sampled_from([BITCOIN, LITECOIN, DOGECOIN, SOLANA, CoinType(60)]), st.text(max_size=130))
def test_any_text_is_an_address_or_refused(coin: CoinType, text: str) -> None:
    """Whatever is sent."""
    for one in (text, "0x" + text, "bc1" + text, "ltc1" + text):
        try:
            parse_address(coin, one)
        except InvalidAddress as refused:
            assert refused.detail  # noqa: PT017 - most texts are refused, a few are not
