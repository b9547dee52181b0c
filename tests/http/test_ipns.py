"""POST /ipns/resolve/{name} and GET /ipns/result/{taskId} through the whole service."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import multiformats
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from tests.cases import case
from tests.fakes.origin import Origin as FakeOrigin
from tests.service import Service, running_service
from tests.waiting import eventually

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
OTHER_CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
NAME = ipns_name(KEY)
BINARY = b"\x01\x72" + NAME.multihash


@pytest.fixture
async def service(tmp_path: Path, origin: FakeOrigin) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path, ipns__routers=[origin.url], ipns__timeout=2, ens__rpc_urls=[]
    ) as service:
        yield service


async def begin(service: Service, name: str) -> dict[str, Any]:
    answer = await service.ask("POST", f"/ipns/resolve/{name}")
    assert (answer.status, answer.json["message"]) == (200, "IPNS resolution started")
    result: dict[str, Any] = answer.json["result"]
    return result


async def outcome(service: Service, task: str) -> dict[str, Any]:
    """The result of *task*, once it is not pending any more."""

    async def is_over() -> dict[str, Any] | None:
        answer = await service.ask("GET", f"/ipns/result/{task}")
        assert answer.status == 200
        return None if answer.json["result"]["state"] == "pending" else answer.json["result"]

    result: dict[str, Any] = await eventually(is_over)
    return result


def spelt(data: bytes, base: str) -> str:
    """*data* in a multibase, spelt by another implementation."""
    return str(multiformats.multibase.encode(data, base))


SPELLINGS = [
    NAME.text,
    *(spelt(BINARY, base) for base in ("base36upper", "base32", "base32upper")),
    *(spelt(BINARY, base) for base in ("base58btc", "base16")),
    spelt(NAME.multihash, "base58btc")[1:],  # as libp2p writes a peer id
    f"%2Fipns%2F{NAME.text}",
    f"ipns:%2F%2F{NAME.text}",
]


async def test_every_spelling_of_a_name_is_one_name(service: Service, origin: FakeOrigin) -> None:
    """The task is that of the canonical name; all who ask within five seconds share one look-up."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=1)
    for spelling in SPELLINGS:
        with case(spelling):
            started = await begin(service, spelling)
            assert started["name"] == NAME.text
            assert await outcome(service, started["taskId"]) == {
                "taskId": started["taskId"],
                "name": NAME.text,
                "state": "resolved",
                "ipnsCache": CID,
            }
    assert len(origin.requests) == 1


async def test_a_record_may_point_below_a_cid(service: Service, origin: FakeOrigin) -> None:
    """Then the CID is told, and what is meant below it."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}/blog/", sequence=1)
    started = await begin(service, NAME.text)
    found = await outcome(service, started["taskId"])
    assert (found["ipnsCache"], found["path"]) == (CID, "/blog/")
    again = await begin(service, NAME.text)
    assert (again["ipnsCache"], again["path"]) == (CID, "/blog/")


async def test_a_start_does_not_wait(service: Service, origin: FakeOrigin) -> None:
    """Its answer comes while every source is silent; it tells what is known, which is nothing."""
    origin.misbehave("hang")
    started = await begin(service, NAME.text)
    assert started == {"taskId": started["taskId"], "name": NAME.text}
    answer = await service.ask("GET", f"/ipns/result/{started['taskId']}")
    assert answer.json["result"]["state"] == "pending"
    failed = await outcome(service, started["taskId"])
    assert failed["state"] == "failed"
    assert failed["reason"]
    assert "ipnsCache" not in failed


async def test_a_name_without_record_fails_with_a_reason(
    service: Service, origin: FakeOrigin
) -> None:
    """404 of every source is an answer: there is no record."""
    started = await begin(service, NAME.text)
    failed = await outcome(service, started["taskId"])
    assert (failed["state"], failed["reason"]) == (
        "failed",
        "No source has a record of that name.",
    )


async def test_a_forged_record_resolves_nothing(service: Service, origin: FakeOrigin) -> None:
    forger = Ed25519PrivateKey.generate()
    origin.records[NAME.text] = sign_record(forger, f"/ipfs/{CID}", sequence=99)
    started = await begin(service, NAME.text)
    failed = await outcome(service, started["taskId"])
    assert failed["state"] == "failed"
    assert "ipnsCache" not in failed


async def test_a_task_survives_a_restart(tmp_path: Path, origin: FakeOrigin) -> None:
    """Any process can tell how it went; and the sequence never goes back."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=7)
    async with running_service(tmp_path, ipns__routers=[origin.url]) as service:
        task = (await begin(service, NAME.text))["taskId"]
        await outcome(service, task)
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{OTHER_CID}", sequence=6)
    async with running_service(tmp_path, ipns__routers=[origin.url]) as service:
        assert (await outcome(service, task))["ipnsCache"] == CID
        again = await begin(service, NAME.text)
        assert again["ipnsCache"] == CID
        assert (await outcome(service, again["taskId"]))["ipnsCache"] == CID


