"""Basenames: names below `base.eth`, whose content is kept on Base.

The gateway that carries them to Ethereum answers addresses and no contenthash (docs/facts/names.md,
Basenames), so content is read on Base itself. Knows which part of a name each chain has; the
registry on Base is left to registry.py, everything else, and every other name, to ENS."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from content_gateway.concurrency.gather import both
from content_gateway.errors import NameNotFound, UpstreamUnavailable
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import ContentRecord, Failed, OtherContent, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.ens import EnsNames
from content_gateway.names.registry import Registry
from content_gateway.names.resolver_records import CONTENTHASH, read_content, records_of

SUFFIX: Final = ".base.eth"


class Basenames:
    """ENS, with the content of Basenames from their *registry* on Base; None: Base is not asked."""

    kind = EnsNames.kind

    def __init__(self, ens: EnsNames, registry: Registry | None) -> None:
        self._ens = ens
        self._registry = registry

    def covers(self, name: DomainName) -> bool:
        """As ENS does."""
        return self._ens.covers(name)

    async def resolve(
        self,
        name: DomainName,
        coin: CoinType = ETHEREUM,
        *,
        more: Sequence[RecordKey] = (),
        requestor: str = "",
    ) -> Records:
        """As EnsNames.resolve. A Basename costs two round trips on Base beside one of ENS.

        Where one chain could not be asked, this is what the other has; without Base the wallet,
        with content of a kind that is not served."""
        if not name.text.endswith(SUFFIX):
            return await self._ens.resolve(name, coin, more=more, requestor=requestor)
        # ENS is not asked for content: its gateway may refuse to speak of that at all.
        asking = self._ens.address_and_more(name, coin, more, requestor=requestor)
        if self._registry is None:
            address, beside = await asking
            try:
                known = Records.of(address.text, None, beside=beside)
            except NameNotFound:
                raise UpstreamUnavailable(
                    "The name is kept on Base, which is not asked here."
                ) from None
            return replace(known, content=OtherContent("basename", name.text))
        (address, beside), (content, owner) = await both(
            asking, _content_and_owner(self._registry, name.namehash)
        )
        return records_of(address, content, owner if coin == ETHEREUM else None, beside)


async def _content_and_owner(
    registry: Registry, node: bytes
) -> tuple[ContentRecord | Failed | None, str | Failed | None]:
    # Neither ends the other: where the breaker lets one call in, to see whether Base is back,
    # it must be heard, though the other was refused (or Base would be unreachable for ever).
    resolver, owner = await both(registry.resolver(node), registry.owner(node))
    if resolver is None:
        return None, None
    if isinstance(resolver, Failed):
        return resolver, owner
    return read_content(await registry.record(resolver, CONTENTHASH + node)), owner
