"""Names that change on a real chain: their update is in the next answer after its block, whatever
the cache's clocks say, and a reorganisation takes it back."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from content_gateway.model.domain import DomainName
from tests.samples import CID_TEXT, IPFS, OTHER, OWNER, WALLET
from tests.service import Service, running_service
from tests.waiting import eventually, until
from tests.world.ens import EnsWorld
from tests.world.ethereum import Anvil, CountingProxy
from tests.world.space_id import SpaceIdWorld
from tests.world.unstoppable import UnstoppableWorld

DAY = 86_400.0
HOW = ["pushed", "polled"]


@asynccontextmanager
async def listening(
    tmp_path: Path, how: str, anvil: Anvil, proxy: CountingProxy, **chosen: Any
) -> AsyncIterator[Service]:
    """A service whose answers are fresh for a day, and that listens to the chain."""
    ways: dict[str, dict[str, Any]] = {
        "pushed": {"ens__ws_urls": [anvil.url.replace("http:", "ws:")]},
        "polled": {"names__poll_interval": 0.05},
    }
    patience = {"ens__timeout": 25.0, "names__deadline": 60.0}
    chosen = {"ens__rpc_urls": [proxy.url], "names__fresh": DAY, **patience, **ways[how], **chosen}
    async with running_service(tmp_path, **chosen) as service:
        await until(lambda: all(one.is_up for one in service.gateway.listeners))
        yield service


async def wallet(service: Service, name: str) -> str | None:
    """The address in the answer for *name*; None where there is none."""
    answer = await service.resolve(name)
    return None if answer.status == 404 else str(answer.json["walletAddress"]["addr"])


async def shows(service: Service, name: str, address: str | None) -> None:
    """Wait until the answer for *name* has *address*."""

    async def is_shown() -> bool:
        return await wallet(service, name) == address

    await eventually(is_shown, what=f"{name} has {address}")


@pytest.mark.parametrize("how", HOW)
async def test_an_update_is_in_the_next_answer(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld, proxy: CountingProxy, how: str
) -> None:
    """Of each kind: an address, content, a resolver, a name that is new or gone; each is one
    look-up, and the answer is fresh again."""
    name = f"update-{how}.eth"
    async with listening(tmp_path, how, anvil, proxy) as service:
        assert await wallet(service, name) is None
        await ens.name(name, address=WALLET)
        await shows(service, name, WALLET)
        await ens.name(name, address=OTHER)
        await shows(service, name, OTHER)
        await ens.name(name, contenthash=IPFS)

        async def has_content() -> bool:
            return "content" in (await service.resolve(name)).json

        await eventually(has_content)
        assert (await service.resolve(name)).json["content"]["cid"] == CID_TEXT
        await ens.set_resolver(name, await ens.address_only_resolver(OWNER))
        await shows(service, name, OWNER)
        await ens.set_resolver(name, "0x" + "00" * 20)
        await shows(service, name, None)


@pytest.mark.parametrize("how", HOW)
async def test_a_resolver_for_all_names_below_is_heard(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld, proxy: CountingProxy, how: str
) -> None:
    """Names that only their parent's resolver knows (ENSIP-10) change with that."""
    parent = f"wild-{how}.eth"
    await ens.set_resolver(parent, await ens.wildcard_resolver(WALLET))
    async with listening(tmp_path, how, anvil, proxy) as service:
        await shows(service, f"a.b.{parent}", WALLET)
        await ens.set_resolver(parent, await ens.wildcard_resolver(OTHER))
        await shows(service, f"a.b.{parent}", OTHER)


@pytest.mark.parametrize("how", HOW)
async def test_a_reorganisation_takes_an_update_back(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld, proxy: CountingProxy, how: str
) -> None:
    """The answer is what it was before, once there is another block in the place of its own."""
    name = f"back-{how}.eth"
    await ens.name(name, address=WALLET)
    async with listening(tmp_path, how, anvil, proxy) as service:
        await shows(service, name, WALLET)
        await anvil.rpc("anvil_mine", "0x1")
        await ens.name(name, address=OTHER)
        await shows(service, name, OTHER)
        await anvil.rpc("anvil_reorg", 2, [])
        await anvil.rpc("anvil_mine", "0x1")
        await shows(service, name, WALLET)