UNKNOWN_TASKS = [
    "0-" + NAME.text,
    f"{int(time.time() * 1000) + 3_600_000:x}-{NAME.text}",
    f"{int(time.time() * 1000) - 3_700_000:x}-{NAME.text}",
    f"{int(time.time() * 1000):x}-{NAME.text.upper()}",
    f"{int(time.time() * 1000):X}-{NAME.text}",
    f"0{int(time.time() * 1000):x}-{NAME.text}",
    f"{int(time.time() * 1000):x}",
    f"{int(time.time() * 1000):x}-",
    f"{int(time.time() * 1000):x}-nope",
    f"{int(time.time() * 1000):x}-{NAME.text[:-1]}",
    f"-{NAME.text}",
    f"+1-{NAME.text}",
    f"1_0-{NAME.text}",
    f"%D9%A1-{NAME.text}",
    "f" * 400 + "-" + NAME.text,
    "nope",
    "%00",
    "%FF-%FF",
]


async def test_a_task_that_is_none_of_ours_is_404(service: Service, origin: FakeOrigin) -> None:
    """Made up, misspelt, from the future or long over: not found, and nobody is asked."""
    for task in UNKNOWN_TASKS:
        with case(task):
            answer = await service.ask("GET", f"/ipns/result/{task}")
            assert (answer.status, answer.json["code"]) == (404, "task-not-found")
            assert not origin.requests


BAD_NAMES = [
    "nope",
    OTHER_CID,
    NAME.text[:-1],
    NAME.text + "a",
    "k51",
    "12D3KooW",
    "Qm",
    "example..com",
    ".com",
    "-a.example",
    "a" * 64 + ".example",
    "%F0%9F%A6%84.eth",
    "a%2Fb.example",
    "a%20b.example",
    "%00",
    "x" * 1300,
]


async def test_a_bad_name_is_400(service: Service, origin: FakeOrigin) -> None:
    """Neither a key nor a domain: refused before anybody is asked."""
    for name in BAD_NAMES:
        with case(name):
            answer = await service.ask("POST", f"/ipns/resolve/{name}")
            assert (answer.status, answer.json["code"]) == (400, "invalid-ipns-name")
            assert not origin.requests


async def test_both_need_a_key(service: Service, origin: FakeOrigin) -> None:
    started = await begin(service, NAME.text)
    await outcome(service, started["taskId"])
    asked = len(origin.requests)
    for method, path in [
        ("POST", f"/ipns/resolve/{NAME.text}"),
        ("GET", f"/ipns/result/{started['taskId']}"),
        ("GET", "/ipns/result/nope"),
        ("POST", "/ipns/resolve/nope"),
    ]:
        assert (await service.ask(method, path, key=None)).status == 401
    assert len(origin.requests) == asked
