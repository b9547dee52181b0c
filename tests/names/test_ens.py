"""EnsNames over a node: one call a name, the owner as stand-in, and no outage taken for absence."""

from collections.abc import AsyncIterator

import pytest
from eth_abi.abi import encode

from content_gateway.errors import (
    InvalidUpstreamResponse,
    NameNotFound,
    UpstreamUnavailable,
)
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    ContentRecord,
    Failed,
    IpfsContent,
    IpnsContent,
    OtherContent,
    Records,
)
from content_gateway.model.wallet import CoinType
from content_gateway.names.ens import EnsNames
from content_gateway.net.http_client import HttpClient
from tests.fakes.ethereum import (
    NAME_WRAPPER,
    REGISTRY,
    UNIVERSAL_RESOLVER,
    Ethereum,
    Name,
    selector,
)
from tests.samples import CID, IPFS, IPNS, OWNER, SITE, WALLET

IPNS_NAME = IpnsName.parse("k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1")


@pytest.fixture
async def rpc(ethereum: Ethereum) -> AsyncIterator[EthereumRpc]:
    async with HttpClient() as outbound:
        yield EthereumRpc(outbound, [ethereum.url], seconds=2)


@pytest.fixture
def ens(rpc: EthereumRpc) -> EnsNames:
    return EnsNames(rpc, universal_resolver=UNIVERSAL_RESOLVER, registry=REGISTRY)


@pytest.mark.parametrize(
    ("contenthash", "content"),
    [
        (None, None),
        (IPFS, IpfsContent(CID)),
        (IPNS, IpnsContent(IPNS_NAME)),
        (bytes.fromhex("e40101fa011b20" + "d1" * 32), OtherContent("swarm", "d1" * 32)),
    ],
)
async def test_a_name_takes_one_call(
    ens: EnsNames, ethereum: Ethereum, contenthash: bytes | None, content: ContentRecord | None
) -> None:
    """Wallet and content of any network come with one eth_call in one HTTP request."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=contenthash, owner=OWNER)
    assert await ens.resolve(SITE) == Records(WALLET, content)
    assert (ethereum.eth_calls, ethereum.posts) == (1, 1)


@pytest.mark.parametrize("exists", [False, True])
async def test_an_absent_name_takes_one_call(
    ens: EnsNames, ethereum: Ethereum, exists: bool
) -> None:
    """A name that nobody has, and one with neither wallet nor content, whoever owns it."""
    if exists:
        ethereum.names["site.eth"] = Name(owner=OWNER)
    with pytest.raises(NameNotFound):
        await ens.resolve(SITE)
    assert (ethereum.eth_calls, ethereum.posts) == (1, 1)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_owner_stands_in_for_a_missing_wallet(
    ens: EnsNames, ethereum: Ethereum, wrapped: bool
) -> None:
    """Content without an address record: the wallet that owns the name is told, and marked. Where
    the registry knows only the NameWrapper, the owner is asked for there."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, owner=OWNER, wrapped=wrapped)
    assert await ens.resolve(SITE) == Records(OWNER, IpfsContent(CID), wallet_is_owner=True)
    assert ethereum.calls[0][0] == UNIVERSAL_RESOLVER
    assert {to for to, _ in ethereum.calls[1:]} == {REGISTRY, NAME_WRAPPER}


@pytest.mark.parametrize("wrapped", [False, True])
async def test_content_that_nobody_owns_has_no_wallet(
    ens: EnsNames, ethereum: Ethereum, wrapped: bool
) -> None:
    """An off-chain or expired name may have content and no owner: then no wallet is told."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, wrapped=wrapped)
    assert await ens.resolve(SITE) == Records(None, IpfsContent(CID), wallet_is_owner=False)


async def test_every_dotted_name_goes_to_ens(ens: EnsNames, ethereum: Ethereum) -> None:
    """DNS names are in ENS too, and names of any script reach the chain in their normal form."""
    ethereum.names["example.com"] = Name(address=WALLET)
    ethereum.names["bücher.eth"] = Name(address=OWNER)
    assert (await ens.resolve(DomainName.parse("Example.COM"))).wallet == WALLET
    assert (await ens.resolve(DomainName.parse("BÜCHER.eth"))).wallet == OWNER


async def test_an_outage_behind_the_owner_is_a_wallet_that_failed(
    rpc: EthereumRpc, ethereum: Ethereum
) -> None:
    """A wallet that we could not find out is not a wallet that is unset; the content is told."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, owner=OWNER)
    # There is no contract at that address, so the node answers `0x`.
    ens = EnsNames(rpc, universal_resolver=UNIVERSAL_RESOLVER, registry="0x" + "99" * 20)
    assert await ens.resolve(SITE) == Records(
        Failed(
            InvalidUpstreamResponse,
            "There is no contract at that address on this endpoint's chain.",
        ),
        IpfsContent(CID),
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (Name(refusal=selector("ResolverNotContract(bytes,address)") + bytes(96)), NameNotFound),
        (Name(refusal=selector("HttpError(uint16,string)") + bytes(96)), UpstreamUnavailable),
        (Name(refusal=b""), InvalidUpstreamResponse),
        (Name(refusal=selector("CouldNotResolve(bytes)") + bytes(64)), NameNotFound),
        (
            Name(
                refusal=selector("ResolverError(bytes)")
                + encode(["bytes"], [selector("CouldNotResolve(bytes)") + bytes(64)])
            ),
            NameNotFound,
        ),
    ],
)
async def test_refusals_on_the_chain_are_told_apart(
    ens: EnsNames, ethereum: Ethereum, name: Name, error: type[Exception]
) -> None:
    """A resolver that is no contract holds nothing; a gateway that failed is an outage."""
    ethereum.names["site.eth"] = name
    with pytest.raises(error):
        await ens.resolve(SITE)


async def test_a_resolver_without_contenthash_still_has_a_wallet(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """Old resolvers answer the one and refuse the other, within the same call."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash_error=b"")
    assert await ens.resolve(SITE) == Records(WALLET, None)


async def test_the_address_on_another_chain_is_asked_for_by_its_coin_type(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """`addr(node, coinType)`; where it is unset, neither Ethereum's nor the owner's stands in."""
    base = CoinType(0x80000000 | 8453)
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS, owner=OWNER)
    assert await ens.resolve(SITE, base) == Records(None, IpfsContent(CID))
    question = selector("addr(bytes32,uint256)") + SITE.namehash + base.to_bytes(32, "big")
    assert question in ethereum.calls[0][1]
    assert ethereum.eth_calls == 1
    with pytest.raises(NameNotFound):
        await ens.resolve(DomainName.parse("other.eth"), base)
