"""ENS: wallet and content of a name in one `eth_call` to the Universal Resolver.

Knows the resolver profiles `addr` and `contenthash`, what each error of the Universal Resolver
means (ENSIP-23) and who owns a name that has no address. Reaching a node, off-chain gateways
included, is left to the EthereumCalls it is given; caching and choice of service to the
directory."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import structlog

from content_gateway.content.domain import DomainName
from content_gateway.content.records import ContentRecord, OtherContent, Records
from content_gateway.content.wallet import ETHEREUM, CoinType, address_text
from content_gateway.errors import (
    GatewayError,
    NameNotFound,
    UpstreamNonsense,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum import abi, http_error
from content_gateway.ethereum.abi import Reverted
from content_gateway.names import contenthash

_RESOLVE: Final = bytes.fromhex("9061b923")  # resolve(bytes,bytes)
_MULTICALL: Final = bytes.fromhex("ac9650d8")  # multicall(bytes[])
_ADDR: Final = bytes.fromhex("3b3b57de")  # addr(bytes32)
_ADDR_OF_COIN: Final = bytes.fromhex("f1cb7e06")  # addr(bytes32,uint256)
CONTENTHASH: Final = bytes.fromhex("bc1c58d1")  # contenthash(bytes32)
OWNER: Final = bytes.fromhex("02571be3")  # owner(bytes32)
_OWNER_OF: Final = bytes.fromhex("6352211e")  # ownerOf(uint256)

_RESOLVER_NOT_FOUND: Final = bytes.fromhex("77209fe8")
_RESOLVER_NOT_CONTRACT: Final = bytes.fromhex("1e9535f2")
_UNSUPPORTED_PROFILE: Final = bytes.fromhex("7b1c461b")
_RESOLVER_ERROR: Final = bytes.fromhex("95c0c752")
_DNS_DECODING_FAILED: Final = bytes.fromhex("ba4adc23")
_ERROR: Final = bytes.fromhex("08c379a0")  # Error(string)

# What a refusal means, by its selector: the error, and the words for whoever asked.
_MEANINGS: Final[dict[bytes, tuple[type[GatewayError], str]]] = {
    _RESOLVER_NOT_FOUND: (NameNotFound, "No such name is registered, or it has no resolver."),
    _RESOLVER_NOT_CONTRACT: (NameNotFound, "The name's resolver is not a contract."),
    _UNSUPPORTED_PROFILE: (NameNotFound, "The name's resolver holds no such records."),
    _DNS_DECODING_FAILED: (UpstreamNonsense, "ENS could not read the name."),
    abi.OFFCHAIN_LOOKUP: (UpstreamUnavailable, "The name is held off-chain, out of reach."),
    _ERROR: (UpstreamNonsense, "The name's resolver failed."),
}

log = structlog.get_logger(__name__)
T = TypeVar("T")


class EthereumCalls(Protocol):
    """Reads of one chain."""

    async def call(self, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
        """What *read* makes of the contract's answer, which is never empty.

        *read* raises ValueError for what cannot be right: then another endpoint is asked. Raises
        Reverted when the contract refuses, UpstreamError when nobody gave a good answer."""


class EnsNames:
    """The name service behind every dotted name."""

    def __init__(
        self,
        ethereum: EthereumCalls,
        *,
        universal_resolver: str,
        registry: str,
        name_wrapper: str = "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401",
    ) -> None:
        self._ethereum = ethereum
        self._universal_resolver = universal_resolver
        self._registry = registry
        self._name_wrapper = name_wrapper

    def covers(self, name: DomainName) -> bool:
        """True: names of DNS are in ENS too, so every dotted name may be."""
        return True

    async def resolve(self, name: DomainName, coin: CoinType = ETHEREUM) -> Records:
        """What *name* points at, according to ENS; the wallet is its address for *coin*.

        One call, and a second round trip only for a name that has content and no Ethereum
        address; other coins never fall back (ENSIP-19). Raises NameNotFound when no resolver or
        no record exists, UpstreamError when we could not find out. Never returns a guess."""
        node = name.namehash
        address, content_hash = await self._ask(name, address_call(node, coin), CONTENTHASH + node)
        wallet, content = read_address(address, coin), read_content(content_hash)
        if wallet is None and content is None:
            raise NameNotFound("The name has neither such an address nor content.")
        if wallet is not None or coin != ETHEREUM:
            return Records(wallet, content)
        owner = await self._owner(node)
        return Records(owner, content, owner is not None)

    async def address(self, name: DomainName, coin: CoinType) -> str | None:
        """The address of *name* for *coin*, None if it has none; raises UpstreamError."""
        try:
            (address,) = await self._ask(name, address_call(name.namehash, coin))
        except NameNotFound:
            return None
        return read_address(address, coin)

    async def _ask(self, name: DomainName, *calls: bytes) -> list[bytes]:
        """What the resolver of *name* returns to each of the *calls*; empty where it knows no such
        record. Raises NameNotFound and UpstreamError."""
        query = encode_query(name, *calls)
        try:
            elements = await self._ethereum.call(
                self._universal_resolver,
                query,
                lambda returned: read_elements(returned, len(calls)),
            )
        except Reverted as revert:
            raise read_refusal(revert.data) from revert
        return [read_element(element) for element in elements]

    async def _owner(self, node: bytes) -> str | None:
        """The account that owns the node, seen through the NameWrapper; None if nobody does."""
        # Both at once: most names are wrapped, and the second answer costs no second wait.
        registered, wrapped = await asyncio.gather(
            self._account(self._registry, OWNER + node),
            self._account(self._name_wrapper, _OWNER_OF + node),
            return_exceptions=True,
        )
        owner = registered
        if isinstance(owner, str) and owner.lower() == self._name_wrapper.lower():
            owner = wrapped
        if isinstance(owner, BaseException):
            raise owner
        return owner

    async def _account(self, contract: str, query: bytes) -> str | None:
        try:
            account = await self._ethereum.call(contract, query, abi.read_address)
        except Reverted:
            return None  # an expired wrapped name has no owner
        return address_text(ETHEREUM, account) if any(account) else None


def address_call(node: bytes, coin: CoinType) -> bytes:
    """The call for the address of *node*."""
    # addr(node) is older than addr(node, coin), and there are resolvers that know only that.
    return _ADDR + node if coin == ETHEREUM else _ADDR_OF_COIN + node + abi.uint(coin)


def encode_query(name: DomainName, *calls: bytes) -> bytes:
    """The call data: `resolve(name, multicall(calls))`."""
    multicall = _MULTICALL + abi.encode_bytes_array(calls)
    return _RESOLVE + abi.encode_bytes(name.wire, multicall)


def read_elements(returned: bytes, count: int) -> list[bytes]:
    """The *count* results of the multicall that `resolve` returned; ValueError for others."""
    elements = abi.read_bytes_array(abi.read_bytes(returned))
    if len(elements) != count:
        raise ValueError(f"{count} records were asked for, {len(elements)} came")
    return elements


def read_element(element: bytes) -> bytes:
    """One record's return data, empty when the resolver does not know such records.

    Raises UpstreamNonsense when the resolver failed, UpstreamUnavailable when an off-chain gateway
    did so behind it."""
    # ENSIP-23: an element whose length is not a whole number of words is an error.
    if not element or len(element) % abi.WORD == 0:
        return element
    refusal = read_refusal(element)
    if isinstance(refusal, NameNotFound):
        return b""
    raise refusal


def read_address(record: bytes, coin: CoinType) -> str | None:
    """The address in the return data of `addr`, None where it is unset.

    Raises UpstreamNonsense for what a sound resolver cannot have said."""
    try:
        if not record:
            return None
        raw = abi.read_address(record) if coin == ETHEREUM else abi.read_bytes(record)
        return address_text(coin, raw) if any(raw) else None
    except ValueError as wrong:
        raise UpstreamNonsense(f"The name's resolver gave no address: {wrong}.") from wrong


def read_content(record: bytes) -> ContentRecord | None:
    """The content record in the return data of `contenthash`, None where it is unset.

    A contenthash that nobody can read is content of an unreadable kind: its owner wrote it so,
    and ENS did not fail. Raises UpstreamNonsense for what is not return data."""
    try:
        raw = abi.read_bytes(record) if record else b""
    except ValueError as wrong:
        raise UpstreamNonsense(f"The name's resolver gave no contenthash: {wrong}.") from wrong
    try:
        return contenthash.decode(raw)
    except ValueError as wrong:
        log.info("unreadable contenthash", reason=str(wrong))
        return OtherContent("unreadable", raw[: contenthash.MAX_BYTES].hex())


def read_refusal(data: bytes) -> GatewayError:
    """What the revert *data* of the Universal Resolver, or of a resolver behind it, means:
    absence (NameNotFound), a failed server (UpstreamUnavailable) or nonsense."""
    selector = data[:4]
    if selector == http_error.SELECTOR:
        return _gateway_failure(data)
    if selector == _RESOLVER_ERROR:
        return _resolver_failure(data)
    unknown = (UpstreamNonsense, f"ENS refused with the unknown error 0x{selector.hex()}.")
    error, words = _MEANINGS.get(selector, unknown)
    return error(words)


def _gateway_failure(data: bytes) -> GatewayError:
    status = http_error.read_status(data)
    if http_error.is_refusal(status):
        return UpstreamNonsense(f"The name's off-chain gateway answered {status}.")
    if status == 504:
        return UpstreamTimeout("The name's off-chain gateway did not answer in time.")
    return UpstreamUnavailable("The name's off-chain gateway failed.")


def _resolver_failure(data: bytes) -> GatewayError:
    """ResolverError(bytes): the resolver's own revert, wrapped."""
    try:
        inner = abi.read_bytes(data, 4, 4)
    except ValueError:
        inner = b""
    if inner[:4] in (_UNSUPPORTED_PROFILE, http_error.SELECTOR):
        return read_refusal(inner)
    return UpstreamNonsense("The name's resolver failed.")
