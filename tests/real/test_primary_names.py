"""Names of addresses, and more records of names: real contracts and gateways, the whole service."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from content_gateway.model.wallet import checksummed
from tests.contract import Answer
from tests.fakes.ethereum import namehash
from tests.fakes.gateway import Gateway, running_gateway
from tests.fakes.miniature import Mood
from tests.samples import BASE, CID_TEXT, IPFS, OTHER, WALLET
from tests.service import Service, running_service
from tests.world.ens import EnsWorld, calldata, reverse_name
from tests.world.ethereum import CountingProxy

DEFAULT = 0x80000000


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as gateway:
        yield gateway


@pytest.fixture
async def service(tmp_path: Path, proxy: CountingProxy, gateway: Gateway) -> AsyncIterator[Service]:
    chosen: dict[str, Any] = {"ens__timeout": 10.0, "names__deadline": 30.0}
    async with running_service(
        tmp_path, ens__rpc_urls=[proxy.url], ens__local_gateways=[gateway.url], **chosen
    ) as service:
        yield service


async def name_of(service: Service, address: str, coin: int = 60) -> Answer:
    return await service.ask("GET", f"/address/resolve/{address}?coinType={coin}")


@pytest.mark.parametrize("coin", [60, BASE, DEFAULT])
async def test_an_address_costs_one_call(
    service: Service, proxy: CountingProxy, ens: EnsWorld, coin: int
) -> None:
    """Reverse record and proof in one eth_call; another chain's name is none of this one."""
    raw = coin.to_bytes(20)
    address, name = checksummed(raw), f"me{coin}.eth"
    await ens.name(name, address=address, addresses={BASE: raw, DEFAULT: raw})
    await ens.name(reverse_name(address, coin), primary=name)
    for text in (address, address.lower()):
        assert (await name_of(service, text, coin)).json["result"] == {
            "address": address,
            "coinType": coin,
            "name": name,
            "resolver": ens.public_resolver,
        }
    assert (proxy.eth_calls, len(proxy.requests)) == (1, 1)
    for other in {60, BASE, DEFAULT} - {coin}:
        assert (await name_of(service, address, other)).status == 404


@pytest.mark.parametrize("coin", [60, BASE])
async def test_a_name_that_leads_elsewhere_is_none(
    service: Service, proxy: CountingProxy, ens: EnsWorld, coin: int
) -> None:
    """Whoever owns the address may write any name; the name's owner has to agree."""
    victim, liar = f"victim{coin}.eth", f"0x{coin:040x}"
    await ens.name(victim, address=OTHER, addresses={BASE: bytes.fromhex(OTHER[2:])})
    await ens.name(reverse_name(liar, coin), primary=victim)
    answer = await name_of(service, liar, coin)
    assert (answer.status, answer.json["code"]) == (404, "primary-name-not-found")
    assert proxy.eth_calls == 1


@pytest.mark.parametrize("primary", ["nobody.eth", "a..b", "Me.eth", "me", ""])
async def test_a_record_that_is_no_name_is_none(
    service: Service, ens: EnsWorld, primary: str
) -> None:
    """Not registered, not encodable, not normalised, of one label, cleared."""
    address = "0x" + (primary or "none").encode().hex().rjust(40, "0")
    await ens.name("Me.eth", address=address)
    await ens.name("me", address=address)
    await ens.name(reverse_name(address), primary=primary)
    assert (await name_of(service, address)).status == 404


