"""Names whose resolvers fail, on a real node with real contracts, through the whole service.

The resolvers are those of `world/contracts/Failing.sol`: Farcaster's, those of DNS names, and one
that fails in every way that a contract can."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from content_gateway.ethereum.endpoint import MAX_ANSWER_BYTES
from tests.fakes.ethereum import namehash
from tests.fakes.gateway import Gateway, running_gateway
from tests.samples import CID_TEXT, IPFS, WALLET
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.ens import EnsWorld, Way, calldata, dns_wire
from tests.world.ethereum import Anvil, CountingProxy

OWNER = "0x5B38Da6a701c568545dCfcB03FcB875f56beddC4"
ADDRESS = ("returns", encode(["address"], [WALLET]))
ZERO = ("returns", bytes(32))
CONTENT = ("returns", encode(["bytes"], [IPFS]))
UNSET = ("returns", encode(["bytes"], [b""]))
NOT_TODAY = ("reverts", bytes.fromhex("08c379a0") + encode(["string"], ["not today"]))
NOT_IMPLEMENTED = ("reverts", bytes.fromhex("d6234725"))
SILENT: list[Way] = ["invalid", "out of gas", "bare"]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as gateway:
        yield gateway


@pytest.fixture
async def service(tmp_path: Path, proxy: CountingProxy, gateway: Gateway) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path,
        ens__rpc_urls=[proxy.url],
        ens__timeout=20,
        names__deadline=60,
        ens__local_gateways=[gateway.url],
    ) as service:
        yield service


async def resolved(
    service: Service, ens: EnsWorld, name: str, address: Any, content: Any, **more: bool
) -> Any:
    """The answer for *name* with a resolver that does so with its records; OWNER owns it."""
    await ens.name(name, owner=OWNER)
    await ens.set_resolver(name, await ens.failing_resolver(address, content, **more))
    return await service.resolve(name)


async def test_farcasters_names_have_wallets(
    service: Service, ens: EnsWorld, gateway: Gateway
) -> None:
    """Their resolver reverts ResolverFunctionNotSupported to all but addr: that is no content."""
    await ens.set_resolver("fcast.id", await ens.fname_resolver(gateway.by_get))
    gateway.answers[calldata("addr(bytes32)", namehash("fcast.id"))] = ADDRESS[1]
    answer = await service.resolve("fcast.id")
    assert answer.json["walletAddress"]["addr"] == WALLET
    assert answer.json["message"] == "Domain resolved"
    assert "content-gateway-failed" not in answer.headers


@pytest.mark.parametrize("text", ["ENS1 dnsname.ens.eth {}", "ENS1 2.dnsname.ens.eth a[60]={}"])
async def test_dns_names_without_gas_have_wallets(
    service: Service, ens: EnsWorld, gateway: Gateway, text: str
) -> None:
    """ENS's ExtendedDNSResolver reverts NotImplemented to contenthash: that is no content."""
    name = f"{'first' if 'a[60]' in text else 'second'}.com"
    await ens.set_resolver("com", await ens.offchain_dns_resolver(gateway.by_get))
    question = calldata("resolve(bytes,uint16)", dns_wire(name), 16)
    gateway.answers[question] = encode(["string[]"], [["v=spf1 -all", text.format(WALLET)]])
    answer = await service.resolve(name)
    assert answer.json == {
        "message": "Domain resolved",
        "walletAddress": {"type": "address", "addr": WALLET},
    }


