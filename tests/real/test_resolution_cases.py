"""The cases that ENS publishes for libraries (github.com/ensdomains/resolution-tests), each against
contracts of the same kind on a local node: forward, texts, off-chain, reverse and DNS; and names of
a registry on another chain, of which Ethereum knows one name."""

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
ON_LINEA = "0x1111111111111111111111111111111111111111"
LINEA = 0x80000000 | 59144
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


@pytest.mark.parametrize("name", ["alice.linea.eth", "blog.alice.linea.eth"])
async def test_a_registry_on_another_chain_comes_through_a_wildcard(
    service: Service, ens: EnsWorld, gateway: Gateway, name: str
) -> None:
    """With a resolver at `linea.eth` alone, whose gateways know the rest (docs/facts/names.md): all
    records of a name below it are told, by DNS too; one that is empty there is 404, and one whose
    gateway is away is an outage."""
    await ens.set_resolver("linea.eth", await ens.offchain_resolver(gateway.by_get))
    node, nobody = namehash(name), namehash("nobody.linea.eth")
    gateway.answers |= {
        calldata("addr(bytes32)", node): encode(["address"], [WILD]),
        calldata("addr(bytes32,uint256)", node, LINEA): encode(
            ["bytes"], [bytes.fromhex(ON_LINEA[2:])]
        ),
        calldata("contenthash(bytes32)", node): encode(["bytes"], [IPFS]),
        calldata("text(bytes32,string)", node, "avatar"): encode(["string"], [AVATAR]),
        calldata("addr(bytes32)", nobody): encode(["address"], ["0x" + "00" * 20]),
        calldata("contenthash(bytes32)", nobody): encode(["bytes"], [b""]),
    }
    answer = (await service.resolve(f"{name}?records=text.avatar,addr.{LINEA}")).json
    assert answer["walletAddress"]["addr"] == WILD
    assert answer["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert {key: one["value"] for key, one in answer["records"].items()} == {
        "text.avatar": AVATAR,
        f"addr.{LINEA}": ON_LINEA,
    }
    told = (await service.ask("GET", f"/dns-query?name=_dnslink.{name}&type=TXT")).json
    assert [one["data"] for one in told["Answer"]] == [f'"dnslink=/ipfs/{CID_TEXT}"']
    assert (await service.resolve("nobody.linea.eth")).status == 404
    gateway.go_dark()
    assert (await service.resolve("bob.linea.eth")).status == 503