@pytest.mark.parametrize("how", HOW)
async def test_unstoppable_names_are_heard(
    tmp_path: Path, anvil: Anvil, proxy: CountingProxy, how: str
) -> None:
    """On each of their chains, by events of their own."""
    world = await UnstoppableWorld.deploy(anvil)
    key, ws = "crypto.ETH.address", anvil.url.replace("http:", "ws:")
    chosen = {
        "unstoppable__polygon_rpc_urls": [proxy.url],
        "unstoppable__polygon_ws_urls": [ws] if how == "pushed" else [],
        "unstoppable__polygon_proxy_reader": world.proxy_reader,
        "ens__rpc_urls": [],
    }
    async with listening(tmp_path, how, anvil, proxy, **chosen) as service:
        assert [one.kind for one in service.gateway.listeners] == ["unstoppable-polygon"]
        assert await wallet(service, "brad.crypto") is None
        await world.name("brad.crypto", owner=OWNER, records={key: WALLET})
        await shows(service, "brad.crypto", WALLET)


@pytest.mark.parametrize("how", HOW)
async def test_names_of_gnosis_are_heard(
    tmp_path: Path, anvil: Anvil, proxy: CountingProxy, how: str
) -> None:
    """On their chain, by ENS's events and nodes of their own."""
    world = await SpaceIdWorld.deploy(anvil)
    name, ws = f"update-{how}.gno", anvil.url.replace("http:", "ws:")
    chosen = {
        "gnosis__rpc_urls": [proxy.url],
        "gnosis__ws_urls": [ws] if how == "pushed" else [],
        "ens__rpc_urls": [],
    }
    async with listening(tmp_path, how, anvil, proxy, **chosen) as service:
        assert [one.kind for one in service.gateway.listeners] == ["gnosis"]
        assert await wallet(service, name) is None
        await world.name(name, address=WALLET)
        await shows(service, name, WALLET)
        await world.name(name, address=OTHER)
        await shows(service, name, OTHER)


async def test_a_dead_listener_leaves_the_clocks(
    tmp_path: Path, ens: EnsWorld, anvil: Anvil, proxy: CountingProxy
) -> None:
    """Answers go on to be as old as they may be, and no older."""
    await ens.name("clocks.eth", address=WALLET)
    chosen = {"ens__rpc_urls": [proxy.url], "ens__ws_urls": ["ws://127.0.0.1:9"]}
    async with running_service(
        tmp_path, **chosen, names__fresh=0.5, names__stale_limit=0.5
    ) as service:
        await until(lambda: service.gateway.listeners[0].events["failed"] > 0)
        await shows(service, "clocks.eth", WALLET)
        await ens.name("clocks.eth", address=OTHER)
        await shows(service, "clocks.eth", OTHER)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", HOW)
async def test_ten_thousand_names_cost_one_call_a_block(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld, proxy: CountingProxy, how: str
) -> None:
    """All of them are in memory, twenty change in as many blocks: each block costs at most one
    `eth_getLogs`, and each change one look-up."""
    parent = f"many-{how}.eth"
    await ens.set_resolver(parent, await ens.wildcard_resolver(WALLET))
    names = [DomainName(f"n{number}.{parent}") for number in range(10_000)]
    async with listening(tmp_path, how, anvil, proxy) as service:
        directory = service.gateway.directory

        async def resolve_all() -> None:
            for at in range(0, len(names), 100):
                await asyncio.gather(*map(directory.resolve, names[at : at + 100]))

        await resolve_all()
        blocks = service.gateway.listeners[0].events["blocks"]
        proxy.requests.clear()
        changing = names[:: len(names) // 20]
        for name in changing:
            assert await wallet(service, name.text) == WALLET
            await ens.name(name.text, address=OTHER)
            await shows(service, name.text, OTHER)
        await resolve_all()
        heard = service.gateway.listeners[0].events["blocks"] - blocks
    asked = Counter(method for method, _ in proxy.requests)
    assert heard >= len(changing)
    assert asked["eth_getLogs"] <= heard
    if how == "pushed":
        assert asked["eth_getLogs"] == asked["eth_getBlockByNumber"] == 0
    # A name is registered in several transactions, each of them a block and a change.
    assert len(changing) <= asked["eth_call"] <= 3 * len(changing)