async def test_a_dns_name_without_a_record_for_ens_is_absent(
    service: Service, ens: EnsWorld, gateway: Gateway, proxy: CountingProxy
) -> None:
    """CouldNotResolve is absence, and kept as such: the second request asks nobody."""
    await ens.set_resolver("org", await ens.offchain_dns_resolver(gateway.by_get))
    question = calldata("resolve(bytes,uint16)", dns_wire("plain.org"), 16)
    gateway.answers[question] = encode(["string[]"], [["v=spf1 -all"]])
    answer = await service.resolve("plain.org")
    assert (answer.status, answer.json["code"]) == (404, "domain-not-found")
    asked = (proxy.eth_calls, len(gateway.requests))
    assert (await service.resolve("plain.org")).status == 404
    assert (proxy.eth_calls, len(gateway.requests)) == asked


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("way", SILENT)
async def test_a_failing_address_is_not_an_unset_one(
    service: Service, ens: EnsWorld, way: Way, extended: bool
) -> None:
    """INVALID, no gas left, a bare revert: the owner's wallet is not told, and 404 is not said."""
    name = f"{way.replace(' ', '-')}-{extended}.eth".lower()
    answer = await resolved(service, ens, name, (way, b""), CONTENT, extended=extended)
    assert answer.json["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert "walletAddress" not in answer.json
    assert answer.headers["content-gateway-failed"] == "wallet"
    empty = await resolved(service, ens, f"no-{name}", (way, b""), UNSET, extended=extended)
    assert empty.status == 502


async def test_an_unset_address_is_the_owners(service: Service, ens: EnsWorld) -> None:
    """As ever."""
    answer = await resolved(service, ens, "zero.eth", ZERO, CONTENT)
    assert answer.json["walletAddress"]["addr"] == OWNER
    assert answer.headers["content-gateway-wallet"] == "owner"


@pytest.mark.parametrize(("way", "data"), [NOT_IMPLEMENTED, ("returns", b"")])
async def test_an_address_that_a_resolver_does_not_have_is_nobodys(
    service: Service, ens: EnsWorld, way: Way, data: bytes
) -> None:
    """It says that it has no such function: no wallet, no failure, and not the owner's."""
    name = f"nofunction-{len(data)}.eth"
    answer = await resolved(service, ens, name, (way, data), CONTENT)
    assert answer.json["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert "walletAddress" not in answer.json
    assert "content-gateway-failed" not in answer.headers


@pytest.mark.parametrize(
    ("address", "content", "failed"),
    [(NOT_TODAY, CONTENT, "wallet"), (ADDRESS, NOT_TODAY, "content")],
)
async def test_what_is_known_is_told(
    service: Service, ens: EnsWorld, address: Any, content: Any, failed: str
) -> None:
    """Error(string) on one side takes nothing from the other, and is told as the resolver's."""
    answer = await resolved(service, ens, f"moody-{failed}.eth", address, content)
    assert ("walletAddress" in answer.json, "content" in answer.json) == (
        failed == "content",
        failed == "wallet",
    )
    assert answer.headers["content-gateway-failed"] == failed
    assert 'the name\'s resolver reverted with "not today"' in answer.json["message"]


async def test_a_contenthash_that_is_too_large_fails_alone(
    service: Service, ens: EnsWorld, proxy: CountingProxy
) -> None:
    """In hexadecimal it is more than is read: its wallet is told, after three calls."""
    content = ("long", encode(["uint256"], [MAX_ANSWER_BYTES // 2]))
    answer = await resolved(service, ens, "long.eth", ADDRESS, content)
    assert answer.json["walletAddress"]["addr"] == WALLET
    assert answer.headers["content-gateway-failed"] == "content"
    assert proxy.eth_calls == 3


async def test_a_contenthash_of_200_kb_takes_nothing_from_the_wallet(
    service: Service, ens: EnsWorld, proxy: CountingProxy
) -> None:
    """It is read, and is nothing that anybody can use: content of an unreadable kind."""
    content = ("long", encode(["uint256"], [200_000]))
    answer = await resolved(service, ens, "novel.eth", ADDRESS, content)
    assert answer.json["walletAddress"]["addr"] == WALLET
    assert "unreadable" in answer.json["message"]
    assert proxy.eth_calls == 1


@pytest.mark.parametrize("status", ["404", "500"])
async def test_a_gateway_that_refuses_the_contenthash_only(
    service: Service, ens: EnsWorld, gateway: Gateway, status: str
) -> None:
    """The wallet is told, and what the gateway did."""
    name = f"half-{status}.eth"
    await ens.set_resolver(name, await ens.offchain_resolver(gateway.by_get))
    node = namehash(name)
    gateway.answers[calldata("addr(bytes32)", node)] = ADDRESS[1]
    gateway.refused = {calldata("contenthash(bytes32)", node): int(status)}
    answer = await service.resolve(name)
    assert answer.json["walletAddress"]["addr"] == WALLET
    assert answer.headers["content-gateway-failed"] == "content"
    assert "off-chain gateway" in answer.json["message"]


async def test_an_older_universal_resolver_is_said_to_be_one(
    tmp_path: Path, anvil: Anvil, ens: EnsWorld
) -> None:
    """It answers 404 to names that are there; once its interface is asked for, that is 502."""
    await ens.name("there.eth", address=WALLET, contenthash=IPFS)
    old = await ens.old_universal_resolver()
    async with running_service(
        tmp_path, ens__rpc_urls=[anvil.url], ens__universal_resolver=old
    ) as service:
        assert (await service.resolve("there.eth")).status == 404
        service.gateway.universal_resolver.start()

        async def is_said() -> bool:
            answer = await service.resolve("other.eth")
            return answer.status == 502 and "ens.universal_resolver" in answer.json["detail"]

        await eventually(is_said, seconds=60)
