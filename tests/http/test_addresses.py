"""GET /address/resolve/{address}: the primary name of an address, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from eth_abi.abi import encode

from content_gateway.model.wallet import CoinType, parse_address
from tests.cases import case
from tests.contract import Answer
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name, selector
from tests.fakes.miniature import Mood
from tests.http.restarts import NO_CACHE, WALLET, serving
from tests.service import Service, running_service

RAW = bytes.fromhex(WALLET[2:])
BASE = 0x80000000 | 8453
DEFAULT = 0x80000000
BITCOIN = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
ERROR = selector("ResolverError(bytes)")
NOT_TODAY = ERROR + encode(["bytes"], [selector("Error(string)") + encode(["string"], ["no"])])
GATEWAY = selector("HttpError(uint16,string)") + encode(["uint16", "string"], [503, ""])
MISMATCH = selector("ReverseAddressMismatch(string,bytes)") + encode(
    ["string", "bytes"], ["alice.eth", b"\1" * 20]
)


@pytest.fixture
async def service(tmp_path: Path, ethereum: FakeEthereum) -> AsyncIterator[Service]:
    async with serving(tmp_path, ethereum) as service:
        yield service


async def ask(service: Service, address: str, **options: object) -> Answer:
    """The answer to a request for the name of *address*."""
    return await service.ask("GET", f"/address/resolve/{address}", **options)  # type: ignore[arg-type]


def lead(ethereum: FakeEthereum, name: str, raw: bytes = RAW, coin: int = 60) -> None:
    """Let the address have that name, and the name that address."""
    ethereum.primary[raw, coin] = name
    if coin == 60:
        ethereum.names[name] = Name(address="0x" + raw.hex())
    else:
        ethereum.names[name] = Name(addresses={coin: raw})


async def test_an_address_has_a_name(service: Service, ethereum: FakeEthereum) -> None:
    """One call the first time and none the next, in whichever case the address is written."""
    lead(ethereum, "alice.eth")
    for text in (WALLET, WALLET.lower(), "0x" + WALLET[2:].upper()):
        answer = await ask(service, text)
        result = answer.json["result"]
        assert result.pop("resolver").lower() == "0x" + "ab" * 20
        assert result == {"address": WALLET, "coinType": 60, "name": "alice.eth"}
        assert answer.json["message"] == "Address resolved"
        assert answer.headers["cache-control"] == "no-store"
    assert (ethereum.eth_calls, ethereum.posts) == (1, 1)


async def test_each_chain_has_its_own_name(service: Service, ethereum: FakeEthereum) -> None:
    """Base's, the default of all EVM chains, Bitcoin's: never the one of another chain."""
    lead(ethereum, "base.eth", coin=BASE)
    lead(ethereum, "default.eth", coin=DEFAULT)
    lead(ethereum, "coin.eth", parse_address(CoinType(0), BITCOIN), coin=0)
    assert (await ask(service, WALLET)).status == 404
    for text, coin, name in (
        (WALLET, BASE, "base.eth"),
        (WALLET, DEFAULT, "default.eth"),
        (BITCOIN, 0, "coin.eth"),
    ):
        with case(name):
            result = (await ask(service, f"{text}?coinType={coin}")).json["result"]
            assert (result["address"], result["coinType"], result["name"]) == (text, coin, name)


@pytest.mark.parametrize(
    "record",
    [
        "",  # cleared
        "nobody.eth",  # no such name
        "other.eth",  # leads elsewhere
        "unset.eth",  # leads nowhere
        "Alice.eth",  # not as ENSIP-15 spells it
        "alice..eth",  # no name at all
        "alice",  # of one label
        "a\x00lice.eth",
        MISMATCH,
        selector("ResolverNotContract(bytes,address)")
        + encode(["bytes", "address"], [b"", WALLET]),
        selector("UnsupportedResolverProfile(bytes4)") + bytes(32),
    ],
)
async def test_a_name_that_is_not_verified_is_none(
    service: Service, ethereum: FakeEthereum, record: str | bytes
) -> None:
    """404: to show it would let anybody take another one's name."""
    for name in ("Alice.eth", "alice", "a\x00lice.eth"):
        ethereum.names[name] = Name(address=WALLET)
    ethereum.names["other.eth"] = Name(address="0x" + "11" * 20)
    ethereum.names["unset.eth"] = Name()
    ethereum.primary[RAW, 60] = record
    for _ in range(2):
        answer = await ask(service, WALLET)
        assert (answer.status, answer.json["code"]) == (404, "primary-name-not-found")
    assert ethereum.eth_calls == 1


