"""SPACE ID: names of `.gno`, from the registry on Gnosis and the resolver that it names."""

from collections.abc import AsyncIterator

import pytest
from eth_abi.abi import encode

from content_gateway.errors import (
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamUnavailable,
)
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import parse_record_keys
from content_gateway.model.records import Failed, OtherContent, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.nodes import nodes_of, space_id_node
from content_gateway.names.registry import Registry
from content_gateway.names.space_id import SpaceIdNames
from content_gateway.net.http_client import HttpClient
from tests.ethereum.nodes import work_of_ours
from tests.fakes.ethereum import Name, Revert, namehash, selector
from tests.fakes.gnosis import GNO_REGISTRY, RESOLVER, Gnosis, gno_node
from tests.fakes.miniature import running
from tests.samples import CONTENT, IPFS, OTHER, OWNER, WALLET

ALICE = DomainName.parse("alice.gno")
ON_GNOSIS = CoinType(0x80000000 | 100)


@pytest.fixture
async def gnosis() -> AsyncIterator[Gnosis]:
    async with running(Gnosis()) as gnosis:
        yield gnosis


@pytest.fixture
def names(outbound: HttpClient, gnosis: Gnosis) -> SpaceIdNames:
    chain = EthereumRpc(outbound, [gnosis.url], seconds=3)
    return SpaceIdNames(Registry(chain, GNO_REGISTRY, title=".gno"))


def test_the_node_stands_below_the_identifier_of_the_ending() -> None:
    """So that no name of EIP-137 has it, and names below a name are hashed as there."""
    assert space_id_node(ALICE) == gno_node("alice.gno") != namehash("alice.gno")
    assert space_id_node(DomainName("a.alice.gno")) == gno_node("a.alice.gno")
    assert nodes_of(ALICE) == (namehash("alice.gno"), gno_node("alice.gno"))
    assert nodes_of(DomainName("gno.eth")) == (namehash("gno.eth"),)


async def test_it_costs_four_calls(names: SpaceIdNames, gnosis: Gnosis) -> None:
    """The resolver, and from it content and both addresses at once; nobody asks for the owner."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash=IPFS, owner=OWNER)
    assert await names.resolve(ALICE) == Records(WALLET, CONTENT)
    assert gnosis.eth_calls == 4


@pytest.mark.parametrize("text", ["a.b.gno", "ALICE.GNO", "ålice.gno", "gno.gno"])
async def test_every_name_below_gno_is_kept_there(
    names: SpaceIdNames, gnosis: Gnosis, text: str
) -> None:
    """At any depth, and in any spelling that is normalised to it."""
    name = DomainName.parse(text)
    assert names.covers(name)
    gnosis.names[name.text] = Name(address=WALLET)
    assert await names.resolve(name) == Records(WALLET)


@pytest.mark.parametrize("text", ["gno.eth", "alice.xgno", "alice.gno.eth"])
def test_it_covers_no_other_ending(names: SpaceIdNames, text: str) -> None:
    """What merely looks like it is ENS's."""
    assert not names.covers(DomainName.parse(text))


async def test_a_name_below_a_name_has_records_of_its_own(
    names: SpaceIdNames, gnosis: Gnosis
) -> None:
    """There are no wildcards: its parent's resolver does not answer for it."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash=IPFS)
    with pytest.raises(NameNotFound):
        await names.resolve(DomainName.parse("blog.alice.gno"))
    assert gnosis.eth_calls == 1


async def test_the_owner_stands_in_for_an_address_that_is_unset(
    names: SpaceIdNames, gnosis: Gnosis
) -> None:
    """Where there is content, as in ENS; then the owner is asked for too."""
    gnosis.names["alice.gno"] = Name(contenthash=IPFS, owner=OWNER)
    assert await names.resolve(ALICE) == Records(OWNER, CONTENT, True)
    assert gnosis.eth_calls == 5
    gnosis.names["alice.gno"] = Name(owner=OWNER)
    with pytest.raises(NameNotFound):
        await names.resolve(ALICE)


async def test_an_address_on_ethereum_comes_before_the_one_on_gnosis(
    names: SpaceIdNames, gnosis: Gnosis
) -> None:
    """What is sent on Ethereum to an account that exists on Gnosis alone is lost; the one without a
    number stands in where no other is set, as SPACE ID's own clients show it."""
    on_ethereum: dict[int, bytes] = {ETHEREUM: bytes.fromhex(OTHER[2:])}
    gnosis.names["alice.gno"] = Name(address=WALLET, addresses=on_ethereum)
    assert await names.resolve(ALICE) == Records(OTHER)
    records = await names.resolve(ALICE, ON_GNOSIS, more=parse_record_keys("addr.60"))
    assert dict(records.more) == {"addr.60": OTHER}
    gnosis.names["alice.gno"] = Name(addresses=on_ethereum, address_error=b"")
    assert await names.resolve(ALICE) == Records(OTHER)
    for old in (Name(WALLET, knows_coins=False), Name(WALLET, addresses={ETHEREUM: bytes(20)})):
        gnosis.names["alice.gno"] = old
        assert await names.resolve(ALICE) == Records(WALLET)


