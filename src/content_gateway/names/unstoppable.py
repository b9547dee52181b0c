"""Unstoppable Domains: wallet and content of a name, one `eth_call` on each chain at once.

Knows UNS's ProxyReader, its record keys, and which of several chains holds a name. Reaching the
chains is left to the EthereumCalls it is given; caching to the directory."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.concurrency.gather import both, each_of
from content_gateway.errors import (
    AnswerTooLarge,
    InvalidCid,
    InvalidCoinType,
    InvalidIpnsName,
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import (
    TOO_LARGE,
    ContentRecord,
    Failed,
    IpfsContent,
    IpnsContent,
    MoreRecords,
    OtherContent,
    Records,
)
from content_gateway.model.wallet import ETHEREUM, CoinType, checksummed, parse_evm_address
from content_gateway.names.ethereum_calls import EthereumCalls
from content_gateway.names.more_records import MAX_TEXT_BYTES
from content_gateway.names.resolver_records import Address, records_of

WALLET_KEYS: Final = (
    "token.EVM.ETH.ETH.address",
    "token.EVM.ETH.address",
    "token.EVM.address",
    "crypto.ETH.address",
)
CONTENT_KEYS: Final = ("dweb.ipfs.hash", "ipfs.html.value")
MAX_VALUE_BYTES: Final = 2048
MAX_UNREADABLE_TEXT: Final = 200

_GET_DATA: Final = bytes.fromhex("91015f6b")  # getData(string[],uint256)
KEYS: Final = (*WALLET_KEYS, *CONTENT_KEYS)
# Owners that are nobody's wallet, so that what is sent there is lost: the address that stands for
# "burnt", and the bridge that keeps Ethereum's token of a name that lives on Polygon.
_NOT_WALLETS: Final = (
    bytes.fromhex("000000000000000000000000000000000000dead"),
    bytes.fromhex("932532aa4c0174b8453839a6e44ee09cc615f2b7"),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chain:
    """One chain that Unstoppable Domains are on, and the contract there that reads them."""

    name: str
    ethereum: EthereumCalls
    proxy_reader: str


_NOBODY: Final = Address(None)
_ALONE_AT_ONCE: Final = 4  # records that are asked for one by one, on each chain
_OTHER_COIN: Final = Failed(
    ResolverFailed, "Of Unstoppable Domains only Ethereum addresses are read."
)


@dataclass(frozen=True, slots=True)
class TokenRecords:
    """What one chain holds of a name; nothing, where *owner* (20 bytes) is None.

    *texts* are the records that were asked for beside the address and the content, by their keys;
    *resolver* (20 bytes) is the contract that has them."""

    owner: bytes | None = None
    address: Address = _NOBODY
    content: ContentRecord | Failed | None = None
    texts: Mapping[str, str | Failed | None] = field(default_factory=dict)
    resolver: bytes = b""


class UnstoppableNames:
    """The name service behind the *tlds*, on *chains*: the first that holds a name has it."""

    kind = "unstoppable"

    def __init__(self, chains: Sequence[Chain], tlds: Collection[str]) -> None:
        self._chains = tuple(chains)
        self._tlds = frozenset(tlds)

    def covers(self, name: DomainName) -> bool:
        """True when *name* has one of their endings."""
        return name.labels[-1] in self._tlds

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """What *name* points at, according to Unstoppable Domains; only Ethereum's *coin* is read.
        A text of *more* is the record of that key.

        One round trip, on all chains at once, and a second where the records are too large
        together. Raises UpstreamError when a chain that might hold it could not be asked."""
        if coin != ETHEREUM:
            raise InvalidCoinType("Of Unstoppable Domains only Ethereum addresses are read.")
        if not self._chains:
            raise UpstreamUnavailable("No chain of Unstoppable Domains is configured.")
        texts = [key.text_key for key in more if key.coin is None]
        holding = await self._first_holding(name.namehash, texts)
        return _records(holding, _more_of(more, holding))

    async def _first_holding(self, node: bytes, texts: Sequence[str]) -> TokenRecords:
        """What the first chain that holds the name says; raises as resolve does.

        The answers are taken in the chains' order, whichever comes first: only absence lets the
        search go on. Once it is over, calls that are still under way are ended."""
        calls = [asyncio.create_task(_ask(chain, node, texts)) for chain in self._chains]
        try:
            for call in calls:
                holding = await call
                if holding.owner is not None:
                    return holding
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        raise NameNotFound("No chain of Unstoppable Domains holds the name.")


async def _ask(chain: Chain, node: bytes, texts: Sequence[str]) -> TokenRecords:
    """What *chain* holds; raises UpstreamError."""
    try:
        return await _ask_all(chain, node, texts)
    except Reverted as revert:
        log.warning("the ProxyReader reverted", chain=chain.name, reason=str(revert))
        raise InvalidUpstreamResponse("Unstoppable Domains refused the call.") from revert
    except UpstreamError as failed:
        log.warning("a chain could not be asked", chain=chain.name, reason=failed.detail)
        raise


async def _ask_all(chain: Chain, node: bytes, texts: Sequence[str]) -> TokenRecords:
    try:
        return await _ask_for(chain, node, list(dict.fromkeys((*KEYS, *texts))))
    except AnswerTooLarge as large:
        log.info("the records are too large together", chain=chain.name, reason=large.detail)
    # A name's owner can write whatever fits in a block: one record must not hide the other.
    of_wallet, of_content = await both(
        _ask_if_small(chain, node, WALLET_KEYS), _ask_if_small(chain, node, CONTENT_KEYS)
    )
    holding = of_wallet or of_content
    if holding is None:
        raise TOO_LARGE.error()
    if holding.owner is None:
        return holding
    alone = await each_of(
        lambda key: _ask_if_small(chain, node, [key]), texts, at_once=_ALONE_AT_ONCE
    )
    return replace(
        holding,
        address=of_wallet.address if of_wallet else Address(TOO_LARGE),
        content=of_content.content if of_content else TOO_LARGE,
        texts={
            key: TOO_LARGE if one is None else one.texts.get(key)
            for key, one in zip(texts, alone, strict=True)
        },
    )


async def _ask_if_small(chain: Chain, node: bytes, keys: Sequence[str]) -> TokenRecords | None:
    """As _ask_for; None where the records are too large."""
    try:
        return await _ask_for(chain, node, keys)
    except AnswerTooLarge:
        return None


async def _ask_for(chain: Chain, node: bytes, keys: Sequence[str]) -> TokenRecords:
    """What *chain* holds under *keys*; raises Reverted and UpstreamError."""
    return await chain.ethereum.call(
        chain.proxy_reader, encode_query(node, keys), lambda returned: read_answer(returned, keys)
    )


def _more_of(more: Sequence[RecordKey], holding: TokenRecords) -> MoreRecords | None:
    """The records *more*: texts, and the address that is Ethereum's."""
    if not more:
        return None
    values: list[tuple[str, str | Failed | None]] = []
    for key in more:
        if key.coin is None:
            values.append((key.text, holding.texts.get(key.text_key)))
        else:
            values.append((key.text, holding.address.text if key.coin == ETHEREUM else _OTHER_COIN))
    resolver = checksummed(holding.resolver) if any(holding.resolver) else None
    return MoreRecords(tuple(values), resolver)


