"""`?records=`: what is wanted beside wallet and content, in the same call, each by itself."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from eth_abi.abi import encode

from tests.cases import case
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name, selector
from tests.http.restarts import ADDRESS, CID, IPFS, SWARM, WALLET, serving
from tests.service import Service, running_service

NOT_TODAY = selector("Error(string)") + encode(["string"], ["not today"])
GATEWAY = selector("HttpError(uint16,string)") + encode(["uint16", "string"], [503, ""])
RESOLVER = "0xabABabABabAbAbABABabABabAbABabABAbABABaB"
BITCOIN = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
SCRIPT = bytes.fromhex("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac")


@pytest.fixture
async def service(tmp_path: Path, ethereum: FakeEthereum) -> AsyncIterator[Service]:
    async with serving(tmp_path, ethereum) as service:
        yield service


async def test_many_records_take_one_call(service: Service, ethereum: FakeEthereum) -> None:
    """A value, nothing, or a failure by itself; whichever contract said so."""
    ethereum.names["site.eth"] = Name(
        address=WALLET,
        contenthash=IPFS,
        addresses={0: SCRIPT, 700: b"\x01\x02"},
        texts={"avatar": "https://example.com/me.png", "url": NOT_TODAY, "bad": b""},
    )
    asked = "text.avatar,text.url,addr.0,addr.60,addr.700,addr.2147492101,text.bad,text.none"
    answer = await service.resolve(f"site.eth?records={asked}")
    assert answer.json == {
        "message": "Domain resolved",
        "content": {"type": "ipfs", "cid": CID},
        "walletAddress": ADDRESS,
        "resolver": answer.json["resolver"],
        "records": {
            "addr.0": {"state": "value", "value": BITCOIN},
            "addr.2147492101": {"state": "absent"},
            "addr.60": {"state": "value", "value": WALLET},
            "addr.700": {"state": "value", "value": "0x0102"},
            "text.avatar": {"state": "value", "value": "https://example.com/me.png"},
            "text.bad": {"state": "absent"},
            "text.none": {"state": "absent"},
            "text.url": {
                "state": "failed",
                "reason": 'The name\'s resolver reverted with "not today".',
            },
        },
    }
    assert answer.json["resolver"].lower() == RESOLVER.lower()
    assert "content-gateway-failed" not in answer.headers
    assert (ethereum.eth_calls, ethereum.posts) == (1, 1)


async def test_what_is_not_asked_for_is_not_told(service: Service, ethereum: FakeEthereum) -> None:
    """Without the parameter the answer is the specification's, and no other."""
    ethereum.names["site.eth"] = Name(address=WALLET, texts={"avatar": "x"})
    await service.resolve("site.eth?records=text.avatar")
    assert (await service.resolve("site.eth")).json == {
        "message": "Domain resolved",
        "walletAddress": ADDRESS,
    }


async def test_the_same_records_are_known_however_they_are_asked_for(
    service: Service, ethereum: FakeEthereum
) -> None:
    """In another order, twice, or in two parameters: the set is what is kept."""
    ethereum.names["site.eth"] = Name(address=WALLET, texts={"avatar": "x"})
    first = await service.resolve("site.eth?records=text.avatar,addr.0")
    for query in (
        "records=addr.0,text.avatar",
        "records=addr.0%2Ctext.avatar",
        "records=addr.0&records=text.avatar",
        "records=addr.0,addr.0,text.avatar",
    ):
        assert (await service.resolve(f"site.eth?{query}")).json == first.json
    assert ethereum.eth_calls == 1
    await service.resolve("site.eth?records=addr.0")
    assert ethereum.eth_calls == 2


async def test_a_name_may_have_nothing_but_a_text(service: Service, ethereum: FakeEthereum) -> None:
    """Then it is there for whoever asks for that; where nothing is set it is not found."""
    ethereum.names["site.eth"] = Name(texts={"avatar": "x"})
    assert (await service.resolve("site.eth")).status == 404
    answer = await service.resolve("site.eth?records=text.avatar")
    assert answer.json["message"] == "Domain resolved; it has no such wallet address"
    assert answer.json["records"] == {"text.avatar": {"state": "value", "value": "x"}}
    assert (await service.resolve("site.eth?records=text.url")).status == 404


async def test_where_only_a_failure_is_known_it_is_an_error(
    service: Service, ethereum: FakeEthereum
) -> None:
    """We could not find out is never 'not found'."""
    ethereum.names["site.eth"] = Name(texts={"avatar": GATEWAY})
    assert (await service.resolve("site.eth?records=text.avatar")).status == 503


