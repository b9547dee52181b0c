"""More records of an ENS name: texts, and addresses on other chains, beside wallet and content.

Knows the resolver profiles `text` and `addr`, and what an element of the multicall says of such a
record (ENSIP-23): a value, nothing, or that it failed. Sending the calls is left to ens.py."""

from typing import Final

from content_gateway.codecs import abi
from content_gateway.errors import ResolverFailed
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import TOO_LARGE, Failed
from content_gateway.model.wallet import ETHEREUM, CoinType, address_text

_ADDR: Final = bytes.fromhex("3b3b57de")  # addr(bytes32)
_ADDR_OF_COIN: Final = bytes.fromhex("f1cb7e06")  # addr(bytes32,uint256)
_TEXT: Final = bytes.fromhex("59d1d43c")  # text(bytes32,string)
MAX_TEXT_BYTES: Final = 8 * 1024  # of one value; an avatar may be a data URL

SILENT: Final = Failed(ResolverFailed, "The name's resolver said nothing.")
# One record's return data; empty where the resolver said nothing at all, None where it says that it
# has no such record.
Element = bytes | Failed | None


def address_call(node: bytes, coin: CoinType) -> bytes:
    """The call for the address of *node*."""
    # addr(node) is older than addr(node, coin), and there are resolvers that know only that.
    return _ADDR + node if coin == ETHEREUM else coin_call(node, coin)


def coin_call(node: bytes, coin: CoinType) -> bytes:
    """The call for the address of *node* that is kept under the number of the *coin* (ENSIP-9)."""
    return _ADDR_OF_COIN + node + abi.uint(coin)


def record_call(node: bytes, key: RecordKey) -> bytes:
    """The call for the record *key* of *node*."""
    if key.coin is not None:
        return address_call(node, key.coin)
    return _TEXT + node + abi.uint(2 * abi.WORD) + abi.tail(key.text_key.encode())


def read_record(key: RecordKey, element: Element) -> str | Failed | None:
    """The record in *element*, None where it is unset or the resolver has no such function."""
    if isinstance(element, Failed):
        return element
    if not element:
        # `addr` is what every resolver has: whoever fails without a word does not say that it is
        # unset. Other functions are missing in many.
        is_silent = key.coin == ETHEREUM and element is not None
        return SILENT if is_silent else None
    try:
        return read_text(element) if key.coin is None else _address(key.coin, element)
    except ValueError as wrong:
        return Failed(ResolverFailed, f"The name's resolver gave no such record: {wrong}.")


def read_text(element: bytes) -> str | Failed | None:
    """The text that `text` returned; ValueError if it is none."""
    raw = abi.read_bytes(element)
    if len(raw) > MAX_TEXT_BYTES:
        return TOO_LARGE
    try:
        return raw.decode() or None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _address(coin: CoinType, element: bytes) -> str | None:
    raw = abi.read_address(element) if coin == ETHEREUM else abi.read_bytes(element)
    return address_text(coin, raw) if any(raw) else None