def _records(holding: TokenRecords, beside: MoreRecords | None = None) -> Records:
    """The answer; raises as Records.of."""
    owner = holding.owner
    stand_in = checksummed(owner) if owner and owner not in _NOT_WALLETS else None
    return records_of(holding.address, holding.content, stand_in, beside)


# -- what is sent, and what comes back ------------------------------------------------------


def encode_query(node: bytes, keys: Sequence[str] = KEYS) -> bytes:
    """The call data: `getData(keys, node)`."""
    names = abi.bytes_array_tail([key.encode() for key in keys])
    return _GET_DATA + abi.uint(2 * abi.WORD) + node + names


def read_answer(returned: bytes, keys: Sequence[str] = KEYS) -> TokenRecords:
    """What `getData` returned: `(address resolver, address owner, string[])`, a text for each key.

    ValueError for what the ProxyReader cannot have said. What the name's owner wrote is never
    an error: an unreadable wallet has failed, unreadable content is a value of that kind."""
    resolver = abi.read_address(returned)
    owner = abi.read_address(returned, abi.WORD)
    values = abi.read_bytes_array(returned, 2 * abi.WORD)
    if len(values) != len(keys):
        raise ValueError(f"{len(keys)} records were asked for, {len(values)} came")
    if not any(owner):
        return TokenRecords()
    texts = dict(zip(keys, values, strict=True))
    return TokenRecords(
        owner,
        _wallet([texts.get(key, b"") for key in WALLET_KEYS]),
        next((_content(texts[key]) for key in CONTENT_KEYS if texts.get(key)), None),
        {key: _text(value) for key, value in texts.items()},
        resolver,
    )


def _text(value: bytes) -> str | Failed | None:
    """The text in a record, None where it is unset."""
    if len(value) > MAX_TEXT_BYTES:
        return TOO_LARGE
    try:
        return value.decode() or None
    except UnicodeDecodeError:
        return Failed(ResolverFailed, "The name's record is not UTF-8.")


def _wallet(values: Sequence[bytes]) -> Address:
    """The first address in *values*; the zero address is unset."""
    is_unreadable = False
    for value in filter(None, values):
        try:
            address = parse_evm_address(value.decode("ascii"))
        except ValueError:
            is_unreadable = True
            log.info("unreadable wallet record", length=len(value))
            continue
        if any(address):
            return Address(checksummed(address))
    if is_unreadable:
        # It was meant for somebody, and who knows whether for the owner: people send money there.
        return Address(Failed(ResolverFailed, "The name's wallet record is not an address."))
    return Address(None, is_zero=True)


def _content(value: bytes) -> ContentRecord:
    """The content in a record that is set."""
    try:
        if len(value) > MAX_VALUE_BYTES:
            raise ValueError(f"a record has {MAX_VALUE_BYTES} bytes at most, this one {len(value)}")
        return _parse_content(value.decode())
    except (ValueError, InvalidCid, InvalidIpnsName) as wrong:
        # The owner wrote it; it is a fact about the name, not a failure of the chain.
        log.info("unreadable content record", reason=str(wrong))
        text = value[: 4 * MAX_UNREADABLE_TEXT].decode(errors="replace")
        return OtherContent("unreadable", text[:MAX_UNREADABLE_TEXT])


def _parse_content(text: str) -> ContentRecord:
    """The content that *text* names: a CID or an IPNS key in any spelling, bare or as a path.

    Raises InvalidCid or InvalidIpnsName. A domain (DNSLink) is meant only where IPNS is said."""
    if text.startswith(("ipns://", "/ipns/")):
        return IpnsContent(IpnsName.parse(text))
    bare = text.removeprefix("ipfs://").removeprefix("/ipfs/")
    try:
        return IpfsContent(Cid.parse(bare))
    except InvalidCid:
        if "." in bare or "/" in bare:
            raise
        return IpnsContent(IpnsName.parse(bare))
