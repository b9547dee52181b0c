"""The cases that ENS publishes for libraries (github.com/ensdomains/resolution-tests), each against
contracts of the same kind on a local node: forward, texts, off-chain, reverse and DNS."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from tests.fakes.ethereum import namehash
from tests.fakes.gateway import Gateway, running_gateway
from tests.samples import BASE, CID_TEXT, IPFS
from tests.service import Service, running_service
from tests.world.ens import EnsWorld, calldata, dns_wire, reverse_name
from tests.world.ethereum import CountingProxy

AVATAR = "https://example.com/assets/avatar.svg"
PARTICULAR = "0x2222222222222222222222222222222222222222"
ON_BASE = "0xa66E90D515F576f49Af2dF40952476D56F72A420"
WILD = "0x51050ec063d393217B436747617aD1C2285Aeeee"
OFFCHAIN = "0x779981590E7Ccc0CFAe8040Ce7151324747cDb97"
IN_DNS = "0x534631Bcf33BDb069fB20A93d2fdb9e4D4dD42CF"
REVERSED_BY_UR = "0x3AF5CFc7C7f29Da9d7758339b8eaB6a78550Cbed"
REVERSED = "0xeE9eeaAB0Bb7D9B969D701f6f8212609EDeA252E"


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as gateway:
        yield gateway


@pytest.fixture
async def service(
    tmp_path: Path, proxy: CountingProxy, ens: EnsWorld, gateway: Gateway
) -> AsyncIterator[Service]:
    """Before a chain on which the names of the cases are what they are on mainnet."""
    await ens.set_resolver("ur.integration-tests.eth", await ens.particular_resolver(PARTICULAR))
    await ens.name("coins.integration-tests.eth", addresses={BASE: bytes.fromhex(ON_BASE[2:])})
    await ens.set_resolver("nft-owner.eth", await ens.wildcard_resolver(WILD))
    await ens.name("integration-tests.eth", contenthash=IPFS, texts={"avatar": AVATAR})
    far = await ens.offchain_resolver(gateway.by_get)
    await ens.set_resolver("offchaindemo.eth", far)
    node = namehash("test.offchaindemo.eth")
    gateway.answers = {
        calldata("addr(bytes32)", node): encode(["address"], [OFFCHAIN]),
        calldata("contenthash(bytes32)", node): encode(["bytes"], [b""]),
        calldata("text(bytes32,string)", node, "description"): encode(["string"], ["asdf"]),
        calldata("name(bytes32)", namehash(reverse_name(ON_BASE, BASE))): encode(
            ["string"], ["coins.integration-tests.eth"]
        ),
        calldata("resolve(bytes,uint16)", dns_wire("pokersback.com"), 16): encode(
            ["string[]"], [[f"ENS1 dnsname.ens.eth {IN_DNS}"]]
        ),
    }
    of_dns = await ens.offchain_dns_resolver(gateway.by_get)
    await ens.set_resolver("com", of_dns)
    primary = "ur-reverse.integration-tests.eth"
    particular = await ens.particular_resolver(REVERSED_BY_UR, primary)
    await ens.set_resolver(primary, particular)
    await ens.set_resolver(reverse_name(REVERSED_BY_UR), particular)
    await ens.name("devrel.enslabs.eth", address=REVERSED)
    await ens.name(reverse_name(REVERSED), primary="devrel.enslabs.eth")
    await ens.set_resolver(f"{BASE:x}.reverse", far)
    chosen: dict[str, Any] = {"ens__timeout": 10.0, "names__deadline": 30.0}
    async with running_service(
        tmp_path, ens__rpc_urls=[proxy.url], ens__local_gateways=[gateway.url], **chosen
    ) as service:
        yield service


async def test_the_cases_of_ens(service: Service) -> None:
    """All eleven are answered as they shall be."""

    async def wallet(name: str, coin: int = 60) -> Any:
        body = (await service.resolve(f"{name}?coinType={coin}")).json
        return body.get("walletAddress", body).get("addr", body)

    async def text(name: str, key: str) -> Any:
        body = (await service.resolve(f"{name}?records=text.{key}")).json
        return body.get("records", {f"text.{key}": body})[f"text.{key}"].get("value", body)

    async def content(name: str) -> Any:
        body = (await service.resolve(name)).json
        return body.get("content", body).get("cid", body)

    async def primary(address: str, coin: int = 60) -> Any:
        body = (await service.ask("GET", f"/address/resolve/{address}?coinType={coin}")).json
        return body.get("result", body).get("name", body)

    assert {
        "universal-resolver": await wallet("ur.integration-tests.eth"),
        "forward-base-onchain": await wallet("coins.integration-tests.eth", BASE),
        "forward-wildcard": await wallet("moo331.nft-owner.eth"),
        "forward-eth-offchain": await wallet("test.offchaindemo.eth"),
        "forward-text-onchain": await text("integration-tests.eth", "avatar"),
        "forward-text-offchain": await text("test.offchaindemo.eth", "description"),
        "forward-contenthash": await content("integration-tests.eth"),
        "reverse-universal-resolver": await primary(REVERSED_BY_UR),
        "reverse-eth": await primary(REVERSED),
        "reverse-l2": await primary(ON_BASE, BASE),
        "forward-dns-offchain": await wallet("pokersback.com"),
    } == {
        "universal-resolver": PARTICULAR,
        "forward-base-onchain": ON_BASE,
        "forward-wildcard": WILD,
        "forward-eth-offchain": OFFCHAIN,
        "forward-text-onchain": AVATAR,
        "forward-text-offchain": "asdf",
        "forward-contenthash": CID_TEXT,
        "reverse-universal-resolver": "ur-reverse.integration-tests.eth",
        "reverse-eth": "devrel.enslabs.eth",
        "reverse-l2": "coins.integration-tests.eth",
        "forward-dns-offchain": IN_DNS,
    }
