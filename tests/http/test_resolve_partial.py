"""Resolve through the whole service where one record fails: what is told, said and kept."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from eth_abi.abi import encode

from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name, selector
from tests.http.restarts import ADDRESS, CID, IPFS, WALLET, let_age, serving
from tests.service import Service

NOT_TODAY = selector("Error(string)") + encode(["string"], ["not today"])
GATEWAY = selector("HttpError(uint16,string)") + encode(["uint16", "string"], [503, ""])


@pytest.fixture
async def service(tmp_path: Path, ethereum: FakeEthereum) -> AsyncIterator[Service]:
    async with serving(tmp_path, ethereum) as service:
        yield service


async def test_a_wallet_is_told_without_content_that_failed(
    service: Service, ethereum: FakeEthereum
) -> None:
    """200 with the wallet; the header field and the words say what could not be read, and why."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash_error=NOT_TODAY)
    answer = await service.resolve("site.eth")
    why = 'its content could not be read: the name\'s resolver reverted with "not today"'
    assert answer.json == {"message": f"Domain resolved; {why}", "walletAddress": ADDRESS}
    assert answer.headers["content-gateway-failed"] == "content"
    records = await service.ask("GET", "/domain/records/site.eth")
    assert records.json["message"] == f"Last known records; {why}"
    assert records.headers["content-gateway-failed"] == "content"
    assert records.json["result"]["ipfs"] is None


async def test_content_is_told_without_a_wallet_that_failed(
    service: Service, ethereum: FakeEthereum
) -> None:
    """No walletAddress, no owner's either: people send money there."""
    ethereum.names["site.eth"] = Name(address_error=b"", contenthash=IPFS, owner=WALLET)
    answer = await service.resolve("site.eth")
    assert answer.json == {
        "message": "Domain resolved; its wallet could not be read: "
        "the name's resolver reverted without a reason",
        "content": {"type": "ipfs", "cid": CID},
    }
    assert answer.headers["content-gateway-failed"] == "wallet"
    assert "content-gateway-wallet" not in answer.headers


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (Name(contenthash_error=NOT_TODAY, owner=WALLET), 502),
        (Name(contenthash_error=GATEWAY), 503),
        (Name(address_error=b""), 502),
    ],
)
async def test_where_nothing_is_known_it_is_an_error(
    service: Service, ethereum: FakeEthereum, name: Name, status: int
) -> None:
    """Not set and failed is not 'not found': we could not find out."""
    ethereum.names["site.eth"] = name
    assert (await service.resolve("site.eth")).status == status


async def test_half_an_answer_does_not_outlive_its_failure(
    tmp_path: Path, ethereum: FakeEthereum
) -> None:
    """In an outage the last whole answer is served, after a restart too, with its age."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    async with serving(tmp_path, ethereum) as service:
        whole = (await service.resolve("site.eth")).json
    let_age(tmp_path, 700)
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash_error=GATEWAY)
    for _ in range(2):
        async with serving(tmp_path, ethereum) as service:
            answer = await service.resolve("site.eth")
            assert answer.json == whole
            assert int(answer.headers["age"]) >= 700
            assert "content-gateway-failed" not in answer.headers
    let_age(tmp_path, 3000)
    async with serving(tmp_path, ethereum) as service:
        answer = await service.resolve("site.eth")
        assert answer.json["walletAddress"] == ADDRESS
        assert answer.headers["content-gateway-failed"] == "content"
        assert (await service.ask("GET", "/domain/records/site.eth")).json["result"]["ipfs"] == CID
