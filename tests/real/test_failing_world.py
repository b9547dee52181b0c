"""The resolvers of the test chain that fail do so as the real ones were seen to."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from eth_abi.abi import decode, encode

from tests.world.ens import UNIVERSAL_RESOLVER, EnsWorld, Way, calldata, dns_wire, namehash
from tests.world.ethereum import Anvil, RpcError, running_anvil

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
RECORD = encode(["address"], [WALLET])
ERROR = bytes.fromhex("08c379a0") + encode(["string"], ["the moon is in the wrong house"])
RESOLVER_ERROR = bytes.fromhex("95c0c752")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def anvil(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Anvil]:
    async with running_anvil(tmp_path_factory.mktemp("chain")) as anvil:
        yield anvil


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ens(anvil: Anvil) -> EnsWorld:
    return await EnsWorld.deploy(anvil)


async def multicall(anvil: Anvil, name: str) -> list[bytes]:
    """The two elements that the Universal Resolver returns for *name*."""
    node = namehash(name)
    calls = [calldata("addr(bytes32)", node), calldata("contenthash(bytes32)", node)]
    query = bytes.fromhex("ac9650d8") + encode(["bytes[]"], [calls])
    (result, _) = decode(["bytes", "address"], await _resolve(anvil, name, query))
    return list(decode(["bytes[]"], result)[0])


async def _resolve(anvil: Anvil, name: str, query: bytes) -> bytes:
    return await anvil.call(
        UNIVERSAL_RESOLVER, calldata("resolve(bytes,bytes)", dns_wire(name), query)
    )


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("way", ["invalid", "out of gas", "bare"])
async def test_a_resolver_without_a_word_leaves_an_empty_element(
    anvil: Anvil, ens: EnsWorld, way: Way, extended: bool
) -> None:
    """The other record stands beside it; asked alone, it is a ResolverError without data."""
    name = f"{way.replace(' ', '-')}-{extended}.eth".lower()
    content = encode(["bytes"], [b"content"])
    resolver = await ens.failing_resolver((way, b""), ("returns", content), extended=extended)
    await ens.set_resolver(name, resolver)
    assert await multicall(anvil, name) == [b"", content]
    with pytest.raises(RpcError) as refused:
        await _resolve(anvil, name, calldata("addr(bytes32)", namehash(name)))
    assert refused.value.data == RESOLVER_ERROR + encode(["bytes"], [b""])


async def test_a_revert_stands_in_the_element(anvil: Anvil, ens: EnsWorld) -> None:
    """Error(string), as it was said; and wrapped in ResolverError where it is asked alone."""
    await ens.set_resolver(
        "moon.eth", await ens.failing_resolver(("returns", RECORD), ("reverts", ERROR))
    )
    assert await multicall(anvil, "moon.eth") == [RECORD, ERROR]
    with pytest.raises(RpcError) as refused:
        await _resolve(anvil, "moon.eth", calldata("contenthash(bytes32)", namehash("moon.eth")))
    assert refused.value.data == RESOLVER_ERROR + encode(["bytes"], [ERROR])


async def test_a_universal_resolver_says_which_it_is(anvil: Anvil, ens: EnsWorld) -> None:
    """ENSIP-23's has the interface 0xcd191b34, an older one has not."""
    question = calldata("supportsInterface(bytes4)", bytes.fromhex("cd191b34"))
    assert await anvil.call(UNIVERSAL_RESOLVER, question) == encode(["bool"], [True])
    old = await ens.old_universal_resolver()
    assert await anvil.call(old, question) == encode(["bool"], [False])
