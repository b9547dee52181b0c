"""Several endpoints before a real node, and Base beside Ethereum, through the whole service."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from tests.samples import CID_TEXT, IPFS, WALLET
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.ens import REGISTRY, EnsWorld
from tests.world.ethereum import Anvil, CountingProxy, LyingProxy, running_anvil

THIEF = "0x000000000000000000000000000000000000dEaD"
OTHER_THIEF = "0x00000000000000000000000000000000DeaDBeef"
ADDRESS = {"type": "address", "addr": WALLET}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def ens(anvil: Anvil) -> EnsWorld:
    """Every name below wild.eth exists, and alice.base.eth has an address."""
    world = await EnsWorld.deploy(anvil)
    await world.set_resolver("wild.eth", await world.wildcard_resolver(WALLET, IPFS))
    await world.name("alice.base.eth", address=WALLET)
    return world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Anvil]:
    """Base, whose registry knows alice and bob, and more of bob than Ethereum does."""
    async with running_anvil(tmp_path_factory.mktemp("base")) as anvil:
        world = await EnsWorld.deploy(anvil)
        await world.name("alice.base.eth", contenthash=IPFS)
        await world.name("bob.base.eth", contenthash=IPFS, owner=WALLET)
        await world.name("bare.base.eth")
        simple = await world.address_only_resolver(WALLET)
        await world.set_resolver("simple.base.eth", simple)
        yield anvil


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def honest(stack: AsyncExitStack, anvil: Anvil, number: int) -> list[CountingProxy]:
    """So many endpoints that pass on what the node says."""
    return [await stack.enter_async_context(CountingProxy(anvil.url)) for _ in range(number)]


async def lying(stack: AsyncExitStack, anvil: Anvil, lie: str = THIEF) -> LyingProxy:
    """An endpoint that gives a thief's address for the wallet's."""
    return await stack.enter_async_context(LyingProxy(anvil.url, truth=WALLET, lie=lie))


async def serving(
    stack: AsyncExitStack, folder: Path, endpoints: Sequence[CountingProxy], **chosen: Any
) -> Service:
    """The service before *endpoints*."""
    urls = [endpoint.url for endpoint in endpoints]
    return await stack.enter_async_context(running_service(folder, ens__rpc_urls=urls, **chosen))


def blocks_asked(endpoints: Sequence[CountingProxy]) -> set[str]:
    """The block of every eth_call."""
    return {
        params[1]
        for endpoint in endpoints
        for method, params in endpoint.requests
        if method == "eth_call"
    }


# -- one after the other --------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, 429, 500])
async def test_a_dead_endpoint_is_passed_over_and_then_left_out(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, status: int | None
) -> None:
    """Every name is answered; after three failures the dead endpoint is not asked any more."""
    first, second = endpoints = await honest(stack, anvil, 2)
    service = await serving(stack, tmp_path, endpoints)
    first.go_dark(status)
    for number in range(8):
        assert (await service.resolve(f"a{number}.wild.eth")).json["walletAddress"] == ADDRESS
    assert first.eth_calls == 3
    assert second.eth_calls == 8


async def test_a_slow_endpoint_does_not_hold_up_the_answer(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil
) -> None:
    """One hedge is asked, whose answer serves; a third endpoint is left in peace."""
    first, second, third = endpoints = await honest(stack, anvil, 3)
    service = await serving(stack, tmp_path, endpoints, ens__timeout=25, names__deadline=60)
    await service.resolve("warm.wild.eth")
    first.delay = 50
    assert (await service.resolve("cold.wild.eth")).json["walletAddress"] == ADDRESS
    assert (second.eth_calls, third.eth_calls) == (1, 0)


async def test_a_node_that_stops_and_comes_back(stack: AsyncExitStack, tmp_path: Path) -> None:
    """Known names serve, others are 503 and never 404; when it is back all is as before."""
    folder = tmp_path / "chain"
    folder.mkdir()
    anvil = await stack.enter_async_context(running_anvil(folder))
    world = await EnsWorld.deploy(anvil)
    await world.set_resolver("wild.eth", await world.wildcard_resolver(WALLET, IPFS))
    service = await stack.enter_async_context(
        running_service(tmp_path / "data", ens__rpc_urls=[anvil.url])
    )
    assert (await service.resolve("known.wild.eth")).status == 200
    await anvil.stop()
    for number in range(20):
        answer = await service.resolve(f"a{number}.wild.eth")
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert (await service.resolve("known.wild.eth")).status == 200
    await anvil.start()

    async def is_back() -> bool:
        return (await service.resolve("b.wild.eth")).status == 200

    await eventually(is_back)
    assert (await service.resolve("a0.wild.eth")).json["walletAddress"] == ADDRESS


# -- a quorum -------------------------------------------------------------------------------


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_a_lying_endpoint_is_outvoted(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, liar: int
) -> None:
    """Two of three tell the truth, and the truth is told; all were asked for one block."""
    endpoints: list[CountingProxy] = [*await honest(stack, anvil, 2)]
    endpoints.insert(liar, await lying(stack, anvil))
    service = await serving(stack, tmp_path, endpoints, ens__quorum=2)
    for number in range(5):
        body = (await service.resolve(f"a{number}.wild.eth")).json
        assert body["walletAddress"] == ADDRESS
        assert body["content"] == {"type": "ipfs", "cid": CID_TEXT}
    now = await anvil.rpc("eth_blockNumber")
    assert blocks_asked(endpoints) == {now}


async def test_without_a_quorum_a_liar_in_front_is_believed(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil
) -> None:
    """What the quorum is for."""
    endpoints = [await lying(stack, anvil), *await honest(stack, anvil, 2)]
    service = await serving(stack, tmp_path, endpoints)
    body = (await service.resolve("a.wild.eth")).json
    assert body["walletAddress"] == {"type": "address", "addr": THIEF}


async def test_endpoints_that_do_not_agree_are_502(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil
) -> None:
    """Two liars of different minds: nothing is believed, and the log names all three."""
    endpoints = [
        await lying(stack, anvil),
        await lying(stack, anvil, OTHER_THIEF),
        *await honest(stack, anvil, 1),
    ]
    service = await serving(stack, tmp_path, endpoints, ens__quorum=2)
    with structlog.testing.capture_logs() as logs:
        answer = await service.resolve("a.wild.eth")
    assert (answer.status, answer.json["code"]) == (502, "invalid-upstream-response")
    said = [entry["said"] for entry in logs if entry["event"] == "rpc endpoints disagree"]
    hosts = {endpoint.url.removeprefix("http://").rstrip("/") for endpoint in endpoints}
    assert {name for votes in said for names in votes.values() for name in names} == hosts
    assert not [host for host in hosts if host in answer.body.decode()]


async def test_a_quorum_survives_one_dead_endpoint_and_not_two(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil
) -> None:
    """With one of three left a name is 503: known to nobody, and not called absent."""
    endpoints = await honest(stack, anvil, 3)
    service = await serving(stack, tmp_path, endpoints, ens__quorum=2)
    endpoints[0].go_dark()
    for number in range(5):
        assert (await service.resolve(f"a{number}.wild.eth")).status == 200
    endpoints[1].go_dark()
    for number in range(5):
        assert (await service.resolve(f"b{number}.wild.eth")).status == 503
    endpoints[1].come_back()

    async def is_back() -> bool:
        return (await service.resolve("c.wild.eth")).status == 200

    await eventually(is_back)


async def test_a_name_that_they_agree_is_not_there_is_404(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil
) -> None:
    """A revert by vote; one endpoint that knows nothing cannot make a name vanish."""
    endpoints = await honest(stack, anvil, 3)
    service = await serving(stack, tmp_path, endpoints, ens__quorum=3)
    assert (await service.resolve("nobody.eth")).status == 404


async def test_a_quorum_sees_a_change_soon(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, ens: EnsWorld
) -> None:
    """The block that is asked for moves on with the chain."""
    service = await serving(stack, tmp_path, await honest(stack, anvil, 2), ens__quorum=2)
    assert (await service.resolve("a.wild.eth")).status == 200
    await anvil.rpc("anvil_mine", hex(100))
    await ens.set_resolver("later.eth", await ens.wildcard_resolver(WALLET))
    names = (f"a{number}.later.eth" for number in count())

    async def is_there() -> bool:
        # Another name each time: absence is remembered for half a minute.
        return (await service.resolve(next(names))).status == 200

    await eventually(is_there)


# -- Basenames ------------------------------------------------------------------------------


async def test_a_basename_is_read_from_both_chains(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, base: Anvil
) -> None:
    """The wallet from Ethereum and the content from Base, at three calls there."""
    (ethereum,) = await honest(stack, anvil, 1)
    (on_base,) = await honest(stack, base, 1)
    service = await serving(
        stack, tmp_path, [ethereum], basenames__rpc_urls=[on_base.url], basenames__registry=REGISTRY
    )
    assert (await service.resolve("alice.base.eth")).json == {
        "message": "Domain resolved",
        "content": {"type": "ipfs", "cid": CID_TEXT},
        "walletAddress": ADDRESS,
    }
    assert (ethereum.eth_calls, on_base.eth_calls) == (1, 3)
    assert (await service.resolve("a.wild.eth")).status == 200
    assert on_base.eth_calls == 3


async def test_a_basename_of_base_alone(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, base: Anvil
) -> None:
    """Ethereum knows nothing of bob: his content is told, and nobody for his wallet, as no `addr`
    has said that it is unset."""
    service = await serving(
        stack,
        tmp_path,
        await honest(stack, anvil, 1),
        basenames__rpc_urls=[base.url],
        basenames__registry=REGISTRY,
    )
    answer = await service.resolve("bob.base.eth")
    assert answer.json["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert "walletAddress" not in answer.json
    assert "content-gateway-wallet" not in answer.headers
    for name in ("nobody.base.eth", "bare.base.eth", "simple.base.eth"):
        assert (await service.resolve(name)).status == 404


async def test_without_base_a_basename_has_its_wallet_alone(
    stack: AsyncExitStack, tmp_path: Path, anvil: Anvil, base: Anvil
) -> None:
    """While Base is down, or its registry is a wrong one, the content has failed and is said to
    have; where nothing else is known that is 503, or 502. Neither is ever 'no content'."""
    (on_base,) = await honest(stack, base, 1)
    endpoints = await honest(stack, anvil, 1)
    on_base.go_dark()
    service = await serving(
        stack,
        tmp_path / "down",
        endpoints,
        basenames__rpc_urls=[on_base.url],
        basenames__registry=REGISTRY,
    )
    await has_its_wallet_alone(service)
    assert (await service.resolve("bob.base.eth")).status == 503
    on_base.come_back()

    async def is_back() -> bool:
        return (await service.resolve("bob.base.eth")).status == 200

    await eventually(is_back)  # the breaker of the endpoint is open for a while
    service = await serving(
        stack,
        tmp_path / "wrong",
        endpoints,
        basenames__rpc_urls=[on_base.url],
        basenames__registry=THIEF,
    )
    await has_its_wallet_alone(service)
    assert (await service.resolve("bob.base.eth")).status == 502


async def has_its_wallet_alone(service: Service) -> None:
    """The answer for alice without what Base would say."""
    answer = await service.resolve("alice.base.eth")
    assert (answer.status, answer.json["walletAddress"]) == (200, ADDRESS)
    assert "content" not in answer.json
    assert answer.headers["content-gateway-failed"] == "content"
