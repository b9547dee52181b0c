"""ENS: wallet and content of a name in one `eth_call` to the Universal Resolver.

Knows how each record fails by itself (ENSIP-23) and who owns a name whose address is unset.
Reaching a node, off-chain gateways included, is left to the EthereumCalls it is given; what records
say to resolver_records.py, what a revert means to reverts.py; caching to the directory."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.concurrency.gather import both, each_of
from content_gateway.errors import (
    AnswerTooLarge,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
)
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import (
    TOO_LARGE,
    Failed,
    MoreRecords,
    Records,
)
from content_gateway.model.wallet import ETHEREUM, CoinType, address_text
from content_gateway.names.ethereum_calls import EthereumCalls
from content_gateway.names.more_records import Element, address_call, record_call
from content_gateway.names.registry import OWNER, account
from content_gateway.names.resolver_records import (
    CONTENTHASH,
    Address,
    Said,
    more_of,
    read_address,
    read_content,
    records_of,
)
from content_gateway.names.reverts import read_refusal, read_resolver_error, refused

_RESOLVE: Final = bytes.fromhex("9061b923")  # resolve(bytes,bytes)
_MULTICALL: Final = bytes.fromhex("ac9650d8")  # multicall(bytes[])
_OWNER_OF: Final = bytes.fromhex("6352211e")  # ownerOf(uint256)

_ALONE_AT_ONCE: Final = 4  # calls for records of one name that are asked for one by one

log = structlog.get_logger(__name__)
T = TypeVar("T")


class EnsCalls(EthereumCalls, Protocol):
    """Reads of one chain, with what contracts keep off it."""

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """As EthereumCalls.call; gateways are asked at the expense of *requestor*."""


class EnsNames:
    """The name service behind every dotted name."""

    kind = "ens"

    def __init__(
        self,
        ethereum: EnsCalls,
        *,
        universal_resolver: str,
        registry: str,
        name_wrapper: str = "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401",
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """*require* raises UpstreamError while the Universal Resolver is known to be no good."""
        self._ethereum = ethereum
        self._universal_resolver = universal_resolver
        self._registry = registry
        self._name_wrapper = name_wrapper
        self._require = require

    def covers(self, name: DomainName) -> bool:
        """True: names of DNS are in ENS too, so every dotted name may be."""
        return True

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """What *name* points at, according to ENS; the wallet is its address for *coin*.

        One call, whatever *more* there is, and a second round trip only for a name that has content
        and no Ethereum address, or whose resolver does not say; other coins never fall back
        (ENSIP-19)."""
        self._require()
        node = name.namehash
        keys = [key for key in more if key.coin != coin]
        calls = [address_call(node, coin), CONTENTHASH + node]
        calls += [record_call(node, key) for key in keys]
        said = await self._ask(name, calls, requestor)
        silence, content_hash, *others = said.elements
        address, content = read_address(silence, coin), read_content(content_hash)
        has_content = content is not None and not isinstance(content, Failed)
        owner: str | Failed | None = None
        if coin == ETHEREUM and silence == b"":
            # A function that is missing, INVALID, no gas left, a bare revert: all leave an empty
            # element, and none of them is an address that is unset. Asked alone they differ. For
            # other coins a missing function is common, and no stand-in is given.
            if has_content:
                alone = self.address(name, coin, requestor=requestor)
                address, owner = await both(alone, self._owner(node))
            else:
                address = await self.address(name, coin, requestor=requestor)
        elif coin == ETHEREUM and address.is_zero and has_content:
            owner = await self._owner(node)
        beside = more_of(more, dict(zip(keys, others, strict=True)), said, address, coin)
        return records_of(address, content, owner, beside)

    async def address(self, name: DomainName, coin: CoinType, *, requestor: str = "") -> Address:
        """The address record of *name* for *coin*, asked for alone; it may have failed.

        Raises UpstreamError only while the Universal Resolver is no good."""
        self._require()
        call = address_call(name.namehash, coin)
        element, _ = await self._ask_alone(name, call, requestor)
        return read_address(element, coin)

    async def address_and_more(
        self, name: DomainName, coin: CoinType, more: Sequence[RecordKey], *, requestor: str
    ) -> tuple[Address, MoreRecords | None]:
        """The address record of *name* for *coin* and *more* records, in one call; each may have
        failed. Raises UpstreamError where all have."""
        if not more:
            return await self.address(name, coin, requestor=requestor), None
        self._require()
        node, keys = name.namehash, [key for key in more if key.coin != coin]
        calls = [address_call(node, coin), *(record_call(node, key) for key in keys)]
        try:
            said = await self._ask(name, calls, requestor)
        except NameNotFound:
            said = Said([None] * len(calls))
        element, *others = said.elements
        address = read_address(element, coin)
        if coin == ETHEREUM and element == b"":  # see resolve
            address = await self.address(name, coin, requestor=requestor)
        return address, more_of(more, dict(zip(keys, others, strict=True)), said, address, coin)

    async def _ask(self, name: DomainName, calls: Sequence[bytes], requestor: str) -> Said:
        """What the resolver of *name* returns to each of *calls*.

        Raises NameNotFound, and UpstreamError when none of it is known."""
        try:
            elements, resolver = await self._ethereum.call(
                self._universal_resolver,
                encode_query(name, *calls),
                lambda returned: (read_elements(returned, len(calls)), read_resolver(returned)),
                requestor=requestor,
            )
        except Reverted as revert:
            refusal = read_refusal(revert.data)
            if not isinstance(refusal, ResolverFailed):
                raise refusal from revert
            reason = refusal.detail
        except (ResolverFailed, AnswerTooLarge) as failed:
            reason = failed.detail
        else:
            return Said([read_element(element) for element in elements], resolver)
        # A resolver that takes whole multicalls (ENSIP-22) may fail as a whole, and one record may
        # be too large for all: the others are still had. One call each, whatever the owner does.
        log.info("records are asked for one by one", name=name.text, reason=reason)
        alone = await each_of(
            lambda call: self._ask_alone(name, call, requestor), calls, at_once=_ALONE_AT_ONCE
        )
        said = next((resolver for _, resolver in alone if resolver is not None), None)
        return Said([element for element, _ in alone], said)

    async def _ask_alone(
        self, name: DomainName, call: bytes, requestor: str
    ) -> tuple[Element, str | None]:
        """What the resolver of *name* returns to the one *call*, never b"", and its address; or why
        it does not."""
        try:
            returned, resolver = await self._ethereum.call(
                self._universal_resolver,
                encode_single(name, call),
                lambda returned: (abi.read_bytes(returned), read_resolver(returned)),
                requestor=requestor,
            )
        except Reverted as revert:
            return refused(read_refusal(revert.data)), None
        except AnswerTooLarge:
            return TOO_LARGE, None
        except UpstreamError as failed:
            return Failed.of(failed), None
        return returned or None, resolver

    async def _owner(self, node: bytes) -> str | Failed | None:
        """The account that owns the node, seen through the NameWrapper; None if nobody does."""
        # Both at once: most names are wrapped, and the second answer costs no second wait.
        registered, wrapped = await asyncio.gather(
            self._account(self._registry, OWNER + node),
            self._account(self._name_wrapper, _OWNER_OF + node),
        )
        if isinstance(registered, str) and registered.lower() == self._name_wrapper.lower():
            return wrapped
        return registered

    async def _account(self, contract: str, query: bytes) -> str | Failed | None:
        try:
            return await account(self._ethereum, contract, query)
        except Reverted:
            return None  # an expired wrapped name has no owner


def encode_query(name: DomainName, *calls: bytes) -> bytes:
    """The call data: `resolve(name, multicall(calls))`."""
    return encode_single(name, _MULTICALL + abi.encode_bytes_array(calls))


def encode_single(name: DomainName, call: bytes) -> bytes:
    """The call data: `resolve(name, call)`."""
    return _RESOLVE + abi.encode_bytes(name.wire, call)


def read_elements(returned: bytes, count: int) -> list[bytes]:
    """The *count* results of the multicall that `resolve` returned; ValueError for others."""
    elements = abi.read_bytes_array(abi.read_bytes(returned))
    if len(elements) != count:
        raise ValueError(f"{count} records were asked for, {len(elements)} came")
    return elements


def read_resolver(returned: bytes) -> str | None:
    """The address of the resolver behind what `resolve` returned; ValueError if there is none."""
    raw = abi.read_address(returned, abi.WORD)
    return address_text(ETHEREUM, raw) if any(raw) else None


def read_element(element: bytes) -> Element:
    """What one element of the multicall's result says of its record."""
    # ENSIP-23: an element whose length is not a whole number of words is an error.
    if len(element) % abi.WORD:
        return refused(read_resolver_error(element))
    return element