@pytest.mark.parametrize("coin", [60, BASE])
async def test_both_ways_may_lead_off_the_chain(
    service: Service, proxy: CountingProxy, ens: EnsWorld, gateway: Gateway, coin: int
) -> None:
    """As a second layer keeps names of addresses: a wildcard resolver, and a gateway twice."""
    resolver = await ens.offchain_resolver(gateway.by_get)
    await ens.set_resolver(f"far{coin}.eth", resolver)
    await ens.set_resolver(reverse_name("0x", coin).removeprefix("."), resolver)
    name, address = f"me.far{coin}.eth", "0x" + f"{coin:x}".rjust(40, "a")
    raw, reverse = bytes.fromhex(address[2:]), namehash(reverse_name(address, coin))
    addr = calldata("addr(bytes32,uint256)", namehash(name), coin)
    back = encode(["bytes"], [raw])
    if coin == 60:
        addr = calldata("addr(bytes32)", namehash(name))
        back = encode(["address"], [address])
    gateway.answers = {calldata("name(bytes32)", reverse): encode(["string"], [name]), addr: back}
    result = (await name_of(service, address, coin)).json["result"]
    assert (result["name"], result["resolver"]) == (name, resolver)
    assert (proxy.eth_calls, len(gateway.requests)) == (3, 2)
    # A gateway that lies about the name's address does not make it the name of another one.
    other = "0x" + "bb" * 20
    there = namehash(reverse_name(other, coin))
    gateway.answers[calldata("name(bytes32)", there)] = encode(["string"], [name])
    assert (await name_of(service, other, coin)).status == 404


@pytest.mark.parametrize(
    ("mood", "status"), [("503", 503), ("dark", 503), ("404", 502), ("html", 502), ("hang", 504)]
)
async def test_a_failed_gateway_is_never_no_name(
    service: Service, ens: EnsWorld, gateway: Gateway, mood: Mood, status: int
) -> None:
    """However it fails: it is not known whether there is a name."""
    address = "0x" + mood.encode().hex().rjust(40, "c")
    await ens.set_resolver(reverse_name(address), await ens.offchain_resolver(gateway.by_get))
    gateway.misbehave(mood)
    assert (await name_of(service, address)).status == status


async def test_a_callback_that_refuses_is_never_no_name(
    service: Service, ens: EnsWorld, gateway: Gateway
) -> None:
    """A gateway whose word the resolver does not believe has said nothing."""
    address = "0x" + "dd" * 20
    await ens.set_resolver(reverse_name(address), await ens.distrustful_resolver(gateway.by_get))
    gateway.says = b'{"data": "0x12"}'
    assert (await name_of(service, address)).status == 502


async def test_more_records_cost_no_more_calls(
    service: Service, proxy: CountingProxy, ens: EnsWorld
) -> None:
    """Twenty of them, in one eth_call."""
    await ens.name(
        "texts.eth",
        address=WALLET,
        contenthash=IPFS,
        texts={"avatar": "https://example.com/é.png", "empty": ""},
        addresses={700: b"\x01\x02"},
    )
    others = ",".join(f"text.other{number}" for number in range(17))
    answer = await service.resolve(f"texts.eth?records=text.avatar,text.empty,addr.700,{others}")
    records = answer.json["records"]
    assert answer.json["content"] == {"type": "ipfs", "cid": CID_TEXT}
    assert answer.json["resolver"] == ens.public_resolver
    assert records["text.avatar"] == {"state": "value", "value": "https://example.com/é.png"}
    assert records["addr.700"] == {"state": "value", "value": "0x0102"}
    assert len([one for one in records.values() if one == {"state": "absent"}]) == 18
    assert (proxy.eth_calls, len(proxy.requests)) == (1, 1)


async def test_more_records_off_the_chain(
    service: Service, proxy: CountingProxy, ens: EnsWorld, gateway: Gateway
) -> None:
    """Each by itself: one that the gateway refuses takes nothing from the others."""
    await ens.set_resolver("fartexts.eth", await ens.offchain_resolver(gateway.by_get))
    node = namehash("fartexts.eth")
    gateway.answers = {
        calldata("addr(bytes32)", node): encode(["address"], [WALLET]),
        calldata("contenthash(bytes32)", node): encode(["bytes"], [b""]),
    }
    keys = [f"key{number}" for number in range(20)]
    for key in keys[1:]:
        call = calldata("text(bytes32,string)", node, key)
        gateway.answers[call] = encode(["string"], [key.upper()])
    query = ",".join(f"text.{key}" for key in keys)
    records = (await service.resolve(f"fartexts.eth?records={query}")).json["records"]
    assert records["text.key0"]["state"] == "failed"
    assert all(records[f"text.{key}"]["value"] == key.upper() for key in keys[1:])
    assert (proxy.eth_calls, len(gateway.requests)) == (2, 22)
