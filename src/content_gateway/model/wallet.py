"""Wallet addresses: the bytes that a name service keeps, as the text that people use.

And back. Knows coin types (SLIP-44; ENSIP-11: an EVM chain's is 0x80000000 | chainId) and how the
addresses of each are kept and written (ENSIP-9, EIP-55, BIP-173, BIP-350)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from operator import xor
from typing import Final, NewType

from content_gateway.codecs.multiformats import BASE58BTC
from content_gateway.errors import InvalidAddress, InvalidCoinType

CoinType = NewType("CoinType", int)

ETHEREUM: Final = CoinType(60)
_ETHEREUM_CLASSIC: Final = 61
_SOLANA: Final = 501
# ENSIP-11. Without a chain id it is ENSIP-19's default address, which serves every EVM chain.
_EVM: Final = 0x80000000
_LARGEST: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Bitcoin:
    """What sets a kin of Bitcoin apart: version bytes, and the prefix of its witness addresses."""

    pubkey_hash: int
    script_hash: int
    witness: str | None = None


# ENSIP-9's table; of Litecoin's two versions of script hash, the one that wallets write today.
_BITCOINS: Final = {
    0: _Bitcoin(0x00, 0x05, "bc"),
    2: _Bitcoin(0x30, 0x32, "ltc"),
    3: _Bitcoin(0x1E, 0x16),
}
MAX_BYTES: Final = 512  # of an address whose form is not known here
_MAX_TEXT: Final = 128  # of an address whose form is
_HEXADECIMAL: Final = re.compile(rf"0x(?:[0-9a-fA-F]{{2}}){{1,{MAX_BYTES}}}")


def parse_coin_type(text: str) -> CoinType:
    """The coin type in *text*, a decimal number; raises InvalidCoinType."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST):
        raise InvalidCoinType(
            f"A coin type is a decimal number up to {_LARGEST} (SLIP-44, ENSIP-11)."
        )
    coin = CoinType(int(text))
    if coin == _EVM | 1:
        return ETHEREUM  # ENSIP-11: Ethereum itself keeps the coin type it had before
    return coin


def is_evm(coin: CoinType) -> bool:
    """True when addresses of *coin* are 20 bytes with an EIP-55 checksum."""
    return coin in (ETHEREUM, _ETHEREUM_CLASSIC) or bool(coin & _EVM)


def address_text(coin: CoinType, raw: bytes) -> str:
    """*raw*, as ENSIP-9 has resolvers keep it, in the text form of *coin*; ValueError if wrong.

    Of a coin whose text form is not known here it is the bytes, as 0x and hexadecimal digits."""
    if is_evm(coin) and len(raw) == 20:
        return checksummed(raw)
    if coin == _SOLANA and len(raw) == 32:
        return BASE58BTC.encode(raw)
    if coin in _BITCOINS:
        return _bitcoin_text(_BITCOINS[coin], raw)
    if not (is_evm(coin) or coin == _SOLANA) and len(raw) <= MAX_BYTES:
        return "0x" + raw.hex()
    raise ValueError(f"{len(raw)} bytes are no address of the coin type {coin}")


def parse_address(coin: CoinType, text: str) -> bytes:
    """The bytes that resolvers keep for the address *text* (ENSIP-9); raises InvalidAddress.

    But on EVM chains those bytes, as 0x and hexadecimal digits, are taken as well."""
    try:
        if is_evm(coin):
            return parse_evm_address(text)
        if text.startswith("0x"):
            if not _HEXADECIMAL.fullmatch(text):
                raise ValueError("it is no 0x and hexadecimal digits")
            raw = bytes.fromhex(text[2:])
            address_text(coin, raw)  # that there is one
            return raw
        raw = _kept_bytes(coin, text)
        # Whoever reads a text leniently finds out here: checksum, padding, network.
        if address_text(coin, raw) not in (text, text.lower()):
            raise ValueError("its checksum is wrong")
    except ValueError as wrong:
        raise InvalidAddress(f"No address of the coin type {coin}: {wrong}.") from wrong
    return raw


def _kept_bytes(coin: CoinType, text: str) -> bytes:
    """The bytes behind *text*, whose checksum is not looked at; ValueError."""
    if len(text) > _MAX_TEXT:
        raise ValueError("it is too long")
    if coin == _SOLANA:
        return BASE58BTC.decode(text)
    if coin in _BITCOINS:
        return _bitcoin_script(_BITCOINS[coin], text)
    raise ValueError("its text form is not known here, only 0x and hexadecimal digits")


# -- EVM chains -----------------------------------------------------------------------------

_EVM_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")


def checksummed(address: bytes) -> str:
    """*address* (20 bytes) as text with its EIP-55 checksum."""
    from Crypto.Hash import keccak  # noqa: PLC0415 - 60 ms to import; a cached name needs none

    text = address.hex()
    digest = keccak.new(digest_bits=256, data=text.encode()).hexdigest()
    return "0x" + "".join(
        char.upper() if int(nibble, 16) >= 8 else char
        for char, nibble in zip(text, digest, strict=False)
    )


