"""A registry of ENS's shape (EIP-137) on one chain, and the resolvers that it names.

Knows `owner` and `resolver`, and what it means that a contract refuses. Which chain and which node
a name has there, and what its records say, is left to the name services."""

from typing import Final

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.errors import AnswerTooLarge, InvalidUpstreamResponse, UpstreamError
from content_gateway.model.records import TOO_LARGE, Failed
from content_gateway.model.wallet import ETHEREUM, address_text
from content_gateway.names.ethereum_calls import EthereumCalls
from content_gateway.names.more_records import Element
from content_gateway.names.reverts import read_resolver_error, refused

OWNER: Final = bytes.fromhex("02571be3")  # owner(bytes32)
_RESOLVER: Final = bytes.fromhex("0178b8bf")  # resolver(bytes32)


class Registry:
    """The registry at *address* on the *chain*; *title* is the word for it in errors.

    Its methods raise Overloaded and nothing else: what could not be asked is a Failed."""

    def __init__(self, chain: EthereumCalls, address: str, *, title: str) -> None:
        self._chain = chain
        self._address = address
        self._title = title

    async def owner(self, node: bytes) -> str | Failed | None:
        """The account (EIP-55) that owns the *node*, None where nobody does."""
        return await self._account(OWNER + node)

    async def resolver(self, node: bytes) -> str | Failed | None:
        """The address (EIP-55) of the resolver of the *node*, None where it has none."""
        return await self._account(_RESOLVER + node)

    async def record(self, resolver: str, call: bytes) -> Element:
        """What the *resolver* returns to the *call* for one record; b"" where it refuses without a
        word, as a contract does that has no such function."""
        try:
            return await self._chain.call(resolver, call, bytes)
        except Reverted as revert:
            return refused(read_resolver_error(revert.data)) if revert.data else b""
        except AnswerTooLarge:
            return TOO_LARGE
        except UpstreamError as failed:
            return Failed.of(failed)

    async def _account(self, query: bytes) -> str | Failed | None:
        try:
            return await account(self._chain, self._address, query)
        except Reverted:
            return Failed(InvalidUpstreamResponse, f"The {self._title} registry refused the call.")


async def account(chain: EthereumCalls, contract: str, query: bytes) -> str | Failed | None:
    """The address (EIP-55) that the *contract* returns to the *query*, None for the zero address.

    Raises Reverted when it refuses."""
    try:
        returned = await chain.call(contract, query, abi.read_address)
    except UpstreamError as failed:
        return Failed.of(failed)
    return address_text(ETHEREUM, returned) if any(returned) else None
