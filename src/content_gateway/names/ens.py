"""ENS: wallet and content of a name in one `eth_call` to the Universal Resolver.

Knows the resolver profiles `addr` and `contenthash`, the Universal Resolver's errors (ENSIP-23)
and who owns a name that has no address. Reaching a node is left to the EthereumCalls it is
given, caching and choice of service to the directory."""

from typing import Final, Protocol

import structlog

from content_gateway.content.domain import DomainName
from content_gateway.content.records import ContentRecord, OtherContent, Records
from content_gateway.errors import NameNotFound, UpstreamNonsense, UpstreamUnavailable
from content_gateway.ethereum import abi
from content_gateway.ethereum.abi import Reverted
from content_gateway.names import contenthash

NAME_WRAPPER: Final = "0xD4416b13d2b3a9aBae7AcD5D6C2BbDBE25686401"

_RESOLVE: Final = bytes.fromhex("9061b923")  # resolve(bytes,bytes)
_MULTICALL: Final = bytes.fromhex("ac9650d8")  # multicall(bytes[])
_ADDR: Final = bytes.fromhex("3b3b57de")  # addr(bytes32)
_CONTENTHASH: Final = bytes.fromhex("bc1c58d1")  # contenthash(bytes32)
_OWNER: Final = bytes.fromhex("02571be3")  # owner(bytes32)
_OWNER_OF: Final = bytes.fromhex("6352211e")  # ownerOf(uint256)

_RESOLVER_NOT_FOUND: Final = bytes.fromhex("77209fe8")
_RESOLVER_NOT_CONTRACT: Final = bytes.fromhex("1e9535f2")
_UNSUPPORTED_PROFILE: Final = bytes.fromhex("7b1c461b")
_HTTP_ERROR: Final = bytes.fromhex("01800152")
_OFFCHAIN_LOOKUP: Final = bytes.fromhex("556f1830")

log = structlog.get_logger(__name__)


class EthereumCalls(Protocol):
    """Reads of one chain."""

    async def call(self, to: str, data: bytes) -> bytes:
        """The contract's answer, never empty; raises Reverted or UpstreamError."""


class EnsNames:
    """The name service behind every dotted name."""

    def __init__(self, ethereum: EthereumCalls, *, universal_resolver: str, registry: str) -> None:
        self._ethereum = ethereum
        self._universal_resolver = universal_resolver
        self._registry = registry

    async def resolve(self, name: DomainName) -> Records:
        """What *name* points at, according to ENS.

        One call; a second and third only for a name that has content and no address. Raises
        NameNotFound when no resolver or no record exists, UpstreamError when we could not find
        out. Never returns a guess."""
        node = name.namehash
        try:
            returned = await self._ethereum.call(self._universal_resolver, encode_query(name, node))
        except Reverted as revert:
            raise read_refusal(revert.data) from revert
        wallet, content = read_answer(returned)
        if wallet is None and content is None:
            raise NameNotFound("The name has neither a wallet nor content.")
        if wallet is not None:
            return Records(checksummed(wallet), content)
        owner = await self._owner(node)
        return Records(checksummed(owner) if owner else None, content, owner is not None)

    async def _owner(self, node: bytes) -> bytes | None:
        """The account that owns the node, seen through the NameWrapper; None if nobody does."""
        try:
            owner = abi.read_address(await self._ethereum.call(self._registry, _OWNER + node))
            if checksummed(owner) == NAME_WRAPPER:
                owner = abi.read_address(await self._ethereum.call(NAME_WRAPPER, _OWNER_OF + node))
        except Reverted:
            return None  # an expired wrapped name has no owner
        except ValueError as wrong:
            raise UpstreamNonsense("The ENS registry gave no owner that can be right.") from wrong
        return owner if any(owner) else None


def encode_query(name: DomainName, node: bytes) -> bytes:
    """The call data: `resolve(name, multicall([addr(node), contenthash(node)]))`."""
    records = abi.encode_bytes_array([_ADDR + node, _CONTENTHASH + node])
    return _RESOLVE + abi.encode_bytes(name.wire, _MULTICALL + records)


def read_answer(returned: bytes) -> tuple[bytes | None, ContentRecord | None]:
    """Address (20 bytes) and content record in what `resolve` returned, None where unset.

    Raises UpstreamNonsense for what the Universal Resolver cannot have said,
    UpstreamUnavailable when an off-chain gateway failed behind it."""
    try:
        elements = abi.read_bytes_array(abi.read_bytes(returned))
        if len(elements) != 2:
            raise ValueError(f"2 records were asked for, {len(elements)} came")
        address, content = (_element(element) for element in elements)
        wallet = abi.read_address(address) if address else bytes(20)
        raw = abi.read_bytes(content) if content else b""
    except ValueError as wrong:
        raise UpstreamNonsense(f"The ENS answer cannot be read: {wrong}.") from wrong
    return (wallet if any(wallet) else None), _content(raw)


def _element(element: bytes) -> bytes:
    """One record's return data, empty when the resolver does not know such records."""
    # ENSIP-23: an element whose length is not a whole number of words is an error.
    if not element or len(element) % abi.WORD == 0:
        return element
    if element[:4] == _UNSUPPORTED_PROFILE:
        return b""
    if element[:4] == _HTTP_ERROR:
        raise UpstreamUnavailable("The name's off-chain gateway failed.")
    raise UpstreamNonsense("The name's resolver failed.")


def _content(raw: bytes) -> ContentRecord | None:
    try:
        return contenthash.decode(raw)
    except ValueError as wrong:
        # The owner wrote it; it is a fact about the name, not a failure of ENS.
        log.info("unreadable contenthash", reason=str(wrong))
        return OtherContent("unreadable", raw.hex())


def read_refusal(data: bytes) -> Exception:
    """The error that the Universal Resolver's revert *data* means."""
    selector = data[:4]
    if selector == _RESOLVER_NOT_FOUND:
        return NameNotFound("No such name is registered, or it has no resolver.")
    if selector in (_RESOLVER_NOT_CONTRACT, _UNSUPPORTED_PROFILE):
        return NameNotFound("The name has neither a wallet nor content.")
    if selector == _HTTP_ERROR:
        return UpstreamUnavailable("The name's off-chain gateway failed.")
    if selector == _OFFCHAIN_LOOKUP:
        return UpstreamUnavailable("The name is held off-chain, which is not supported yet.")
    return UpstreamNonsense(f"ENS refused the call with an unknown error 0x{selector.hex()}.")


def checksummed(address: bytes) -> str:
    """*address* (20 bytes) as text with its EIP-55 checksum."""
    from Crypto.Hash import keccak  # noqa: PLC0415 - 60 ms to import; a cached name needs none

    text = address.hex()
    digest = keccak.new(digest_bits=256, data=text.encode()).hexdigest()
    return "0x" + "".join(
        char.upper() if int(nibble, 16) >= 8 else char
        for char, nibble in zip(text, digest, strict=False)
    )
