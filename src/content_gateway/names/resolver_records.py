"""The records of a name as its resolver has them: address and content, and the answer they make.

Knows what the resolver profiles `addr` (EIP-137, ENSIP-9) and `contenthash` (ENSIP-7) return, and
when the owner of a name stands in for its address. Shared by ENS and by what is of its shape;
asking is left to them, other records to more_records.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from content_gateway.codecs import abi
from content_gateway.errors import ResolverFailed
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import (
    ContentRecord,
    Failed,
    MoreRecords,
    OtherContent,
    Records,
)
from content_gateway.model.wallet import ETHEREUM, CoinType, address_text
from content_gateway.names import contenthash
from content_gateway.names.more_records import Element, read_record

CONTENTHASH: Final = bytes.fromhex("bc1c58d1")  # contenthash(bytes32)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Said:
    """What a name's resolver returned to each call; its address, where that is known."""

    elements: Sequence[Element]
    resolver: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """What became of a name's address record.

    *is_zero* says that the record was read and holds nobody's address. Only then may the owner's
    stand in: people send money there, and a record that failed is not one that is unset."""

    text: str | Failed | None
    is_zero: bool = False


def records_of(
    address: Address,
    content: ContentRecord | Failed | None,
    owner: str | Failed | None,
    beside: MoreRecords | None = None,
) -> Records:
    """The answer of a name with these records; raises as Records.of.

    The *owner* stands in for an address that is unset, where there is content."""
    if not address.is_zero or content is None or isinstance(content, Failed):
        return Records.of(address.text, content, beside=beside)
    return Records.of(owner, content, by_owner=isinstance(owner, str), beside=beside)


def more_of(
    more: Sequence[RecordKey],
    elements: Mapping[RecordKey, Element],
    said: Said,
    address: Address,
    coin: CoinType,
) -> MoreRecords | None:
    """The records *more*: the *address* for *coin*, and the others from their *elements*."""
    if not more:
        return None
    values = [
        (key.text, address.text if key.coin == coin else read_record(key, elements[key]))
        for key in more
    ]
    return MoreRecords(tuple(values), said.resolver)


def read_address(element: Element, coin: CoinType) -> Address:
    """The address in what `addr` returned."""
    if isinstance(element, Failed):
        return Address(element)
    if not element:
        return Address(None)
    try:
        raw = abi.read_address(element) if coin == ETHEREUM else abi.read_bytes(element)
        return Address(address_text(coin, raw)) if any(raw) else Address(None, is_zero=True)
    except ValueError as wrong:
        return Address(Failed(ResolverFailed, f"The name's resolver gave no address: {wrong}."))


def read_content(element: Element) -> ContentRecord | Failed | None:
    """The content record in what `contenthash` returned, None where it is unset.

    A contenthash that nobody can read is content of an unreadable kind: its owner wrote it so,
    and nothing failed. An empty element is a resolver of the days before contenthash."""
    raw = read_bytes(element, "contenthash")
    if isinstance(raw, Failed):
        return raw
    try:
        return contenthash.decode(raw)
    except ValueError as wrong:
        log.info("unreadable contenthash", reason=str(wrong))
        return OtherContent("unreadable", raw[: contenthash.MAX_BYTES].hex())


def read_bytes(element: Element, what: str) -> bytes | Failed:
    """The bytes in what a resolver returned, empty where they are unset; *what* they are."""
    if isinstance(element, Failed):
        return element
    try:
        return abi.read_bytes(element) if element else b""
    except ValueError as wrong:
        return Failed(ResolverFailed, f"The name's resolver gave no {what}: {wrong}.")
