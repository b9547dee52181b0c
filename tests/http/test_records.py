"""GET /domain/records/{domain}, and restarts during an outage: what is known without asking."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.fakes.origin import Origin as FakeOrigin
from tests.http.restarts import CID, IPFS, NO_CACHE, SWARM, WALLET, let_age, serving


async def test_records_of_a_name_that_nobody_asked_for_are_not_known(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """404, and nobody is asked; a bad name is 400 as everywhere."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        answer = await service.ask("GET", "/domain/records/site.eth")
        assert (answer.status, answer.json["code"]) == (404, "domain-not-found")
        assert (await service.ask("GET", "/domain/records/a..eth")).status == 400
        assert (await service.ask("GET", "/domain/records/site.eth", key=None)).status == 401
    assert ethereum.posts == 0


async def test_records_are_told_with_their_nulls_and_after_a_restart(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """What is not set is null; nobody is asked, and the name may be spelt in any case."""
    ethereum.names["alias.eth"] = Name(address=WALLET)
    ethereum.names["site.eth"] = Name(contenthash=IPFS)
    ethereum.names["bzz.eth"] = Name(contenthash=SWARM)
    expected: dict[str, dict[str, str | None]] = {
        "alias.eth": {"ipfs": None, "address": WALLET},
        "site.eth": {"ipfs": CID, "address": None},
        "bzz.eth": {"ipfs": None, "address": None},
    }
    nothing = {"ipfs": None, "ipns": None, "ipnsCache": None, "path": None, "address": None}
    async with serving(tmp_path, ethereum) as service:
        for name in expected:
            await service.resolve(name)
    ethereum.go_dark()
    posts = ethereum.posts
    async with serving(tmp_path, ethereum) as service:
        for name, records in expected.items():
            result = (await service.ask("GET", f"/domain/records/{name.upper()}")).json["result"]
            stored_at = datetime.fromisoformat(result.pop("storedAt"))
            assert timedelta(0) <= datetime.now(UTC) - stored_at < timedelta(minutes=5)
            assert result == {"domain": name} | nothing | records
    assert ethereum.posts == posts


async def test_records_of_ipns_content_come_with_what_was_verified(
    tmp_path: Path, ethereum: FakeEthereum, origin: FakeOrigin
) -> None:
    """The CID behind the name, also after a restart without any source."""
    key = Ed25519PrivateKey.generate()
    name = ipns_name(key)
    ethereum.names["blog.eth"] = Name(
        address=WALLET, contenthash=bytes.fromhex("e5010172") + name.multihash
    )
    async with serving(tmp_path, ethereum, ipns__routers=[origin.url]) as service:
        await service.resolve("blog.eth")
        result = (await service.ask("GET", "/domain/records/blog.eth")).json["result"]
        assert (result["ipns"], result["ipnsCache"]) == (name.text, None)
    origin.records[name.text] = sign_record(key, f"/ipfs/{CID}", sequence=1)
    async with serving(tmp_path, ethereum, ipns__routers=[origin.url]) as service:
        await service.resolve("blog.eth")
    origin.go_dark()
    async with serving(tmp_path, ethereum, ipns__routers=[origin.url]) as service:
        asked = len(origin.requests)
        result = (await service.ask("GET", "/domain/records/blog.eth")).json["result"]
        assert (result["ipns"], result["ipnsCache"]) == (name.text, CID)
        assert len(origin.requests) == asked


async def test_records_that_are_gone_are_not_told(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """The last answer was that nothing is there: 404, now and after a restart."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth")
    let_age(tmp_path, 6)
    del ethereum.names["site.eth"]
    async with serving(tmp_path, ethereum) as service:
        assert (await service.resolve("site.eth", headers=NO_CACHE)).status == 404
        assert (await service.ask("GET", "/domain/records/site.eth")).status == 404
    async with serving(tmp_path, ethereum) as service:
        assert (await service.ask("GET", "/domain/records/site.eth")).status == 404


# -- an outage ------------------------------------------------------------------------------


async def test_a_restart_during_an_outage_still_answers(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """With Age and Cache-Status, whose ttl tells by how much it is overdue; others are 503."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    async with serving(tmp_path, ethereum) as service:
        fresh = await service.resolve("site.eth")
        assert "age" not in fresh.headers
    let_age(tmp_path, 1000)
    ethereum.go_dark()
    async with serving(tmp_path, ethereum) as service:
        for _ in range(3):
            stale = await service.resolve("site.eth")
            assert stale.json == fresh.json
            age = int(stale.headers["age"])
            assert 1000 <= age < 1100
            cache, hit, ttl = stale.headers["cache-status"].split("; ")
            assert (cache, hit) == ("content-gateway", "hit")
            assert -800 < int(ttl.removeprefix("ttl=")) <= -700
        assert (await service.resolve("other.eth")).status == 503


@pytest.mark.parametrize(("limit", "age", "status"), [(3600, 3590, 200), (3600, 3601, 503),
                                                      (0, 250, 200), (0, 301, 503),
                                                      (100, 250, 200), (100, 301, 503),
                                                      (604800, 604790, 200)])  # fmt: skip
async def test_the_operator_says_how_old_an_answer_may_be(
    tmp_path: Path, ethereum: FakeEthereum, limit: int, age: int, status: int
) -> None:
    """names.stale_limit; with 0 no stale answer is ever given, and a fresh one still is."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum) as service:
        await service.resolve("site.eth")
    let_age(tmp_path, age)
    ethereum.go_dark()
    async with serving(tmp_path, ethereum, names__stale_limit=limit) as service:
        assert (await service.resolve("site.eth")).status == status
