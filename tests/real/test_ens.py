"""Names from a real Ethereum node that holds real ENS contracts, through the whole service."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.samples import CID_TEXT, IPFS, IPNS, KEY_TEXT, WALLET
from tests.service import Service, running_service
from tests.world.ens import EnsWorld
from tests.world.ethereum import Anvil, CountingProxy

ADDRESS = {"type": "address", "addr": WALLET}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ens(anvil: Anvil) -> EnsWorld:
    world = await EnsWorld.deploy(anvil)
    await world.name("alias.eth", address=WALLET)
    await world.name("site.eth", address=WALLET, contenthash=IPFS)
    await world.name("blog.eth", address=WALLET, contenthash=IPNS)
    await world.name("owned.eth", contenthash=IPFS, owner=WALLET)
    await world.name("wrapped.eth", contenthash=IPFS)
    await world.wrap("wrapped.eth", WALLET)
    await world.name("bare.eth")
    return world


@pytest.fixture
async def service(tmp_path: Path, proxy: CountingProxy) -> AsyncIterator[Service]:
    """With more patience than ten thousand requests at once need on a machine that is busy."""
    patience = {"ens__timeout": 25.0, "names__deadline": 60.0}
    async with running_service(tmp_path, ens__rpc_urls=[proxy.url], **patience) as service:
        yield service


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("alias.eth", None),
        ("site.eth", {"type": "ipfs", "cid": CID_TEXT}),
        ("blog.eth", {"type": "ipns", "name": KEY_TEXT}),
    ],
)
async def test_a_name_costs_one_call(
    service: Service, proxy: CountingProxy, name: str, content: dict[str, str] | None
) -> None:
    """Wallet and content of a name come with one eth_call, and a warm answer with none."""
    expected = {"message": "Domain resolved", "walletAddress": ADDRESS}
    if content is not None:
        expected["content"] = content
    assert (await service.resolve(name)).json == expected
    assert (await service.resolve(name)).json == expected
    assert (proxy.eth_calls, len(proxy.requests)) == (1, 1)


@pytest.mark.parametrize("name", ["nobody.eth", "sub.nobody.eth", "example.com", "bare.eth"])
async def test_a_name_that_is_not_there_costs_one_call(
    service: Service, proxy: CountingProxy, name: str
) -> None:
    """An unknown name, and one without records, is 404 after one eth_call."""
    answer = await service.resolve(name)
    assert (answer.status, answer.json["code"]) == (404, "domain-not-found")
    assert (proxy.eth_calls, len(proxy.requests)) == (1, 1)


@pytest.mark.parametrize(("name", "calls"), [("owned.eth", 3), ("wrapped.eth", 3)])
async def test_the_owner_is_the_wallet_of_last_resort(
    service: Service, proxy: CountingProxy, name: str, calls: int
) -> None:
    """Without an address record the owner's wallet is given, seen through the NameWrapper."""
    answer = await service.resolve(name)
    assert answer.json["walletAddress"] == ADDRESS
    assert answer.headers["content-gateway-wallet"] == "owner"
    assert proxy.eth_calls == calls


async def test_odd_resolvers_are_absent_not_broken(
    service: Service, proxy: CountingProxy, ens: EnsWorld
) -> None:
    """A resolver that is no contract has no records; one that knows only addresses, no content."""
    await ens.set_resolver("eoa.eth", WALLET)
    await ens.set_resolver("simple.eth", await ens.address_only_resolver(WALLET))
    assert (await service.resolve("eoa.eth")).status == 404
    simple = (await service.resolve("simple.eth")).json
    assert simple == {"message": "Domain resolved", "walletAddress": ADDRESS}


async def test_a_wildcard_name_costs_one_call(
    service: Service, proxy: CountingProxy, ens: EnsWorld
) -> None:
    """A name that only its parent's resolver knows (ENSIP-10) is still one eth_call."""
    await ens.set_resolver("wild.eth", await ens.wildcard_resolver(WALLET, IPFS))
    body = (await service.resolve("anything.wild.eth")).json
    assert body["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert body["walletAddress"] == ADDRESS
    assert proxy.eth_calls == 1


async def test_a_wrong_chain_is_not_an_unknown_name(tmp_path: Path, anvil: Anvil) -> None:
    """A node without the Universal Resolver answers `0x`: that is 502, not absence."""
    empty = "0x00000000000000000000000000000000000000AA"
    async with running_service(
        tmp_path, ens__rpc_urls=[anvil.url], ens__universal_resolver=empty
    ) as service:
        assert (await service.resolve("site.eth")).status == 502


async def test_ten_thousand_requests_for_one_cold_name_cause_one_call(
    service: Service, proxy: CountingProxy
) -> None:
    """However many ask at once, the node is asked once, and everybody gets the answer: who is
    refused since a busy machine cannot answer all of them soon asks again."""
    heard: list[bytes] = []

    async def ask() -> None:
        status, body = 503, b""

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal status, body
            status, body = message.get("status", status), message.get("body", body)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/domain/resolve/site.eth",
            "query_string": b"",
            "headers": [(b"x-api-key", b"me")],
        }
        while status == 503:
            await service.gateway.api(scope, _nothing, send)
            await asyncio.sleep(0.5 if status == 503 else 0.0)
        heard.append(body)

    proxy.delay = 0.5
    await asyncio.gather(*(ask() for _ in range(10_000)))
    assert len(heard) == 10_000
    assert set(heard) == {(await service.resolve("site.eth")).body}
    assert proxy.eth_calls == 1
    # Where this process is too busy to hear the answer, it asks whether the node is well.
    assert {method for method, _ in proxy.requests} <= {"eth_call", "eth_blockNumber"}
    assert len(proxy.requests) <= 2


async def _nothing() -> dict[str, Any]:
    raise AssertionError("no request has a body")
