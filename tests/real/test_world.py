"""The real servers are what they claim to be: real contracts, a real cluster, a real Kubo.

Asks them as any client would, through none of our own code. What the gateway
makes of their answers is for the other tests."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path

import aiohttp
import pytest
from eth_abi.abi import decode, encode

from tests.waiting import eventually
from tests.world.cluster import Cluster, running_cluster
from tests.world.ens import EnsWorld, calldata, checksummed, dns_wire, keccak256, namehash
from tests.world.ethereum import Anvil, CountingProxy, RpcError, running_anvil
from tests.world.kubo import Kubo, running_kubo
from tests.world.peers import ask

WALLET = "0x00000000000000000000000000000000DeaDBeef"
STRANGER = "0x" + "22" * 20
CONTENT = bytes.fromhex(
    "e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
)


@pytest.fixture
async def anvil(tmp_path: Path) -> AsyncIterator[Anvil]:
    async with running_anvil(tmp_path) as anvil:
        yield anvil


@pytest.fixture
async def ens(anvil: Anvil) -> EnsWorld:
    return await EnsWorld.deploy(anvil)


@pytest.fixture
async def kubo(tmp_path: Path) -> AsyncIterator[Kubo]:
    async with running_kubo(tmp_path) as kubo:
        yield kubo


@pytest.fixture
async def cluster(tmp_path: Path, kubo: Kubo) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path, kubo) as cluster:
        yield cluster


def records_of(name: str) -> tuple[bytes, bytes]:
    """The calls for address and contenthash of *name*."""
    node = namehash(name)
    return calldata("addr(bytes32)", node), calldata("contenthash(bytes32)", node)


async def resolve(
    anvil: Anvil, name: str, calls: Sequence[bytes] | None = None
) -> tuple[tuple[bytes, ...], str]:
    """The answers to *calls* (address and contenthash), and the resolver that gave them."""
    result, resolver = await resolve_one(
        anvil, name, calldata("multicall(bytes[])", calls or records_of(name))
    )
    (answers,) = decode(["bytes[]"], result)
    return answers, resolver


async def resolve_one(anvil: Anvil, name: str, call: bytes) -> tuple[bytes, str]:
    """The answer to a single *call*, and the resolver that gave it."""
    question = calldata("resolve(bytes,bytes)", dns_wire(name), call)
    answer = await anvil.call(EnsWorld.universal_resolver, question)
    result, resolver = decode(["bytes", "address"], answer)
    return result, checksummed(resolver)


async def refusal(asking: Awaitable[object]) -> bytes:
    """What the contract reverts with, when asked so."""
    with pytest.raises(RpcError) as caught:
        await asking
    return caught.value.data


def error(signature: str, *arguments: object) -> bytes:
    """Errors are encoded as calls are."""
    return calldata(signature, *arguments)


async def test_a_name_has_an_address_and_a_contenthash(anvil: Anvil, ens: EnsWorld) -> None:
    """One eth_call to the mainnet address brings both records and the resolver."""
    await ens.name("site.eth", address=WALLET, contenthash=CONTENT, owner=STRANGER)
    answers, resolver = await resolve(anvil, "site.eth")
    assert answers == (encode(["address"], [WALLET]), encode(["bytes"], [CONTENT]))
    assert resolver == ens.public_resolver
    assert await ens.owner("site.eth") == STRANGER


async def test_an_unknown_name_is_not_found(anvil: Anvil, ens: EnsWorld) -> None:
    """Neither an empty TLD nor an ordinary resolver above the name answers for it."""
    await ens.name("site.eth", address=WALLET)
    for name in ("nobody.eth", "sub.site.eth"):
        expected = error("ResolverNotFound(bytes)", dns_wire(name))
        assert await refusal(resolve(anvil, name)) == expected


async def test_a_wildcard_answers_for_every_subname(anvil: Anvil, ens: EnsWorld) -> None:
    """The nearest ancestor's extended resolver speaks; what it cannot do is an error element."""
    wildcard = await ens.wildcard_resolver(WALLET, CONTENT)
    await ens.set_resolver("wild.eth", wildcard)
    text = calldata("text(bytes32,string)", namehash("a.b.wild.eth"), "url")
    answers, resolver = await resolve(anvil, "a.b.wild.eth", [*records_of("a.b.wild.eth"), text])
    unsupported = error("UnsupportedResolverProfile(bytes4)", text[:4])
    expected = encode(["address"], [WALLET]), encode(["bytes"], [CONTENT]), unsupported
    assert (answers, resolver) == (expected, wildcard)
    assert await refusal(resolve_one(anvil, "a.b.wild.eth", text)) == unsupported


async def test_a_resolver_without_code_is_named_as_such(anvil: Anvil, ens: EnsWorld) -> None:
    """A wallet set as resolver is an error of its own, not an empty answer."""
    await ens.set_resolver("odd.eth", STRANGER)
    expected = error("ResolverNotContract(bytes,address)", dns_wire("odd.eth"), STRANGER)
    assert await refusal(resolve(anvil, "odd.eth")) == expected


