"""Resolve through the whole service: coin types, refreshes, and settings that say so."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from content_gateway.errors import WrongSettings
from content_gateway.http.operations.domain_answers import RenderedResolutions
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Records, Resolution
from content_gateway.model.wallet import CoinType
from content_gateway.settings.sources import load
from tests.cases import case
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.fakes.origin import Origin as FakeOrigin
from tests.fakes.unstoppable import running_chain
from tests.http.restarts import ADDRESS, CID, IPFS, NO_CACHE, WALLET, let_age, serving
from tests.service import Service

ON_BASE = "0x000000000000000000000000000000000000dEaD"
BASE = 0x80000000 | 8453


@pytest.fixture
async def service(
    tmp_path: Path, ethereum: FakeEthereum, origin: FakeOrigin
) -> AsyncIterator[Service]:
    async with serving(tmp_path, ethereum, ipns__routers=[origin.url]) as service:
        yield service


# -- coin types -----------------------------------------------------------------------------


async def test_the_address_of_a_chain_is_told(service: Service, ethereum: FakeEthereum) -> None:
    """Each coin has its own, at one eth_call each, and the content is the name's."""
    ethereum.names["site.eth"] = Name(
        address=WALLET, contenthash=IPFS, addresses={BASE: bytes.fromhex(ON_BASE[2:])}
    )
    for _ in range(2):
        on_base = (await service.resolve(f"site.eth?coinType={BASE}")).json
        assert on_base["walletAddress"] == {"type": "address", "addr": ON_BASE}
        assert on_base["content"] == {"type": "ipfs", "cid": CID}
        assert (await service.resolve("site.eth")).json["walletAddress"] == ADDRESS
        assert (await service.resolve("site.eth?coinType=60")).json["walletAddress"] == ADDRESS
    assert ethereum.eth_calls == 2


async def test_a_coin_without_address_never_falls_back(
    service: Service, ethereum: FakeEthereum
) -> None:
    """Neither on Ethereum's address nor on the owner's; a name with nothing else is 404."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS, owner=WALLET)
    ethereum.names["alias.eth"] = Name(address=WALLET, owner=WALLET)
    answer = await service.resolve("site.eth?coinType=0")
    assert "walletAddress" not in answer.json
    assert "content-gateway-wallet" not in answer.headers
    assert "no such wallet" in answer.json["message"]
    answer = await service.resolve("alias.eth?coinType=0")
    assert (answer.status, answer.json["code"]) == (404, "domain-not-found")
    assert (await service.resolve("alias.eth")).status == 200


BAD_COIN_TYPES = [
    "coinType=",
    "coinType",
    "coinType=eth",
    "coinType=-60",
    "coinType=60.0",
    "coinType=+60",
    "coinType=0x3c",
    "coinType=4294967296",
    "coinType=" + "9" * 400,
    "coinType=%D9%A6%D9%A0",
    "coinType=60&coinType=60",
    "coinType=60&coinType=0",
    "coinType=60&coinType=",
    "a=1&coinType=nope",
    "coin%54ype=nope",
    "&".join(f"x{number}=1" for number in range(40)),
    # Whoever wants an address on another chain is not told the one on Ethereum.
    *(f"{misspelt}=0" for misspelt in ("cointype", "CoinType", "coin_type", "coin-type", "coin")),
    *(f"{misspelt}=0" for misspelt in ("coinType[]", "coinType%5B0%5D", "coinTypes", "coinType+")),
]


async def test_a_coin_type_that_cannot_be_right_is_400(
    service: Service, ethereum: FakeEthereum
) -> None:
    """Unknown, no number, given twice, misspelt, or lost among others: nobody is asked."""
    for query in BAD_COIN_TYPES:
        with case(query):
            ethereum.names["site.eth"] = Name(address=WALLET)
            answer = await service.resolve(f"site.eth?{query}")
            assert (answer.status, answer.json["code"]) == (400, "invalid-coin-type")
            assert ethereum.posts == 0


async def test_a_coin_without_a_text_form_of_ours_is_its_bytes(
    service: Service, ethereum: FakeEthereum
) -> None:
    """Whoever knows the coin can write them; a record of no use to anybody takes nothing away."""
    raw = bytes.fromhex("0001b2")
    ethereum.names["site.eth"] = Name(contenthash=IPFS, addresses={354: raw, 1: b"\1" * 600})
    answer = await service.resolve("site.eth?coinType=354")
    assert answer.json["walletAddress"] == {"type": "address", "addr": "0x0001b2"}
    answer = await service.resolve("site.eth?coinType=1")
    assert answer.headers["content-gateway-failed"] == "wallet"
    assert answer.json["content"]["cid"] == CID


async def test_a_long_label_is_asked_for(service: Service, ethereum: FakeEthereum) -> None:
    """ENS bounds labels, not names: 250 letters under .eth resolve."""
    text = "f" * 250 + ".eth"
    ethereum.names[text] = Name(address=WALLET)
    assert (await service.resolve(text)).json["walletAddress"] == ADDRESS
    assert (await service.ask("GET", f"/domain/records/{text}")).json["result"]["domain"] == text


async def test_a_shared_ending_asks_once_for_a_coin_that_is_not_read(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """ENS may hold such an address, Unstoppable Domains' are not read: known for 30 seconds."""
    async with (
        running_chain() as chain,
        serving(
            tmp_path,
            ethereum,
            unstoppable__shared_tlds=["xyz"],
            unstoppable__polygon_rpc_urls=[chain.url],
        ) as service,
    ):
        for _ in range(300):
            answer = await service.resolve("name.xyz?coinType=0")
            assert (answer.status, answer.json["code"]) == (400, "invalid-coin-type")
        assert ethereum.eth_calls == 1


