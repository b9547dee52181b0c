"""GET /domain/resolve/{domain}, over a zone file and a node in miniature."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from tests.cases import case
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin as FakeOrigin
from tests.http.restarts import ADDRESS, CID, IPFS, SWARM, WALLET
from tests.service import Service, running_service


@pytest.fixture
async def service(
    tmp_path: Path, ethereum: FakeEthereum, origin: FakeOrigin
) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path, ens__rpc_urls=[ethereum.url], ens__timeout=1, ipns__routers=[origin.url]
    ) as service:
        yield service


async def test_an_alias_has_a_wallet_and_no_content(
    service: Service, ethereum: FakeEthereum
) -> None:
    """Rule 1: a domain that is only a wallet alias yields walletAddress alone."""
    ethereum.names["alias.eth"] = Name(address=WALLET)
    answer = await service.resolve("alias.eth")
    assert answer.json == {"message": "Domain resolved", "walletAddress": ADDRESS}
    assert answer.headers["cache-control"] == "no-store"


async def test_a_site_has_content_and_a_wallet(service: Service, ethereum: FakeEthereum) -> None:
    """Rule 2: IPFS content comes with its CID, and no ipnsCache (rule 4)."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    assert (await service.resolve("SITE.eth")).json == {
        "message": "Domain resolved",
        "content": {"type": "ipfs", "cid": CID},
        "walletAddress": ADDRESS,
    }


async def test_ipns_content_is_resolved_at_the_first_request(
    service: Service, ethereum: FakeEthereum, origin: FakeOrigin
) -> None:
    """Rules 2 and 3: the request starts an IPNS resolution; the verified CID is ipnsCache."""
    key = Ed25519PrivateKey.generate()
    name = ipns_name(key)
    origin.records[name.text] = sign_record(key, f"/ipfs/{CID}", sequence=1)
    ethereum.names["blog.eth"] = Name(
        address=WALLET, contenthash=bytes.fromhex("e5010172") + name.multihash
    )
    assert (await service.resolve("blog.eth")).json == {
        "message": "Domain resolved",
        "content": {"type": "ipns", "name": name.text, "ipnsCache": CID},
        "walletAddress": ADDRESS,
    }


async def test_an_unverified_record_is_no_cache(
    service: Service, ethereum: FakeEthereum, origin: FakeOrigin
) -> None:
    """A router that serves somebody else's record is not believed: ipnsCache is left out."""
    name = ipns_name(Ed25519PrivateKey.generate())
    forged = sign_record(Ed25519PrivateKey.generate(), f"/ipfs/{CID}", sequence=9)
    origin.records[name.text] = forged
    ethereum.names["blog.eth"] = Name(
        address=WALLET, contenthash=bytes.fromhex("e5010172") + name.multihash
    )
    content = (await service.resolve("blog.eth")).json["content"]
    assert content == {"type": "ipns", "name": name.text}


async def test_the_owner_stands_in_for_a_wallet(service: Service, ethereum: FakeEthereum) -> None:
    """Content without an address record comes with the owner's wallet, and says so."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, owner=WALLET)
    answer = await service.resolve("site.eth")
    assert answer.json["walletAddress"] == ADDRESS
    assert answer.headers["content-gateway-wallet"] == "owner"


async def test_other_networks_are_named(service: Service, ethereum: FakeEthereum) -> None:
    """Swarm content is left out, and the message says what it is."""
    ethereum.names["bzz.eth"] = Name(address=WALLET, contenthash=SWARM)
    body = (await service.resolve("bzz.eth")).json
    assert "content" not in body
    assert "swarm" in body["message"]


async def test_an_unknown_name_is_not_found(service: Service) -> None:
    answer = await service.resolve("nobody.eth")
    assert (answer.status, answer.json["code"]) == (404, "domain-not-found")


@pytest.mark.parametrize(
    ("fault", "statuses"), [("html", {502}), ("empty", {502}), ("huge", {502}), ("hang", {504})]
)
async def test_a_broken_endpoint_is_never_not_found(
    service: Service, ethereum: FakeEthereum, fault: Mood, statuses: set[int]
) -> None:
    """HTML, `0x`, 40 MB or silence from the node is its fault, not the name's absence."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    ethereum.misbehave(fault)
    assert (await service.resolve("site.eth")).status in statuses


async def test_an_outage_is_unavailable(service: Service, ethereum: FakeEthereum) -> None:
    """With the node gone an unknown name is 503 with Retry-After, and found when it is back."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    ethereum.go_dark()
    answer = await service.resolve("site.eth")
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) > 0
    ethereum.come_back()
    assert (await service.resolve("site.eth")).status == 200


async def test_many_callers_cost_one_lookup(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """500 requests at once for one cold name ask the node once, however busy the machine is."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    patient = {"ens__timeout": 50, "names__deadline": 60}
    async with running_service(tmp_path, ens__rpc_urls=[ethereum.url], **patient) as service:
        answers = await asyncio.gather(*(service.resolve("site.eth") for _ in range(500)))
    assert {answer.status for answer in answers} == {200}
    assert ethereum.eth_calls == 1


BAD_DOMAINS = [
    "",
    "eth",
    ".",
    ".eth",
    "a..eth",
    "a.eth.",
    "a%2Fb.eth",
    "a%00b.eth",
    "a%20b.eth",
    "%FF.eth",
    "%ED%B0%AF.eth",
    "a%252Fb.eth",
    "x" * 300 + ".eth",
    "xn--.eth",
    "a_b.eth",
    "%F0%9F%92%A9%E2%80%8D.eth",
    "a?.eth".replace("?", "%3F"),
    "A" * 1500,
]


async def test_a_bad_domain_is_a_clear_400(service: Service, ethereum: FakeEthereum) -> None:
    """What no name service could hold is refused before anybody is asked."""
    for domain in BAD_DOMAINS:
        with case(domain):
            answer = await service.resolve(domain)
            assert answer.status == (404 if domain == "" else 400)
            if domain:
                assert answer.json["code"] == "invalid-domain"
            assert ethereum.posts == 0