async def test_an_unsupported_record_is_an_empty_element(anvil: Anvil, ens: EnsWorld) -> None:
    """An old resolver's address survives its lack of contenthash."""
    await ens.set_resolver("old.eth", await ens.address_only_resolver(WALLET))
    answers, _ = await resolve(anvil, "old.eth")
    assert answers == (encode(["address"], [WALLET]), b"")
    _, contenthash = records_of("old.eth")
    assert await refusal(resolve_one(anvil, "old.eth", contenthash)) == error(
        "ResolverError(bytes)", b""
    )


async def test_off_chain_records_take_a_second_round(anvil: Anvil, ens: EnsWorld) -> None:
    """The caller is sent to the batch gateway with both calls, and comes back with answers."""
    gateway = "https://gateway.example/{sender}/{data}"
    offchain = await ens.offchain_resolver(gateway)
    await ens.set_resolver("far.eth", offchain)
    lookup = await refusal(resolve(anvil, "far.eth"))
    assert lookup[:4] == keccak256(b"OffchainLookup(address,string[],bytes,bytes4,bytes)")[:4]
    sender, urls, query, callback, extra = decode(
        ["address", "string[]", "bytes", "bytes4", "bytes"], lookup[4:]
    )
    assert (checksummed(sender), urls) == (ens.universal_resolver, ("x-batch-gateway:true",))
    (requests,) = decode(["(address,string[],bytes)[]"], query[4:])
    assert requests == tuple((offchain.lower(), (gateway,), call) for call in records_of("far.eth"))

    failure = error("HttpError(uint16,string)", 500, "down")
    response = encode(
        ["bool[]", "bytes[]"], [[False, True], [encode(["address"], [WALLET]), failure]]
    )
    answer = await anvil.call(sender, callback + encode(["bytes", "bytes"], [response, extra]))
    result, _ = decode(["bytes", "address"], answer)
    assert decode(["bytes[]"], result) == ((encode(["address"], [WALLET]), failure),)


async def test_the_wrapper_owns_for_others(anvil: Anvil, ens: EnsWorld) -> None:
    """A wrapped name belongs to the NameWrapper, which knows the wallet behind it."""
    await ens.wrap("wrapped.eth", STRANGER)
    wrapper = await ens.owner("wrapped.eth")
    node = int.from_bytes(namehash("wrapped.eth"))
    answer = await anvil.call(wrapper, calldata("ownerOf(uint256)", node))
    assert answer == encode(["address"], [STRANGER])


async def test_the_chain_survives_a_restart_and_the_proxy_counts(
    anvil: Anvil, ens: EnsWorld
) -> None:
    """A node that stops comes back with its names; a dark proxy does not answer."""
    await ens.name("site.eth", address=WALLET)
    await anvil.stop()
    await anvil.start()
    chain_id = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
    call = {**chain_id, "method": "eth_call", "params": [{"to": ens.registry}, "latest"]}
    async with CountingProxy(anvil.url) as proxy:
        await ask("POST", proxy.url, json=chain_id)
        await ask("POST", proxy.url, json=call)
        assert (proxy.requests[0], proxy.eth_calls) == (("eth_chainId", []), 1)
        proxy.go_dark()
        with pytest.raises(aiohttp.ClientError):
            await ask("POST", proxy.url, json=chain_id)
        proxy.go_dark(503)
        assert (await ask("POST", proxy.url, json=chain_id))[0] == 503
        proxy.come_back()
        assert (await ask("POST", proxy.url, json=chain_id))[0] == 200
    assert (await resolve(anvil, "site.eth"))[0][0] == encode(["address"], [WALLET])


async def test_a_cluster_pin_reaches_kubo_and_survives_a_restart(
    kubo: Kubo, cluster: Cluster
) -> None:
    """A pin posted to the cluster's API is in the pinset, and soon in Kubo, for good."""
    site = await kubo.add_directory({"index.html": b"<p>hello", "a/b.txt": b"deep"})
    block = await kubo.add_raw(b"not pinned")
    assert await ask("GET", f"{kubo.gateway_url}/ipfs/{site}/a/b.txt") == (200, "deep")
    url = f"{cluster.url}/pins/{site}?replication-min=1&replication-max=1"
    assert (await ask("POST", url))[0] == 401
    assert (await ask("POST", url, headers=cluster.credentials))[0] == 200
    await eventually(lambda: kubo.is_pinned(site), what="pinned in Kubo")
    await cluster.stop()
    await kubo.stop()
    await kubo.start()
    await cluster.start()
    assert await cluster.pinset() == {site}
    assert (await cluster.allocation(site) or {})["replication_factor_min"] == 1
    assert await cluster.allocation(block) is None
    assert await kubo.is_pinned(site)
    assert await kubo.has_block(block)
    assert not await kubo.is_pinned(block)