def parse_evm_address(text: str) -> bytes:
    """The 20 bytes behind `0x` and 40 hex digits; ValueError if that is not what *text* is.

    Digits of one case carry no checksum (EIP-55); in mixed case it must be right."""
    if not _EVM_ADDRESS.fullmatch(text):
        raise ValueError("an address is 0x and 40 hex digits")
    digits, address = text[2:], bytes.fromhex(text[2:])
    if digits not in (digits.lower(), digits.upper()) and text != checksummed(address):
        raise ValueError("the checksum of the address is wrong (EIP-55)")
    return address


# -- Bitcoin and its kin --------------------------------------------------------------------


def _bitcoin_text(kind: _Bitcoin, script: bytes) -> str:
    """The address that pays to *script*, a scriptPubkey; ValueError if none does."""
    # DUP HASH160 <20> EQUALVERIFY CHECKSIG, and HASH160 <20> EQUAL.
    if len(script) == 25 and script[:3] == b"\x76\xa9\x14" and script[23:] == b"\x88\xac":
        return _base58check(kind.pubkey_hash, script[3:23])
    if len(script) == 23 and script[:2] == b"\xa9\x14" and script[22:] == b"\x87":
        return _base58check(kind.script_hash, script[2:22])
    if kind.witness is not None:
        return _witness_text(kind.witness, script)
    raise ValueError("the script pays to no address")


def _bitcoin_script(kind: _Bitcoin, text: str) -> bytes:
    """The scriptPubkey that the address *text* means, if its checksum is right; ValueError."""
    lowered = text.lower()
    if kind.witness is not None and lowered.startswith(kind.witness + "1"):
        if text not in (lowered, text.upper()):
            raise ValueError("it mixes upper and lower case (BIP-173)")
        values = [_bech32_value(char) for char in lowered[len(kind.witness) + 1 : -6]]
        if not values:
            raise ValueError("it is cut short")
        program = _eights(values[1:])
        return bytes((0x50 + values[0] if values[0] else 0, len(program))) + program
    data = BASE58BTC.decode(text)
    if len(data) == 25 and data[0] == kind.pubkey_hash:
        return b"\x76\xa9\x14" + data[1:21] + b"\x88\xac"
    if len(data) == 25 and data[0] == kind.script_hash:
        return b"\xa9\x14" + data[1:21] + b"\x87"
    raise ValueError("it is of another network, or cut short")


def _base58check(version: int, payload: bytes) -> str:
    data = bytes((version,)) + payload
    return BASE58BTC.encode(data + sha256(sha256(data).digest()).digest()[:4])


_BECH32_LETTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BECH32, _BECH32M = 1, 0x2BC830A3  # what a right checksum leaves: BIP-173, BIP-350
_GENERATORS: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
# What a digit shifted out at the top does to the 30 bits that stay.
_OVERFLOW: Final = [
    reduce(xor, (word for bit, word in enumerate(_GENERATORS) if top >> bit & 1), 0)
    for top in range(32)
]
# OP_0 is 0x00, OP_1 to OP_16 are 0x51 to 0x60.
_VERSIONS: Final = {bytes((0x50 + n if n else 0,)): n for n in range(17)}


def _witness_text(prefix: str, script: bytes) -> str:
    """The address of a witness program: a version opcode, and one push of the program."""
    version, program = _VERSIONS.get(script[:1]), script[2:]
    # BIP-141: 2 to 40 bytes, and version 0 has two lengths only.
    lengths = range(2, 41) if version else (20, 32)
    if version is None or len(program) not in lengths or script[1] != len(program):
        raise ValueError("the script pays to no address")
    return _bech32(prefix, [version, *_fives(program)], _BECH32M if version else _BECH32)


def _fives(data: bytes) -> Iterator[int]:
    """*data* in groups of five bits, the last one filled up with zeros."""
    count = -(-len(data) * 8 // 5)
    number = int.from_bytes(data, "big") << (count * 5 - len(data) * 8)
    return (number >> shift & 31 for shift in range((count - 1) * 5, -1, -5))


def _eights(values: list[int]) -> bytes:
    """The whole bytes in *values*, which are digits of five bits."""
    number = reduce(lambda before, value: before << 5 | value, values, 0)
    count = len(values) * 5 // 8
    return (number >> (len(values) * 5 - count * 8)).to_bytes(count, "big")


def _bech32_value(char: str) -> int:
    """The five bits that *char* stands for; ValueError."""
    value = _BECH32_LETTERS.find(char)
    if value < 0:
        raise ValueError(f"{char!r} is not a letter of this base")
    return value


def _bech32(prefix: str, values: list[int], residue: int) -> str:
    spread = [ord(char) >> 5 for char in prefix] + [0] + [ord(char) & 31 for char in prefix]
    checksum = _remainder([*spread, *values, 0, 0, 0, 0, 0, 0]) ^ residue
    sealed = values + [checksum >> shift & 31 for shift in range(25, -1, -5)]
    return prefix + "1" + "".join(_BECH32_LETTERS[value] for value in sealed)


def _remainder(values: Iterable[int]) -> int:
    """What BIP-173's polynomial leaves of *values*, which are digits of five bits."""
    rest = 1
    for value in values:
        rest = (rest & 0x1FFFFFF) << 5 ^ value ^ _OVERFLOW[rest >> 25]
    return rest
