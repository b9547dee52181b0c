"""Names of Unstoppable Domains from their own contracts, on two real chains and one that is off."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from content_gateway.errors import InvalidUpstreamResponse, NameNotFound, UpstreamUnavailable
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpnsContent, Records
from content_gateway.names.unstoppable import Chain, UnstoppableNames
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.unstoppable_defaults import TLDS
from tests.samples import CID_TEXT, CONTENT, KEY_TEXT, OTHER, OWNER, WALLET
from tests.world.ethereum import Anvil, CountingProxy, running_anvil
from tests.world.unstoppable import UnstoppableWorld

IPNS = IpnsContent(IpnsName.parse(KEY_TEXT))


@dataclass
class Side:
    """One chain: the node, what is on it, and who counts the questions to it."""

    anvil: Anvil
    world: UnstoppableWorld
    proxy: CountingProxy

    def as_chain(self, outbound: HttpClient) -> Chain:
        """The chain as the service sees it."""
        # Long enough that a busy machine is no slow node, which would be asked once more.
        rpc = EthereumRpc(outbound, [self.proxy.url], seconds=25)
        return Chain(self.anvil.url, rpc, self.world.proxy_reader)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worlds(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[list[tuple[Anvil, UnstoppableWorld]]]:
    async with AsyncExitStack() as stack:
        worlds = []
        for side in ("first", "second"):
            directory = tmp_path_factory.mktemp(side)
            anvil = await stack.enter_async_context(running_anvil(directory))
            worlds.append((anvil, await UnstoppableWorld.deploy(anvil)))
        (_, first), (_, second) = worlds
        await first.name("brad.crypto", owner=OWNER, records=records(WALLET, CID_TEXT))
        await second.name("moved.nft", owner=OWNER, records=records(WALLET, KEY_TEXT))
        await first.name("both.wallet", owner=OWNER, records=records(WALLET, CID_TEXT))
        await second.name("both.wallet", owner=OTHER, records=records(OTHER, KEY_TEXT))
        await second.name("owned.x", owner=OWNER, records={"ipfs.html.value": CID_TEXT})
        await first.name("bare.x", owner=OWNER, records={})
        await first.name("burnt.x", owner=OWNER, records=records(WALLET, CID_TEXT))
        await first.burn("burnt.x", OWNER)
        await second.name("lapsed.x", owner=OWNER, records=records(WALLET, CID_TEXT))
        await second.expire("lapsed.x")
        yield worlds


def records(wallet: str, content: str) -> dict[str, str]:
    """The two records of a website."""
    return {"crypto.ETH.address": wallet, "dweb.ipfs.hash": content}


@pytest.fixture
async def sides(worlds: list[tuple[Anvil, UnstoppableWorld]]) -> AsyncIterator[list[Side]]:
    async with AsyncExitStack() as stack:
        yield [
            Side(anvil, world, await stack.enter_async_context(CountingProxy(anvil.url)))
            for anvil, world in worlds
        ]


@pytest.fixture
async def names(sides: list[Side]) -> AsyncIterator[UnstoppableNames]:
    async with HttpClient() as outbound:
        yield UnstoppableNames([side.as_chain(outbound) for side in sides], TLDS)


def questions(sides: list[Side]) -> list[int]:
    """How many `eth_call` each chain was asked; nothing else was."""
    assert all(len(side.proxy.requests) == side.proxy.eth_calls for side in sides)
    return [side.proxy.eth_calls for side in sides]


async def test_a_name_costs_one_call_a_chain(names: UnstoppableNames, sides: list[Side]) -> None:
    """Wallet and content of a name on the second chain: one eth_call here and one there."""
    moved = await names.resolve(DomainName.parse("moved.nft"))
    assert moved == Records(WALLET, IPNS)
    assert questions(sides) == [1, 1]


async def test_the_first_chain_is_believed(names: UnstoppableNames, sides: list[Side]) -> None:
    """A name on the first chain is answered from there, whatever the second has."""
    assert await names.resolve(DomainName.parse("brad.crypto")) == Records(WALLET, CONTENT)
    assert await names.resolve(DomainName.parse("both.wallet")) == Records(WALLET, CONTENT)
    assert questions(sides)[0] == 2


async def test_the_owner_is_the_wallet_of_last_resort(
    names: UnstoppableNames, sides: list[Side]
) -> None:
    """Without an address record the owner's wallet is given, at no further cost."""
    owned = await names.resolve(DomainName.parse("owned.x"))
    assert owned == Records(OWNER, CONTENT, wallet_is_owner=True)
    assert questions(sides) == [1, 1]


@pytest.mark.parametrize("name", ["nobody.crypto", "www.brad.crypto", "burnt.x", "lapsed.x"])
async def test_an_absent_name_costs_one_call_a_chain(
    names: UnstoppableNames, sides: list[Side], name: str
) -> None:
    """Unknown, burnt and lapsed names are absent; of the lapsed the contract still has records."""
    with pytest.raises(NameNotFound):
        await names.resolve(DomainName.parse(name))
    assert questions(sides) == [1, 1]


async def test_a_name_without_records_is_absent(names: UnstoppableNames) -> None:
    """Owned, and nothing more: neither wallet nor content."""
    with pytest.raises(NameNotFound):
        await names.resolve(DomainName.parse("bare.x"))


async def test_a_chain_that_is_off_is_not_an_unknown_name(tmp_path: Path) -> None:
    """With the first chain off nothing is known; the second matters only where it is needed."""
    here, nobody = DomainName.parse("here.x"), DomainName.parse("nobody.x")
    async with AsyncExitStack() as stack:
        outbound = await stack.enter_async_context(HttpClient())
        anvils, chains = [], []
        for side in ("first", "second"):
            (tmp_path / side).mkdir()
            anvil = await stack.enter_async_context(running_anvil(tmp_path / side))
            world = await UnstoppableWorld.deploy(anvil)
            await world.name("here.x", owner=OWNER, records=records(WALLET, CID_TEXT))
            rpc = EthereumRpc(outbound, [anvil.url], seconds=2)
            anvils.append(anvil)
            chains.append(Chain(side, rpc, world.proxy_reader))
        await anvils[1].stop()
        assert await UnstoppableNames(chains, TLDS).resolve(here) == Records(WALLET, CONTENT)
        with pytest.raises(UpstreamUnavailable):
            await UnstoppableNames(chains, TLDS).resolve(nobody)
        with pytest.raises(UpstreamUnavailable):
            await UnstoppableNames(chains[::-1], TLDS).resolve(here)


async def test_a_wrong_contract_is_not_an_unknown_name(sides: list[Side]) -> None:
    """An address without code, or with other code, is garbage and never absence."""
    async with HttpClient() as outbound:
        for reader in ("0x" + "99" * 20, sides[0].world.registry):
            rpc = EthereumRpc(outbound, [sides[0].proxy.url], seconds=2)
            names = UnstoppableNames([Chain("wrong", rpc, reader)], TLDS)
            with pytest.raises(InvalidUpstreamResponse):
                await names.resolve(DomainName.parse("brad.crypto"))
