"""What spoilt answers say: JSON, JSON-RPC, ABI and the records in them, without any code of ours.

Follows the standards word by word, with Python's own json; `says_the_same` asks eth-abi for a
second opinion; content is read in contents.py. Raises Unreadable where the bytes say nothing, so
that no answer may come of them; a contract that refuses (Refused) has said something."""

import json
import re
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from content_gateway.ethereum.endpoint import MAX_ANSWER_BYTES
from tests.fakes.ethereum import keccak256, selector
from tests.mutations.contents import BASE58, Unreadable, content_of, in_base

_HEX: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
ABSENT: Final = {
    selector("ResolverNotFound(bytes)"),
    selector("ResolverNotContract(bytes,address)"),
    selector("UnsupportedResolverProfile(bytes4)"),
    selector("ResolverFunctionNotSupported()"),
    selector("NotImplemented()"),
    selector("CouldNotResolve(bytes)"),
}
RESOLVER_ERROR: Final = selector("ResolverError(bytes)")
HTTP_ERROR: Final = selector("HttpError(uint16,string)")
LOOKUP: Final = selector("OffchainLookup(address,string[],bytes,bytes4,bytes)")


class Mark(Enum):
    """What a record can be but a value."""

    ZERO = "it was read, and is unset"
    NONE = "there is no such record"
    EMPTY = "nothing at all was said"
    FAILED = "it could not be read"


class Refused(Exception):
    """The contract refuses, with *data*."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data[:40].hex())
        self.data = data


class TooLarge(Unreadable):
    """The answer has more bytes than are read."""


@dataclass(frozen=True)
class Said:
    """What a name points at: an address in text; content as (kind, text) with the kinds `ipfs`,
    `ipns` and, for what is not served, the name of its codec. *by_owner*: the wallet is whose
    the name is. *failed*: which of `wallet` and `content` could not be read. Nothing at all is
    absence."""

    wallet: str | None = None
    content: tuple[str, str] | None = None
    by_owner: bool = False
    failed: frozenset[str] = frozenset()

    @property
    def is_absence(self) -> bool:
        """True when there is neither."""
        return self.wallet is None and self.content is None


Wallet = str | Mark
Content = tuple[str, str] | Mark


def both_of(wallet: Wallet, content: Content, *, by_owner: bool = False) -> Said:
    """What two records say together; Unreadable where one failed and nothing is known."""
    failed = {
        name for name, record in (("wallet", wallet), ("content", content)) if record is Mark.FAILED
    }
    known_wallet = None if isinstance(wallet, Mark) else wallet
    known_content = None if isinstance(content, Mark) else content
    if failed and known_wallet is None and known_content is None:
        raise Unreadable("nothing is known, and something failed")
    return Said(known_wallet, known_content, by_owner, frozenset(failed))


# -- JSON -----------------------------------------------------------------------------------


def json_object(body: bytes) -> dict[str, Any]:
    """The object in *body*, by Python's own parser; UTF-8 only, as RFC 8259 has it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 5_000)  # where it ends differs from parser to parser
    try:
        tree = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as wrong:
        raise Unreadable("no JSON") from wrong
    finally:
        sys.setrecursionlimit(limit)
    if not isinstance(tree, dict):
        raise Unreadable("no object")
    return tree