async def test_a_zone_name_is_one_reply_for_each_wallet(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """Asked 300 times for other coins, its content is one answer, kept once."""
    zone = tmp_path / "zone.toml"
    zone.write_text(f'[names."site.demo"]\naddress = "{WALLET}"\ncontent = "ipfs://{CID}"\n')
    async with serving(tmp_path, ethereum, names__zone_file=zone) as service:
        name = DomainName.parse("site.demo")
        rendered = RenderedResolutions()
        responses = set()
        for number in range(300):
            coin = CoinType(number % 7)
            responses.add(id(rendered.of(await service.gateway.directory.resolve(name, coin))))
        assert len(responses) == 1
        assert len(rendered) == 1


def test_rendered_replies_are_bounded_and_the_oldest_go_first() -> None:
    """The ten thousand and first takes the place of one, not of all."""
    rendered = RenderedResolutions()
    given = [Resolution(Records(WALLET)) for _ in range(RenderedResolutions.MAX_KEPT + 1)]
    responses = [rendered.of(resolution) for resolution in given]
    assert len(rendered) == RenderedResolutions.MAX_KEPT
    assert rendered.of(given[-1]) is responses[-1]
    assert rendered.of(given[1]) is responses[1]
    assert rendered.of(given[0]) is not responses[0]


OTHER_QUERIES = ["", "?", "&&&", "=", "=60", "x=1", "%ff=%00", "a;b=c"]


async def test_any_other_query_is_no_matter(service: Service, ethereum: FakeEthereum) -> None:
    """Only coinType, spelt so, means something."""
    for query in OTHER_QUERIES:
        with case(query):
            ethereum.names["site.eth"] = Name(address=WALLET)
            assert (await service.resolve(f"site.eth?{query}")).json["walletAddress"] == ADDRESS


# -- refreshes ----------------------------------------------------------------------------


async def test_no_cache_forces_one_refresh(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """`Cache-Control: no-cache` refreshes what is known, and then not again for 5 seconds."""
    ethereum.names["site.eth"] = Name(address=ON_BASE)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth")
        for _ in range(5):
            await service.resolve("site.eth", headers=NO_CACHE)
        assert ethereum.eth_calls == 1, "it was refreshed a moment ago"
    let_age(tmp_path, 6)
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        old = await service.resolve("site.eth")
        assert old.json["walletAddress"]["addr"] == ON_BASE
        assert ethereum.eth_calls == 1, "a fresh answer outlives a restart"
        answers = await asyncio.gather(
            *(service.resolve("site.eth", headers=NO_CACHE) for _ in range(20))
        )
        assert {answer.json["walletAddress"]["addr"] for answer in answers} == {WALLET}
        for _ in range(5):
            await service.resolve("site.eth", headers=NO_CACHE)
        assert ethereum.eth_calls == 2
        assert (await service.resolve("site.eth")).json["walletAddress"] == ADDRESS


@pytest.mark.parametrize(
    ("value", "demands"),
    [
        ("no-cache", True),
        ("No-Cache", True),
        ("max-age=0, no-cache", True),
        ("no-cache ,max-age=0", True),
        ("max-age=0", False),
        ("no-store", False),
        ("x-no-cache", False),
        ("", False),
    ],
)
async def test_only_no_cache_demands_one(
    tmp_path: Path, ethereum: FakeEthereum, value: str, demands: bool
) -> None:
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth")
    let_age(tmp_path, 6)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth", headers=[("cache-control", value)])
    assert ethereum.eth_calls == 1 + demands


async def test_a_refresh_needs_a_key(service: Service, ethereum: FakeEthereum) -> None:
    answer = await service.resolve("site.eth", key=None, headers=NO_CACHE)
    assert answer.status == 401
    assert ethereum.posts == 0


async def test_a_refresh_that_fails_takes_nothing_away(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """During an outage the demand is answered with what is known, whatever the limits."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth")
    let_age(tmp_path, 6)
    ethereum.go_dark()
    async with serving(tmp_path, ethereum, names__stale_limit=0) as service:
        for headers in (NO_CACHE, [], NO_CACHE):
            answer = await service.resolve("site.eth", headers=headers)
            assert (answer.status, "age" in answer.headers) == (200, headers is NO_CACHE)


# -- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ens.local_gateways": ["http://127.0.0.1:1"]}, "local_gateways"),
        ({"ens.quorum": 2, "ens.rpc_urls": ["http://127.0.0.1:1"]}, "quorum"),
        ({"ens.quorum": 0}, "quorum"),
        ({"names.stale_limit": -1}, "stale_limit"),
        ({"basenames.registry": "0x12"}, "registry"),
        ({"gnosis.registry": "0x12"}, "registry"),
        ({"ens.quorum": 2, "gnosis.rpc_urls": ["http://127.0.0.1:1"]}, "gnosis.rpc_urls"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(WrongSettings, match=reason):
        load(environ={}, command_line=values)


@pytest.mark.parametrize(
    "values",
    [
        {"ens.local_gateways": ["http://127.0.0.1:1"], "keys.mode": "open"},
        {"ens.quorum": 2, "ens.rpc_urls": ["http://127.0.0.1:1", "http://127.0.0.1:2"]},
        {"ens.quorum": 3, "ens.rpc_urls": []},
        {"names.stale_limit": 0},
    ],
)
def test_settings_that_can_be_meant_are_taken(values: dict[str, Any]) -> None:
    load(environ={}, command_line=values)
