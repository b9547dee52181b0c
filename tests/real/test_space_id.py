"""Names of `.gno` through the whole service: a registry and resolvers on a real node for Gnosis."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.samples import CID_TEXT, IPFS, OTHER, OWNER, WALLET
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.ens import EnsWorld
from tests.world.ethereum import Anvil, CountingProxy
from tests.world.space_id import SpaceIdWorld

ON_GNOSIS = 0x80000000 | 100
CONTENT = {"type": "ipfs", "cid": CID_TEXT}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gnosis(anvil: Anvil) -> SpaceIdWorld:
    """Names of every kind."""
    world = await SpaceIdWorld.deploy(anvil)
    await world.name(
        "alice.gno",
        address=WALLET,
        contenthash=IPFS,
        texts={"url": "https://alice.example"},
        addresses={ON_GNOSIS: bytes.fromhex(OTHER[2:])},
    )
    await world.name("blog.alice.gno", contenthash=IPFS, owner=OWNER)
    await world.name("bare.gno")
    await world.set_resolver("simple.gno", await world.address_only_resolver(WALLET))
    await world.set_resolver("wild.gno", await world.wildcard_resolver(WALLET, IPFS))
    return world


@pytest.fixture
async def service(
    tmp_path: Path, gnosis: SpaceIdWorld, proxy: CountingProxy
) -> AsyncIterator[Service]:
    """Before Gnosis alone, which counts the questions."""
    async with running_service(tmp_path, gnosis__rpc_urls=[proxy.url], **PATIENCE) as service:
        yield service


# A busy machine is no slow node, which would be asked once more.
PATIENCE: dict[str, Any] = {"ens__timeout": 25.0, "names__deadline": 60.0}


async def test_a_name_is_read_from_gnosis(service: Service, proxy: CountingProxy) -> None:
    """Wallet and content, at four calls."""
    assert (await service.resolve("alice.gno")).json == {
        "message": "Domain resolved",
        "content": CONTENT,
        "walletAddress": {"type": "address", "addr": WALLET},
    }
    assert proxy.eth_calls == 4


async def test_more_records_and_other_coins(service: Service, gnosis: SpaceIdWorld) -> None:
    """Texts, and the address that is kept under Gnosis's own number."""
    path = f"alice.gno?coinType={ON_GNOSIS}&records=text.url,text.avatar,addr.60"
    answer = (await service.resolve(path)).json
    assert answer["walletAddress"]["addr"] == OTHER
    assert answer["resolver"] == gnosis.public_resolver
    assert {key: one.get("value") for key, one in answer["records"].items()} == {
        "text.url": "https://alice.example",
        "text.avatar": None,
        "addr.60": WALLET,
    }


async def test_the_owner_of_a_name_below_a_name_stands_in(service: Service) -> None:
    """Where it has content and no address."""
    answer = await service.resolve("blog.alice.gno")
    assert answer.json["content"] == CONTENT
    assert answer.json["walletAddress"]["addr"] == OWNER
    assert answer.headers["content-gateway-wallet"] == "owner"


async def test_a_resolver_without_contenthash(service: Service) -> None:
    """It refuses without a word, and the wallet is told."""
    answer = (await service.resolve("simple.gno")).json
    assert answer["walletAddress"]["addr"] == WALLET
    assert "content" not in answer


@pytest.mark.parametrize("name", ["nobody.gno", "bare.gno", "a.wild.gno"])
async def test_what_is_not_there_is_404(service: Service, name: str) -> None:
    """No name, none of its records, and one that only a wildcard would answer for."""
    assert (await service.resolve(name)).status == 404


async def test_ens_is_another_namespace(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld, gnosis: SpaceIdWorld
) -> None:
    """The same words there have another node; where Gnosis is not asked that is an outage, and
    ENS's word is not taken for it."""
    await ens.name("alice.gno.eth", address=OTHER)
    await ens.name("alice.gno", address=OTHER)
    async with AsyncExitStack() as stack:
        for number, (urls, status) in enumerate((([anvil.url], 200), ([], 503))):
            service = await stack.enter_async_context(
                running_service(
                    tmp_path / str(number), ens__rpc_urls=[anvil.url], gnosis__rpc_urls=urls
                )
            )
            answer = await service.resolve("alice.gno")
            assert answer.status == status
            if status == 200:
                assert answer.json["walletAddress"]["addr"] == WALLET
            other = (await service.resolve("alice.gno.eth")).json
            assert other["walletAddress"]["addr"] == OTHER


async def test_an_outage_of_gnosis_is_never_absence(
    service: Service, proxy: CountingProxy, gnosis: SpaceIdWorld
) -> None:
    """What is known is told, what is not is 503; and then it is found."""
    assert (await service.resolve("alice.gno")).status == 200
    proxy.go_dark()
    assert (await service.resolve("alice.gno")).status == 200
    assert (await service.resolve("blog.alice.gno")).status == 503
    assert (await service.resolve("nobody.gno")).status == 503
    proxy.come_back()

    async def is_back() -> bool:
        return (await service.resolve("blog.alice.gno")).status == 200

    await eventually(is_back)


async def test_a_quorum_is_asked_on_gnosis_too(
    tmp_path: Path, anvil: Anvil, gnosis: SpaceIdWorld
) -> None:
    """Each of two endpoints is asked what the other is."""
    async with CountingProxy(anvil.url) as one, CountingProxy(anvil.url) as other:
        async with running_service(
            tmp_path, gnosis__rpc_urls=[one.url, other.url], ens__quorum=2, **PATIENCE
        ) as service:
            answer = (await service.resolve("alice.gno")).json
        assert answer["walletAddress"]["addr"] == WALLET
        assert one.eth_calls == other.eth_calls == 4