@pytest.mark.parametrize(
    "answer",
    [encode(["bytes"], [b"\1" * 32]), b"\xff" * 64, None],
    ids=["long", "no bytes", "refusal"],
)
async def test_nothing_stands_in_for_an_address_that_failed(
    names: SpaceIdNames, gnosis: Gnosis, answer: bytes | None
) -> None:
    """It may be set."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash=IPFS, owner=OWNER)
    honest = gnosis.contracts[RESOLVER]

    def resolver(data: bytes) -> bytes:
        if data[:4] != selector("addr(bytes32,uint256)"):
            return honest(data)
        if answer is None:
            raise Revert(selector("Error(string)") + encode(["string"], ["not today"]))
        return answer

    gnosis.contracts[RESOLVER] = resolver
    records = await names.resolve(ALICE)
    assert records.content == CONTENT
    assert isinstance(records.wallet, Failed)
    assert records.wallet.kind is ResolverFailed


async def test_other_coins_never_fall_back(names: SpaceIdNames, gnosis: Gnosis) -> None:
    """Neither to the owner nor to the address without a coin, that on Gnosis included: what its
    resolver has for that coin is told."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash=IPFS, owner=OWNER)
    assert await names.resolve(ALICE, ON_GNOSIS) == Records(None, CONTENT)
    addresses: dict[int, bytes] = {ON_GNOSIS: bytes.fromhex(OTHER[2:])}
    gnosis.names["alice.gno"] = Name(address=WALLET, addresses=addresses)
    assert await names.resolve(ALICE, ON_GNOSIS) == Records(OTHER)


async def test_more_records_are_a_call_each(names: SpaceIdNames, gnosis: Gnosis) -> None:
    """Each a value, absent, or failed by itself; the resolver that has them is told."""
    failure = selector("Error(string)") + encode(["string"], ["not today"])
    gnosis.names["alice.gno"] = Name(
        address=WALLET, texts={"avatar": "x", "broken": failure}, addresses={0: b""}
    )
    keys = parse_record_keys("text.avatar,text.url,text.broken,addr.0,addr.60")
    records = await names.resolve(ALICE, more=keys)
    more = dict(records.more)
    assert (records.wallet, records.resolver) == (WALLET, RESOLVER)
    broken = more.pop("text.broken")
    assert isinstance(broken, Failed)
    assert broken.kind is ResolverFailed
    assert more == {"text.avatar": "x", "text.url": None, "addr.0": None, "addr.60": WALLET}
    assert gnosis.eth_calls == 8


async def test_a_resolver_without_contenthash_has_none(names: SpaceIdNames, gnosis: Gnosis) -> None:
    """It refuses without a word: the name has no content, and its wallet is told."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash_error=b"")
    assert await names.resolve(ALICE) == Records(WALLET)


async def test_an_address_that_is_refused_is_not_unset(names: SpaceIdNames, gnosis: Gnosis) -> None:
    """`addr` is what every resolver has: silence there is a failure, and nobody stands in."""
    gnosis.names["alice.gno"] = Name(address_error=b"", contenthash=IPFS, owner=OWNER)
    records = await names.resolve(ALICE)
    assert records.content == CONTENT
    assert isinstance(records.wallet, Failed)
    assert records.wallet.kind is ResolverFailed


async def test_an_unreadable_contenthash_is_its_owners_doing(
    names: SpaceIdNames, gnosis: Gnosis
) -> None:
    """As in ENS: content of an unreadable kind, not a failure."""
    gnosis.names["alice.gno"] = Name(address=WALLET, contenthash=b"\xff\xfe")
    assert await names.resolve(ALICE) == Records(WALLET, OtherContent("unreadable", "fffe"))


@pytest.mark.parametrize("answer", [b"\x01" * 32, b"\x00", None], ids=["long", "short", "refusal"])
async def test_a_registry_that_names_no_address_is_no_absence(
    names: SpaceIdNames, gnosis: Gnosis, answer: bytes | None
) -> None:
    """Neither what is no address nor a refusal, and nobody is called there."""

    def registry(_: bytes) -> bytes:
        if answer is None:
            raise Revert(b"")
        return answer

    gnosis.contracts[GNO_REGISTRY.lower()] = registry
    with pytest.raises(InvalidUpstreamResponse):
        await names.resolve(ALICE)
    assert {to.lower() for to, _ in gnosis.calls} == {GNO_REGISTRY.lower()}
    assert not work_of_ours()


async def test_without_gnosis_no_name_is_absent() -> None:
    """It could not be found out."""
    with pytest.raises(UpstreamUnavailable):
        await SpaceIdNames(None).resolve(ALICE)
