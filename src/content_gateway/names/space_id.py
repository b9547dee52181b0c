"""SPACE ID: names below `.gno`, whose records are kept on Gnosis Chain.

Knows that its registry and resolvers are of ENS's shape, without a Universal Resolver or wildcards,
and which address is whose (docs/facts/names.md, SPACE ID). Reading the registry is left to
registry.py, the node of a name to nodes.py."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from content_gateway.codecs import abi
from content_gateway.concurrency.gather import both, each_of
from content_gateway.errors import NameNotFound, ResolverFailed, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Failed, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.more_records import (
    SILENT,
    Element,
    address_call,
    coin_call,
    record_call,
)
from content_gateway.names.nodes import GNO, space_id_node
from content_gateway.names.registry import Registry
from content_gateway.names.resolver_records import (
    CONTENTHASH,
    Said,
    more_of,
    read_address,
    read_bytes,
    read_content,
    records_of,
)

_AT_ONCE: Final = 4  # records of one name


class SpaceIdNames:
    """The name service behind `.gno`: its *registry* on Gnosis; None: Gnosis is not asked."""

    kind = "space-id"

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry

    def covers(self, name: DomainName) -> bool:
        """True when *name* ends in `.gno`."""
        return name.labels[-1] == GNO

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """What *name* points at, according to SPACE ID. The address on Gnosis stands in for one on
        Ethereum that is unset, as does the owner, where there is content, for both.

        Two round trips, of a call for the resolver and one for each record, two for an address on
        Ethereum; a third for an owner. Raises UpstreamError when Gnosis could not be asked."""
        if self._registry is None:
            raise UpstreamUnavailable("The name is kept on Gnosis, which is not asked here.")
        node = space_id_node(name)
        resolver = await self._registry.resolver(node)
        if resolver is None:
            raise NameNotFound("No such name is registered, or it has no resolver.")
        if isinstance(resolver, Failed):
            raise resolver.error()
        keys = [key for key in more if key.coin != coin]
        calls = [address_call(node, coin), CONTENTHASH + node]
        calls += [record_call(node, key) for key in keys]
        elements = await each_of(
            partial(_record, self._registry, resolver, node), calls, at_once=_AT_ONCE
        )
        spoken, content_hash, *others = elements
        address, content = read_address(spoken, coin), read_content(content_hash)
        has_content = content is not None and not isinstance(content, Failed)
        owner: str | Failed | None = None
        if coin == ETHEREUM and address.is_zero and has_content:
            owner = await self._registry.owner(node)
        said, by_key = Said(elements, resolver), dict(zip(keys, others, strict=True))
        return records_of(address, content, owner, more_of(more, by_key, said, address, coin))


async def _record(registry: Registry, resolver: str, node: bytes, call: bytes) -> Element:
    """What the *resolver* returns to the *call* for a record of *node*."""
    if call != address_call(node, ETHEREUM):
        return await registry.record(resolver, call)
    return ethereum_address(
        *await both(
            registry.record(resolver, coin_call(node, ETHEREUM)), registry.record(resolver, call)
        )
    )


def ethereum_address(by_number: Element, plain: Element) -> Element:
    """The address on Ethereum, as `addr(bytes32)` returns it: the one that is kept under the number
    of its coin, and where none is, the *plain* one, which is the one on Gnosis."""
    raw = read_bytes(by_number, "address")
    if isinstance(raw, Failed):
        return raw
    if not any(raw):
        return SILENT if plain == b"" else plain
    if len(raw) != 20:
        return Failed(ResolverFailed, "The name's resolver gave an address of another length.")
    return abi.uint(int.from_bytes(raw))
