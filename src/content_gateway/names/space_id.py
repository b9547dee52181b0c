"""SPACE ID: names below `.gno`, whose records are kept on Gnosis Chain.

Knows that their registry and resolvers are of ENS's shape and have neither a Universal Resolver nor
wildcards. Reading the registry is left to registry.py, the node of a name to nodes.py."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from content_gateway.concurrency.gather import each_of
from content_gateway.errors import NameNotFound, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Failed, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.ens import (
    CONTENTHASH,
    Address,
    Said,
    more_of,
    read_address,
    read_content,
    records_of,
)
from content_gateway.names.more_records import SILENT, Element, address_call, record_call
from content_gateway.names.nodes import GNO, space_id_node
from content_gateway.names.registry import Registry

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
        """What *name* points at, according to SPACE ID. Ethereum's *coin* means the address that
        its resolver gives where none is named, which is the one on Gnosis.

        Two round trips, of a call for the resolver and one for each record, and a third for a name
        that has content and no address. Raises UpstreamError when Gnosis could not be asked."""
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
        elements = await each_of(partial(self._registry.record, resolver), calls, at_once=_AT_ONCE)
        spoken, content_hash, *others = elements
        address, content = _address(spoken, coin), read_content(content_hash)
        has_content = content is not None and not isinstance(content, Failed)
        owner: str | Failed | None = None
        if coin == ETHEREUM and address.is_zero and has_content:
            owner = await self._registry.owner(node)
        said, by_key = Said(elements, resolver), dict(zip(keys, others, strict=True))
        return records_of(address, content, owner, more_of(more, by_key, said, address, coin))


def _address(element: Element, coin: CoinType) -> Address:
    """The address in what the resolver returned."""
    if element == b"" and coin == ETHEREUM:  # every resolver has that function
        return Address(SILENT)
    return read_address(element, coin)
