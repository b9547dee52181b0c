"""Basenames: address and rest from ENS, content from the registry on Base."""

from collections.abc import AsyncIterator

import pytest
from eth_abi.abi import encode

from content_gateway.errors import (
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import parse_record_keys
from content_gateway.model.records import Failed, OtherContent, Records
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.basenames import Basenames
from content_gateway.names.ens import EnsNames
from content_gateway.names.registry import Registry
from content_gateway.net.http_client import HttpClient
from tests.ethereum.nodes import work_of_ours
from tests.fakes.base import BASE_REGISTRY, RESOLVER, Base
from tests.fakes.ethereum import (
    REGISTRY,
    UNIVERSAL_RESOLVER,
    Ethereum,
    Name,
    Revert,
    selector,
)
from tests.fakes.miniature import Mood, running
from tests.samples import BASE, CONTENT, IPFS, WALLET

ALICE = DomainName.parse("alice.base.eth")
OWNER = "0x000000000000000000000000000000000000dEaD"


@pytest.fixture
async def base() -> AsyncIterator[Base]:
    async with running(Base()) as base:
        yield base


@pytest.fixture
def names(outbound: HttpClient, ethereum: Ethereum, base: Base) -> Basenames:
    ens = EnsNames(
        EthereumRpc(outbound, [ethereum.url], seconds=3),
        universal_resolver=UNIVERSAL_RESOLVER,
        registry=REGISTRY,
    )
    to_base = EthereumRpc(outbound, [base.url], seconds=3)
    return Basenames(ens, Registry(to_base, BASE_REGISTRY, title="Basenames"))


async def test_it_costs_one_call_to_ens_and_three_to_base(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """Resolver and owner at once, then the contenthash: two round trips on Base."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.put(ALICE, IPFS)
    assert await names.resolve(ALICE) == Records(WALLET, CONTENT)
    assert (ethereum.eth_calls, base.eth_calls) == (1, 3)


@pytest.mark.parametrize("text", ["alice.eth", "base.eth", "xbase.eth", "alice.base.eth.xyz"])
async def test_other_names_do_not_touch_base(
    names: Basenames, ethereum: Ethereum, base: Base, text: str
) -> None:
    """Only what lies below base.eth is kept there; the name itself is not."""
    ethereum.names[text] = Name(address=WALLET)
    base.go_dark()
    assert await names.resolve(DomainName.parse(text)) == Records(WALLET)
    assert base.posts == 0


@pytest.mark.parametrize("text", ["a.b.base.eth", "ALICE.BASE.ETH", "ålice.base.eth"])
async def test_every_name_below_base_eth_is_kept_there(
    names: Basenames, ethereum: Ethereum, base: Base, text: str
) -> None:
    """At any depth, and in any spelling that is normalised to it."""
    name = DomainName.parse(text)
    ethereum.names[name.text] = Name(address=WALLET)
    base.put(name, IPFS)
    assert (await names.resolve(name)).content == CONTENT


async def test_the_owner_on_base_stands_in_for_an_address_that_is_unset(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """Only where the gateway of Basenames answers the zero address."""
    ethereum.names["alice.base.eth"] = Name()
    base.put(ALICE, IPFS, OWNER)
    assert await names.resolve(ALICE) == Records(OWNER, CONTENT, True)


@pytest.mark.parametrize(
    "name",
    [
        None,
        Name(refusal=selector("UnsupportedResolverProfile(bytes4)") + bytes(32)),
        Name(refusal=selector("ResolverFunctionNotSupported()")),
    ],
)
async def test_where_ens_knows_of_no_address_nobody_stands_in(
    names: Basenames, ethereum: Ethereum, base: Base, name: Name | None
) -> None:
    """No resolver, or one without addresses, is not an address that is unset: when in doubt, no
    wallet."""
    if name is not None:
        ethereum.names["alice.base.eth"] = name
    base.put(ALICE, IPFS, OWNER)
    assert await names.resolve(ALICE) == Records(None, CONTENT)


async def test_an_owner_alone_is_no_record(names: Basenames, base: Base) -> None:
    """A registered name with neither address nor content is absent, as in ENS."""
    base.put(ALICE, b"", OWNER)
    with pytest.raises(NameNotFound):
        await names.resolve(ALICE)


async def test_the_owner_does_not_replace_an_address(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """The address record wins, and the answer does not say that it is the owner's."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.put(ALICE, IPFS, OWNER)
    assert await names.resolve(ALICE) == Records(WALLET, CONTENT, False)


async def test_ens_is_asked_for_the_address_alone(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """A gateway that refuses the contenthash does not hide the address."""
    failure = selector("Error(string)") + encode(["string"], ["unsupported"])
    ethereum.names["alice.base.eth"] = Name(address=WALLET, contenthash_error=failure)
    base.put(ALICE, IPFS)
    assert await names.resolve(ALICE) == Records(WALLET, CONTENT)


async def test_other_coins_never_fall_back(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """The address on Base is what ENS says it is, not the owner's."""
    base.put(ALICE, IPFS, OWNER)
    assert await names.resolve(ALICE, BASE) == Records(None, CONTENT)
    ethereum.names["alice.base.eth"] = Name(
        address=WALLET, addresses={BASE: bytes.fromhex(OWNER[2:])}
    )
    assert await names.resolve(ALICE, BASE) == Records(OWNER, CONTENT)
    assert await names.resolve(ALICE, ETHEREUM) == Records(WALLET, CONTENT)


async def test_a_resolver_without_contenthash_has_none(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """It reverts: the name has no content, and its wallet is still told."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.put(ALICE, IPFS)

    def refuse(_: bytes) -> bytes:
        raise Revert(b"")

    base.contracts[RESOLVER] = refuse
    assert await names.resolve(ALICE) == Records(WALLET)


async def test_an_unreadable_contenthash_is_its_owners_doing(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """As in ENS: content of an unreadable kind, not a failure."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.put(ALICE, b"\xff\xfe")
    assert await names.resolve(ALICE) == Records(WALLET, OtherContent("unreadable", "fffe"))


@pytest.mark.parametrize(
    ("mood", "failure"),
    [
        ("dark", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("empty", InvalidUpstreamResponse),
        ("revert", InvalidUpstreamResponse),
        ("lie", InvalidUpstreamResponse),
        ("error", UpstreamUnavailable),
    ],
)
async def test_what_one_chain_knows_is_told(
    names: Basenames, ethereum: Ethereum, base: Base, mood: Mood, failure: type[UpstreamError]
) -> None:
    """When Base cannot be asked the wallet is told, and that the content has failed; a name of
    which nothing is known is not said to be absent."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.misbehave(mood)
    records = await names.resolve(ALICE)
    assert records.wallet == WALLET
    assert isinstance(records.content, Failed)
    assert records.content.kind is failure
    with pytest.raises(failure):
        await names.resolve(DomainName.parse("nobody.base.eth"))
    assert not work_of_ours()


@pytest.mark.parametrize(
    ("mood", "failure"),
    [("dark", UpstreamUnavailable), ("hang", UpstreamTimeout), ("lie", InvalidUpstreamResponse)],
)
async def test_a_wallet_that_failed_is_not_the_owners(
    names: Basenames, ethereum: Ethereum, base: Base, mood: Mood, failure: type[UpstreamError]
) -> None:
    """When ENS cannot be asked the content is told, and nobody's wallet."""
    ethereum.misbehave(mood)
    base.put(ALICE, IPFS, OWNER)
    records = await names.resolve(ALICE)
    assert isinstance(records.wallet, Failed)
    assert records.wallet.kind is failure
    assert records.content == CONTENT
    base.misbehave("dark")
    with pytest.raises(UpstreamError):
        await names.resolve(ALICE)
    assert not work_of_ours()


@pytest.mark.parametrize(
    "answer", [b"\x00", bytes(31), b"\xff" * 64, encode(["uint256"], [32])], ids=bytes.hex
)
async def test_an_invalid_answer_of_a_resolver_is_no_absence(
    names: Basenames, ethereum: Ethereum, base: Base, answer: bytes
) -> None:
    """A result that is no `bytes` is a failed record, and opens no breaker for other names."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    ethereum.names["bob.base.eth"] = Name(address=WALLET)
    base.put(ALICE, IPFS)
    honest = base.contracts[RESOLVER]
    base.contracts[RESOLVER] = lambda _: answer
    for _ in range(5):
        records = await names.resolve(ALICE)
        assert records.wallet == WALLET
        assert isinstance(records.content, Failed)
        assert records.content.kind is ResolverFailed
    base.contracts[RESOLVER] = honest
    bob = DomainName.parse("bob.base.eth")
    base.put(bob, IPFS)
    assert await names.resolve(bob) == Records(WALLET, CONTENT)


async def test_a_registry_that_names_no_address_is_garbage(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """An address longer than 20 bytes is no resolver to be called."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET)
    base.contracts[BASE_REGISTRY.lower()] = lambda _: b"\x01" * 32
    content = (await names.resolve(ALICE)).content
    assert isinstance(content, Failed)
    assert content.kind is InvalidUpstreamResponse
    assert {to.lower() for to, _ in base.calls} == {BASE_REGISTRY.lower()}


async def test_more_records_come_with_the_address(
    names: Basenames, ethereum: Ethereum, base: Base
) -> None:
    """In the call of ENS, which never speaks of content."""
    ethereum.names["alice.base.eth"] = Name(address=WALLET, texts={"avatar": "x"})
    base.put(ALICE, IPFS)
    records = await names.resolve(ALICE, more=parse_record_keys("text.avatar,text.url"))
    assert (records.wallet, records.content) == (WALLET, CONTENT)
    assert dict(records.more) == {"text.avatar": "x", "text.url": None}
    assert (ethereum.eth_calls, base.eth_calls) == (1, 3)
    base.put(DomainName.parse("bob.base.eth"), IPFS)
    records = await names.resolve(
        DomainName.parse("bob.base.eth"), more=parse_record_keys("text.avatar")
    )
    assert (records.content, dict(records.more)) == (CONTENT, {"text.avatar": None})


async def test_without_base_texts_are_told(outbound: HttpClient, ethereum: Ethereum) -> None:
    """Beside content of a kind that is not served; nothing at all is no absence."""
    ens = EnsNames(
        EthereumRpc(outbound, [ethereum.url], seconds=3),
        universal_resolver=UNIVERSAL_RESOLVER,
        registry=REGISTRY,
    )
    names, more = Basenames(ens, None), parse_record_keys("text.avatar")
    ethereum.names["alice.base.eth"] = Name(texts={"avatar": "x"})
    records = await names.resolve(ALICE, more=more)
    assert isinstance(records.content, OtherContent)
    assert (records.wallet, dict(records.more)) == (None, {"text.avatar": "x"})
    ethereum.names["alice.base.eth"] = Name()
    with pytest.raises(UpstreamUnavailable):
        await names.resolve(ALICE, more=more)
