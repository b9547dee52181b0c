"""Basenames: names below `base.eth`, whose content is kept on Base.

The gateway that carries them to Ethereum answers addresses and no contenthash (docs/facts/names.md,
Basenames), so content is read from the registry on Base itself. Knows that registry; everything
else about a name, and every other name, is left to the ENS it stands before."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.concurrency.gather import both
from content_gateway.errors import (
    AnswerTooLarge,
    InvalidUpstreamResponse,
    NameNotFound,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import (
    TOO_LARGE,
    ContentRecord,
    Failed,
    OtherContent,
    Records,
)
from content_gateway.model.wallet import ETHEREUM, CoinType, address_text
from content_gateway.names.ens import (
    CONTENTHASH,
    OWNER,
    EnsNames,
    EthereumCalls,
    read_content,
    records_of,
    refused,
)
from content_gateway.names.more_records import Element
from content_gateway.names.reverts import read_resolver_error

SUFFIX: Final = ".base.eth"
_RESOLVER: Final = bytes.fromhex("0178b8bf")  # resolver(bytes32)


class Basenames:
    """ENS, with the content of Basenames from the *registry* on the chain *base*."""

    kind = EnsNames.kind

    def __init__(self, ens: EnsNames, base: EthereumCalls | None, *, registry: str) -> None:
        self._ens = ens
        self._base = base
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
        if self._base is None:
            address, beside = await asking
            try:
                known = Records.of(address.text, None, beside=beside)
            except NameNotFound:
                raise UpstreamUnavailable(
                    "The name is kept on Base, which is not asked here."
                ) from None
            return replace(known, content=OtherContent("basename", name.text))
        (address, beside), (content, owner) = await both(
            asking, self._content_and_owner(self._base, name.namehash)
        )
        return records_of(address, content, owner if coin == ETHEREUM else None, beside)

    async def _content_and_owner(
        self, base: EthereumCalls, node: bytes
    ) -> tuple[ContentRecord | Failed | None, str | Failed | None]:
        # Neither ends the other: where the breaker lets one call in, to see whether Base is back,
        # it must be heard, though the other was refused (or Base would be away for ever).
        resolver, owner = await both(
            self._account(base, _RESOLVER + node), self._account(base, OWNER + node)
        )
        if resolver is None:
            return None, None
        if isinstance(resolver, Failed):
            return resolver, owner
        record = await self._record(base, resolver, CONTENTHASH + node)
        return read_content(record), owner

    async def _account(self, base: EthereumCalls, query: bytes) -> str | Failed | None:
        """The address that the registry holds, None where that is zero."""
        try:
            account = await base.call(self._registry, query, abi.read_address)
        except Reverted:
            return Failed(InvalidUpstreamResponse, "The Basenames registry refused the call.")
        except UpstreamError as failed:
            return Failed.of(failed)
        return address_text(ETHEREUM, account) if any(account) else None

    async def _record(self, base: EthereumCalls, resolver: str, query: bytes) -> Element:
        """What the resolver returns, None where it has no such record."""
        try:
            return await base.call(resolver, query, bytes)
        except Reverted as revert:
            # A contract without the function refuses without a word.
            return refused(read_resolver_error(revert.data)) if revert.data else None
        except AnswerTooLarge:
            return TOO_LARGE
        except UpstreamError as failed:
            return Failed.of(failed)
