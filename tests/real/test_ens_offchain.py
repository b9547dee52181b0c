"""Names whose records are off the chain: real contracts, real gateways, and their failures.

OffchainGateways are miniatures on loopback, which the guard lets through by name; everything
between them and the Records is the code that runs in production."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

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
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Failed, IpfsContent, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.ens import EnsNames
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from tests.fakes.ethereum import namehash
from tests.fakes.gateway import Gateway, running_gateway
from tests.fakes.miniature import Mood
from tests.samples import BASE, CID_TEXT, IPFS, WALLET
from tests.world.ens import EnsWorld, calldata, dns_wire
from tests.world.ethereum import Anvil, CountingProxy


class World:
    """Two gateways, the chain behind a proxy that counts, and the service that asks them all."""

    def __init__(
        self,
        first: Gateway,
        second: Gateway,
        chain: CountingProxy,
        outbound: HttpClient,
        guarded: HttpClient,
    ) -> None:
        self.first, self.second, self.chain = first, second, chain
        self.ethereum = CcipRead(
            EthereumRpc(outbound, [chain.url], seconds=10), OffchainGateways(guarded), seconds=1
        )
        self._names = EnsNames(
            self.ethereum,
            universal_resolver=EnsWorld.universal_resolver,
            registry=EnsWorld.registry,
        )

    def holds(self, name: str, address: str = WALLET, contenthash: bytes = IPFS) -> None:
        """Let both gateways hold these records of *name*."""
        node = namehash(name)
        for gateway in (self.first, self.second):
            gateway.answers |= {
                calldata("addr(bytes32)", node): encode(["address"], [address]),
                calldata("contenthash(bytes32)", node): encode(["bytes"], [contenthash]),
            }

    async def resolve(self, name: str, coin: CoinType = ETHEREUM) -> Records:
        """What *name* points at."""
        return await self._names.resolve(DomainName.parse(name), coin)

    @property
    def cost(self) -> tuple[int, int]:
        """How many eth_calls and requests to gateways were made."""
        return self.chain.eth_calls, len(self.first.requests) + len(self.second.requests)


@pytest.fixture
async def world(anvil: Anvil, ens: EnsWorld) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_gateway())
        second = await stack.enter_async_context(running_gateway())
        chain = await stack.enter_async_context(CountingProxy(anvil.url))
        guard = Guard(local_gateways=[first.url, second.url])
        outbound = await stack.enter_async_context(HttpClient())
        guarded = await stack.enter_async_context(HttpClient(guard))
        yield World(first, second, chain, outbound, guarded)


def is_site(records: Records) -> bool:
    """Whether these are the wallet and the content that the gateways hold."""
    content = records.content
    return (
        records.wallet == WALLET
        and isinstance(content, IpfsContent)
        and str(content.cid) == CID_TEXT
        and not records.wallet_is_owner
    )


@pytest.mark.parametrize("template", ["by_get", "by_post"])
async def test_an_off_chain_name_costs_two_calls_and_two_requests(
    world: World, ens: EnsWorld, template: str
) -> None:
    """Wallet and content are asked for side by side, by GET or by POST as the contract likes."""
    resolver = await ens.offchain_resolver(getattr(world.first, template))
    await ens.set_resolver("far.eth", resolver)
    world.holds("far.eth")
    world.first.delay = 0.05
    assert is_site(await world.resolve("far.eth"))
    assert world.cost == (2, 2)
    assert world.first.most_at_once == 2
    assert {asked.sender for asked in world.first.asked} == {resolver.lower()}


@pytest.mark.parametrize("template", ["by_get", "by_post"])
async def test_a_resolver_of_whole_multicalls_costs_one_request(
    world: World, ens: EnsWorld, template: str
) -> None:
    """With ENSIP-22 the gateway hears both questions at once."""
    resolver = await ens.offchain_multicall_resolver(getattr(world.first, template))
    await ens.set_resolver("whole.eth", resolver)
    world.holds("whole.eth")
    assert is_site(await world.resolve("whole.eth"))
    assert world.cost == (2, 1)


@pytest.mark.parametrize("name", ["a.wide.eth", "b.a.wide.eth"])
async def test_an_off_chain_wildcard(world: World, ens: EnsWorld, name: str) -> None:
    """A name below, of which the chain has never heard, costs no more (ENSIP-10)."""
    await ens.set_resolver("wide.eth", await ens.offchain_resolver(world.first.by_get))
    world.holds(name)
    assert is_site(await world.resolve(name))
    assert world.cost == (2, 2)


async def test_a_dns_name(world: World, ens: EnsWorld) -> None:
    """A name of DNS is an ENS name like any other, off the chain too."""
    await ens.set_resolver("example.com", await ens.offchain_resolver(world.first.by_get))
    world.holds("example.com")
    assert is_site(await world.resolve("example.com"))
    assert world.cost == (2, 2)


async def test_an_off_chain_address_of_another_chain(world: World, ens: EnsWorld) -> None:
    """`addr(bytes32,uint256)` goes to the gateway as it is, and what it answers comes back."""
    await ens.set_resolver("coin.eth", await ens.offchain_resolver(world.first.by_get))
    node = namehash("coin.eth")
    call = calldata("addr(bytes32,uint256)", node, BASE)
    world.first.answers = {
        call: encode(["bytes"], [bytes.fromhex(WALLET[2:])]),
        calldata("contenthash(bytes32)", node): encode(["bytes"], [IPFS]),
    }
    assert is_site(await world.resolve("coin.eth", BASE))


async def test_an_unset_record_is_the_gateways_word(world: World, ens: EnsWorld) -> None:
    """A gateway that answers "nothing" is believed, as far as its contract believes it."""
    await ens.set_resolver("unset.eth", await ens.offchain_resolver(world.first.by_get))
    world.holds("unset.eth", "0x" + "00" * 20, b"")
    with pytest.raises(NameNotFound):
        await world.resolve("unset.eth")


@pytest.mark.parametrize("resolver", ["offchain_resolver", "offchain_multicall_resolver"])
@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("500", UpstreamUnavailable),
        ("503", UpstreamUnavailable),
        ("429", UpstreamUnavailable),
        ("dark", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("html", InvalidUpstreamResponse),
        ("garbage", InvalidUpstreamResponse),
        ("huge", InvalidUpstreamResponse),
        ("redirect", InvalidUpstreamResponse),
        ("404", InvalidUpstreamResponse),
    ],
)
async def test_a_failed_gateway_is_never_an_unset_record(
    world: World, ens: EnsWorld, mood: Mood, error: type[UpstreamError], resolver: str
) -> None:
    """However it fails, and however it is asked, the caller hears of a failure."""
    name = f"failed-{resolver.partition('_resolver')[0].replace('_', '-')}-{mood}.eth"
    await ens.set_resolver(name, await getattr(ens, resolver)(world.first.by_get))
    world.holds(name)
    world.first.misbehave(mood)
    with pytest.raises(error):
        await world.resolve(name)
    world.first.come_back()
    assert is_site(await world.resolve(name))


async def test_half_an_answer_is_told_as_such(world: World, ens: EnsWorld) -> None:
    """A gateway that has the address and refuses the content has not said that there is none."""
    await ens.set_resolver("half.eth", await ens.offchain_resolver(world.first.by_get))
    call = calldata("addr(bytes32)", namehash("half.eth"))
    world.first.answers = {call: encode(["address"], [WALLET])}
    records = await world.resolve("half.eth")
    assert records.wallet == WALLET
    assert records.content == Failed(ResolverFailed, "The name's off-chain gateway answered 404.")
    assert world.cost == (2, 2)


async def test_an_invalid_answer_in_json_is_told_as_such(world: World, ens: EnsWorld) -> None:
    """An answer without data is no answer, and no unset record either."""
    await ens.set_resolver("dataless.eth", await ens.offchain_resolver(world.first.by_get))
    world.first.says = b'{"data": null}'
    with pytest.raises(InvalidUpstreamResponse, match="invalid answer"):
        await world.resolve("dataless.eth")


@pytest.mark.parametrize("resolver", ["offchain_resolver", "offchain_multicall_resolver"])
async def test_the_second_gateway_answers_for_the_first(
    world: World, ens: EnsWorld, resolver: str
) -> None:
    """After a server's error the contract's next URL is asked."""
    urls = world.first.by_get, world.second.by_post
    name = f"second-{resolver.partition('_resolver')[0].replace('_', '-')}.eth"
    await ens.set_resolver(name, await getattr(ens, resolver)(*urls))
    world.holds(name)
    world.first.misbehave("503")
    assert is_site(await world.resolve(name))
    assert len(world.second.requests) == len(world.first.requests)


async def test_a_private_gateway_is_not_asked(world: World, ens: EnsWorld) -> None:
    """A contract cannot send us to the machines beside us, and the name is not "unset" for it."""
    urls = ["https://127.0.0.1/{data}", "http://169.254.169.254/{data}", "https://[::1]/{data}"]
    await ens.set_resolver("forged.eth", await ens.offchain_resolver(*urls))
    with pytest.raises(UpstreamUnavailable):
        await world.resolve("forged.eth")
    assert world.cost == (2, 0)


async def test_a_callback_that_refuses_is_a_failure(world: World, ens: EnsWorld) -> None:
    """An answer that the contract does not believe is not shown, and not taken for absence."""
    await ens.set_resolver("doubt.eth", await ens.distrustful_resolver(world.first.by_get))
    world.holds("doubt.eth")
    with pytest.raises(InvalidUpstreamResponse):
        await world.resolve("doubt.eth")
    assert world.cost == (2, 2)


async def test_a_lookup_in_somebody_elses_name_is_a_failure(world: World, ens: EnsWorld) -> None:
    """Through the Universal Resolver it meets another's callback; asked directly, it is refused."""
    claimed = await ens.distrustful_resolver()
    resolver = await ens.impostor_resolver(world.first.by_get, claimed=claimed)
    await ens.set_resolver("impostor.eth", resolver)
    world.holds("impostor.eth")
    with pytest.raises(InvalidUpstreamResponse):
        await world.resolve("impostor.eth")
    asked = len(world.first.requests)
    call = calldata("addr(bytes32)", namehash("impostor.eth"))
    question = calldata("resolve(bytes,bytes)", dns_wire("impostor.eth"), call)
    with pytest.raises(InvalidUpstreamResponse):
        await world.ethereum.call(resolver, question, bytes)
    assert len(world.first.requests) == asked


