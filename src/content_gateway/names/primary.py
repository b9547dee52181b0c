"""Primary names: the name of an address, as ENS has it and as it leads back (ENSIP-19).

Asks the Universal Resolver's `reverse`, which reads the reverse record of the address and verifies
it forward on the same chain type. Knows its answer and its errors, and that a name must be spelt as
ENSIP-15 spells it; caching is left to the directory."""

import asyncio
from collections.abc import Callable
from typing import Final

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.errors import InvalidDomain, PrimaryNameNotFound
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Records
from content_gateway.model.wallet import ETHEREUM, CoinType, address_text
from content_gateway.names.ens import EnsCalls
from content_gateway.names.reverts import read_refusal

_REVERSE: Final = bytes.fromhex("5d78a217")  # reverse(bytes,uint256)
# Only the Universal Resolver itself can say these: what a resolver says, it wraps.
_NOT_PRIMARY: Final = (
    bytes.fromhex("ef9c03ce"),  # ReverseAddressMismatch(string,bytes), ENSIP-23
    bytes.fromhex("9a4c3e3b"),  # DNSEncodingFailed(string): the record is no name at all
)


class EnsPrimaryNames:
    """The primary names of addresses on every chain."""

    kind = "ens-reverse"

    def __init__(
        self,
        ethereum: EnsCalls,
        *,
        universal_resolver: str,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """*require* raises UpstreamError while the Universal Resolver is known to be no good."""
        self._ethereum = ethereum
        self._universal_resolver = universal_resolver
        self._require = require

    async def primary_name(self, address: bytes, coin: CoinType, *, requestor: str = "") -> Records:
        """The primary name of *address* (as resolvers keep it) for *coin*, and who resolves it.

        Gateways are asked at the expense of *requestor*. Raises NotFound where there is none, or it
        leads elsewhere, or nobody could ask for it; UpstreamError when that is not known."""
        self._require()
        if not any(address):  # unset addresses are zero: every name without one would lead back
            raise PrimaryNameNotFound
        try:
            text, resolver = await self._ethereum.call(
                self._universal_resolver,
                encode_reverse(address, coin),
                read_primary,
                requestor=requestor,
            )
        except Reverted as revert:
            if revert.data[:4] in _NOT_PRIMARY:
                raise PrimaryNameNotFound from revert
            raise read_refusal(revert.data) from revert
        if not await _is_a_name(text):
            raise PrimaryNameNotFound
        resolved_by = address_text(ETHEREUM, resolver) if any(resolver) else None
        return Records(primary=text, resolver=resolved_by)


async def _is_a_name(text: str) -> bool:
    """Whether *text* is a name, in the one spelling that it has.

    Another spelling is not verified by what the normalised name leads to, and may look like the
    name of somebody else."""
    if DomainName.parse_plain(text):
        return text == text.lower()
    try:
        # A name that is not plain loads a large library, once: off the event loop.
        return (await asyncio.to_thread(DomainName.parse, text)).text == text
    except InvalidDomain:
        return False


def encode_reverse(address: bytes, coin: CoinType) -> bytes:
    """The call data: `reverse(address, coin)`."""
    return _REVERSE + abi.uint(2 * abi.WORD) + abi.uint(coin) + abi.tail(address)


def read_primary(returned: bytes) -> tuple[str, bytes]:
    """The name and its resolver in what `reverse` returned: `(string, address, address)`.

    Text that is not UTF-8 is no name. ValueError for what the contract cannot have said."""
    abi.read_address(returned, 2 * abi.WORD)
    name = abi.read_bytes(returned)
    return name.decode(errors="replace"), abi.read_address(returned, abi.WORD)