async def test_nobody_has_the_zero_address(service: Service, ethereum: FakeEthereum) -> None:
    """Every name without an address would lead back to it."""
    lead(ethereum, "alice.eth", bytes(20))
    assert (await ask(service, "0x" + "00" * 20)).status == 404
    assert ethereum.posts == 0


@pytest.mark.parametrize(("record", "status"), [(NOT_TODAY, 502), (GATEWAY, 503), (b"", 502)])
async def test_a_failure_is_never_no_name(
    service: Service, ethereum: FakeEthereum, record: bytes, status: int
) -> None:
    """A resolver that reverts, a gateway that is down: it is not known whether there is a name."""
    ethereum.primary[RAW, 60] = record
    assert (await ask(service, WALLET)).status == status
    lead(ethereum, "alice.eth")
    assert (await ask(service, WALLET)).json["result"]["name"] == "alice.eth"


@pytest.mark.parametrize(
    ("fault", "status"),
    [("dark", 503), ("html", 502), ("empty", 502), ("lie", 502), ("revert", 502), ("hang", 504)],
)
async def test_a_broken_endpoint_is_never_no_name(
    service: Service, ethereum: FakeEthereum, fault: Mood, status: int
) -> None:
    """Whether or not there is one."""
    ethereum.misbehave(fault)
    assert (await ask(service, WALLET)).status == status


async def test_without_ens_nothing_is_known(tmp_path: Path) -> None:
    """503, as for a domain."""
    async with running_service(tmp_path) as service:
        assert (await ask(service, WALLET)).status == 503


async def test_an_outage_serves_the_last_name(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """With its age; a refresh that fails too."""
    lead(ethereum, "alice.eth")
    async with serving(tmp_path, ethereum, names__fresh=0.001) as service:
        first = await ask(service, WALLET)
        ethereum.go_dark()
        for headers in ((), NO_CACHE):
            later = await ask(service, WALLET, headers=headers)
            assert later.json == first.json
            assert int(later.headers["age"]) >= 0
            assert "ttl=-" in later.headers["cache-status"]


async def test_many_callers_cost_one_lookup(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """100 requests at once for one address ask the node once."""
    lead(ethereum, "alice.eth")
    patient = {"ens__timeout": 50, "names__deadline": 60}
    async with running_service(tmp_path, ens__rpc_urls=[ethereum.url], **patient) as service:
        answers = await asyncio.gather(*(ask(service, WALLET) for _ in range(100)))
    assert {answer.status for answer in answers} == {200}
    assert ethereum.eth_calls == 1


async def test_a_blocked_name_is_not_told(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """Nor in answers that are in memory when it is listed."""
    listed = tmp_path / "names.txt"
    listed.write_text("bad.eth\n")
    lead(ethereum, "bad.eth")
    async with serving(tmp_path, ethereum, denylist__domains_file=listed) as service:
        for _ in range(2):
            assert (await ask(service, WALLET)).status == 451


BAD = [
    "0x",
    "0x12",
    WALLET[2:],
    WALLET + "00",
    WALLET.replace("d8dA", "D8dA"),  # EIP-55
    "0X" + WALLET[2:],
    "vitalik.eth",
    "%00",
    "%FF",
    "0x" + "g" * 40,
    "0x" + "%EF%BC%91" * 40,
    "a" * 1500,
    BITCOIN,
    BITCOIN + "?coinType=2",
    BITCOIN[:-1] + "b?coinType=0",
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3T4?coinType=0",
    "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5?coinType=0",
    "bc1?coinType=0",
    "bc1" + "b" * 20 + "?coinType=0",
    "bc1" + "%F0%9F%90%B8" * 12 + "?coinType=0",
    "0x1?coinType=0",
    "0x0102?coinType=0",
    "11111?coinType=501",
    "z" * 1500 + "?coinType=501",
    "name?coinType=700",
    "0x" + "00" * 513 + "?coinType=700",
]


async def test_a_bad_address_is_a_clear_400(service: Service, ethereum: FakeEthereum) -> None:
    """A wrong checksum, another chain's form, what is none: refused before anybody is asked."""
    for text in BAD:
        with case(text[:80]):
            answer = await ask(service, text)
            assert (answer.status, answer.json["code"]) == (400, "invalid-address")
            assert "substring" not in answer.json["detail"]  # Python's words, which tell nobody why
    for query in ("coinType=x", "cointype=60", "coinType=60&coinType=60"):
        answer = await ask(service, f"{WALLET}?{query}")
        assert (answer.status, answer.json["code"]) == (400, "invalid-coin-type")
    assert ethereum.posts == 0