def hex_bytes(value: Any) -> bytes:
    """The bytes in a hexadecimal string: 0x and pairs of digits, nothing else."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise Unreadable("no hexadecimal")
    return bytes.fromhex(value[2:])


def returned(status: int, body: bytes) -> bytes:
    """What an `eth_call` returned; Refused for a revert.

    An error stands for itself, whatever else is in the answer. `id` and `jsonrpc` say nothing:
    one question and one answer share an HTTP exchange."""
    if len(body) > MAX_ANSWER_BYTES:
        raise TooLarge("more than is read")
    if status == 429 or status >= 500:
        raise Unreadable("a failed server")
    answer = json_object(body)
    error = answer.get("error")
    if error is not None:
        raise _error(error)
    data = hex_bytes(answer.get("result"))
    if not data:
        raise Unreadable("no contract there")
    return data


def _error(error: Any) -> Exception:
    if not isinstance(error, dict):
        return Unreadable("an error without form")
    data = error.get("data")
    if isinstance(data, dict):
        data = data.get("data")
    try:
        revert = hex_bytes(data)
    except Unreadable as wrong:
        return wrong
    if not revert and error.get("code") != 3:
        return Unreadable("an error of the node")
    return Refused(revert)


def gateway_data(status: int, body: bytes) -> bytes:
    """What a CCIP-Read gateway answers (EIP-3668)."""
    if not 200 <= status < 300:
        raise Unreadable("a failed gateway")
    return hex_bytes(json_object(body).get("data"))


# -- ABI ------------------------------------------------------------------------------------


class Abi:
    """ABI data read word by word, as Solidity's own decoder does: padding is not looked at."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def word(self, at: int) -> int:
        """The number in the 32 bytes at *at*."""
        if at + 32 > len(self.data):
            raise Unreadable("cut short")
        return int(self.data[at : at + 32].hex(), 16)

    def address(self, at: int = 0) -> bytes:
        """The address at *at*."""
        if self.word(at) >= 1 << 160:
            raise Unreadable("no address")
        return self.data[at + 12 : at + 32]

    def string(self, head: int = 0, base: int = 0) -> bytes:
        """The `bytes` or `string` whose offset is at *head*."""
        start = base + self.word(head)
        end = start + 32 + self.word(start)
        if end > len(self.data):
            raise Unreadable("cut short")
        return self.data[start + 32 : end]

    def strings(self, head: int = 0, base: int = 0) -> list[bytes]:
        """The `bytes[]` or `string[]` whose offset is at *head*."""
        start = base + self.word(head)
        count = self.word(start)
        if count > 1000:
            raise Unreadable("an endless list")
        return [self.string(start + 32 * n, start + 32) for n in range(1, count + 1)]


def elements_of(result: bytes, *, expected: int = 2) -> list[bytes]:
    """What the multicall in the answer of `resolve` returned, element by element."""
    elements = Abi(Abi(result).string()).strings()
    if len(elements) != expected:
        raise Unreadable("another number of records")
    return elements


def says_the_same(result: bytes, elements: list[bytes]) -> bool:
    """False when eth-abi, which is stricter, reads other elements in *result*."""
    try:
        (multicall,) = decode(["bytes"], result)
        return list(decode(["bytes[]"], multicall)[0]) == elements
    except (DecodingError, OverflowError):
        return True


# -- records --------------------------------------------------------------------------------


def checksummed(address: bytes) -> str:
    """EIP-55."""
    digest = keccak256(address.hex().encode()).hex()
    return "0x" + "".join(
        char.upper() if nibble > "7" else char
        for char, nibble in zip(address.hex(), digest, strict=False)
    )


def address_text(coin: int, raw: bytes) -> str | None:
    """What ENSIP-9 has a resolver keep for a chain, in text; None where it is unset."""
    if not any(raw):
        return None
    if coin == 501 and len(raw) == 32:
        return in_base(raw, BASE58)
    if (coin == 60 or coin >= 1 << 31) and len(raw) == 20:
        return checksummed(raw)
    raise Unreadable("no address of that chain")


def refusal(revert: bytes) -> Mark:
    """What it says of a record that the name's resolver reverts: NONE, or FAILED."""
    while revert[:4] == RESOLVER_ERROR:
        try:
            revert = Abi(revert[4:]).string()
        except Unreadable:
            return Mark.FAILED
    return Mark.NONE if revert[:4] in ABSENT else Mark.FAILED


def wallet_of(data: bytes, coin: int, *, in_multicall: bool) -> Wallet:
    """The address in a record; ENSIP-23 has an error in its place where the length is odd."""
    if not data:
        return Mark.EMPTY if in_multicall else Mark.NONE
    if in_multicall and len(data) % 32:
        return refusal(data)
    try:
        raw = Abi(data).address() if coin == 60 else Abi(data).string()
        text = address_text(coin, raw)
    except Unreadable:
        return Mark.FAILED
    return Mark.ZERO if text is None else text


def content_in(data: bytes, *, in_multicall: bool) -> Content:
    """The content in a record; a resolver without contenthash says nothing."""
    if not data:
        return Mark.NONE
    if in_multicall and len(data) % 32:
        return refusal(data)
    try:
        return content_of(Abi(data).string()) or Mark.NONE
    except Unreadable:
        return Mark.FAILED