async def test_an_outage_serves_the_last_answer_with_its_records(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """As without them; what is fresh costs no call, what is stale says how old it is."""
    ethereum.names["site.eth"] = Name(address=WALLET, texts={"avatar": "x"})
    async with serving(tmp_path, ethereum, names__fresh=0.001) as service:
        whole = await service.resolve("site.eth?records=text.avatar")
        ethereum.names["site.eth"] = Name(address=WALLET, texts={"avatar": GATEWAY})
        refreshed = await service.resolve(
            "site.eth?records=text.avatar", headers=[("Cache-Control", "no-cache")]
        )
        assert refreshed.json == whole.json
        ethereum.go_dark()
        later = await service.resolve("site.eth?records=text.avatar")
        assert later.json == whole.json
        assert "age" in later.headers
        # Another question about the same name is not answered by this one.
        assert (await service.resolve("site.eth?records=text.url")).status == 503


BAD = [
    "",
    ",",
    "avatar",
    "text.",
    "addr.",
    "addr.x",
    "addr.-1",
    "addr.007",
    "addr.4294967296",
    "addr.60,",
    "name",
    "text.a%00b",
    "text.a%0Ab",
    "text.%FF",
    "text." + "k" * 256,
    "text." + quote("é" * 128),
    "text." + "k" * 10_240,
    ",".join(f"addr.{number}" for number in range(21)),
    ",".join("addr.0" for _ in range(3_000)),
]


async def test_bad_keys_are_a_clear_400(service: Service, ethereum: FakeEthereum) -> None:
    """Texts of 10 KB, one record too many, what is neither: refused before anybody is asked."""
    for keys in BAD:
        with case(keys[:60]):
            answer = await service.resolve(f"site.eth?records={keys}")
            assert (answer.status, answer.json["code"]) in (
                (400, "invalid-query"),
                (414, "uri-too-long"),
            )
    assert ethereum.posts == 0


async def test_twenty_records_of_the_longest_keys(service: Service, ethereum: FakeEthereum) -> None:
    """What is within the bounds is asked for."""
    keys = [f"{number:02}" + "k" * 253 for number in range(20)]
    ethereum.names["site.eth"] = Name(address=WALLET, texts=dict.fromkeys(keys, "v" * 8192))
    query = ",".join(f"text.{key}" for key in keys)
    records = (await service.resolve(f"site.eth?records={query}")).json["records"]
    assert records == {f"text.{key}": {"state": "value", "value": "v" * 8192} for key in keys}
    ethereum.names["long.eth"] = Name(address=WALLET, texts={"a": "v" * 8193, "b": "x"})
    records = (await service.resolve("long.eth?records=text.a,text.b")).json["records"]
    assert records["text.a"]["state"] == "failed"
    assert records["text.b"] == {"state": "value", "value": "x"}


async def test_other_content_is_told_as_it_is(service: Service, ethereum: FakeEthereum) -> None:
    """Swarm, a data URL, what nobody reads: type and value, and no `content`."""
    hashes = {
        "swarm": (SWARM, SWARM[-32:].hex()),
        "data-url": (b"data:text/html,<p>hi</p>", "data:text/html,<p>hi</p>"),
        "unreadable": (b"\x01\x02", "0102"),
    }
    for kind, (contenthash, value) in hashes.items():
        with case(kind):
            ethereum.names[f"{kind}.eth"] = Name(address=WALLET, contenthash=contenthash)
            body = (await service.resolve(f"{kind}.eth")).json
            assert body["other"] == {"type": kind, "value": value}
            assert "content" not in body
            assert kind in body["message"]


async def test_a_zone_file_has_addresses_and_no_texts(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """Each coin's own; nobody is asked."""
    zone = tmp_path / "zone.toml"
    zone.write_text(
        f'[names."both.test"]\naddress = "{WALLET}"\naddresses.0 = "{BITCOIN}"\n'
        f'[names."only.test"]\naddresses.0 = "{BITCOIN}"\n'
    )
    async with running_service(
        tmp_path / "data", names__zone_file=zone, ens__rpc_urls=[ethereum.url]
    ) as service:
        asked = "records=addr.0,addr.60,addr.2,text.avatar"
        both = (await service.resolve(f"both.test?{asked}")).json
        assert both["walletAddress"] == ADDRESS
        assert both["records"] == {
            "addr.0": {"state": "value", "value": BITCOIN},
            "addr.2": {"state": "absent"},
            "addr.60": {"state": "value", "value": WALLET},
            "text.avatar": {"state": "absent"},
        }
        assert "resolver" not in both
        only = (await service.resolve(f"only.test?{asked}")).json
        assert only["records"]["addr.0"] == {"state": "value", "value": BITCOIN}
        assert (await service.resolve("only.test?records=text.avatar")).status == 404
    assert ethereum.posts == 0