@pytest.mark.parametrize("lookups", [1, 2, 4])
async def test_lookups_may_follow_each_other(world: World, ens: EnsWorld, lookups: int) -> None:
    """Up to four rounds, each with a request for either record."""
    resolver = await ens.winding_resolver(world.first.by_get, lookups=lookups)
    await ens.set_resolver(f"winding{lookups}.eth", resolver)
    world.holds(f"winding{lookups}.eth")
    assert is_site(await world.resolve(f"winding{lookups}.eth"))
    assert world.cost == (1 + lookups, 2 * lookups)


async def test_a_fifth_lookup_is_a_failure(world: World, ens: EnsWorld) -> None:
    """A contract that never comes to an end is left after four rounds."""
    resolver = await ens.winding_resolver(world.first.by_get, lookups=5)
    await ens.set_resolver("endless.eth", resolver)
    world.holds("endless.eth")
    with pytest.raises(InvalidUpstreamResponse):
        await world.resolve("endless.eth")
    assert world.cost == (5, 8)


async def test_an_on_chain_name_still_costs_one_call(world: World, ens: EnsWorld) -> None:
    """Nothing of this is paid by names that do not need it."""
    await ens.name("near.eth", address=WALLET, contenthash=IPFS)
    assert is_site(await world.resolve("near.eth"))
    assert world.cost == (1, 0)
