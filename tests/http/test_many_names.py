"""POST /domain/resolve: many names in one request, each answered, counted and refused by itself."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from content_gateway.api_keys import SCOPES, Requestor
from content_gateway.http.auth import Principal
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.messages import Request
from content_gateway.http.operations.many_names import ManyNamesHandlers
from content_gateway.http.request_turns import RequestTurns
from content_gateway.model.allowance import Allowance
from content_gateway.model.domain import DomainName
from tests.cases import case
from tests.contract import Answer
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.http.restarts import ADDRESS, CID, IPFS, NO_CACHE, WALLET, serving
from tests.names.services import ALICE, directory_of
from tests.names.services import Service as KnownNames
from tests.service import Service
from tests.waiting import eventually

JSON = ("Content-Type", "application/json")
NOT_FOUND = {
    "status": 404,
    "code": "domain-not-found",
    "message": "No such name is registered, or it has neither wallet nor content.",
}
SITE = {"status": 200, "message": "Domain resolved", "walletAddress": ADDRESS}


@pytest.fixture
async def service(tmp_path: Path, ethereum: FakeEthereum) -> AsyncIterator[Service]:
    async with serving(tmp_path, ethereum) as service:
        yield service


async def ask(
    service: Service,
    names: Any,
    *,
    key: str = "me",
    headers: Sequence[tuple[str, str]] = (),
    **more: Any,
) -> Answer:
    """The answer to a request for *names*."""
    body = msgspec.json.encode({"names": names, **more})
    return await service.ask(
        "POST", "/domain/resolve", key=key, headers=[JSON, *headers], body=body
    )


async def test_each_name_is_answered_by_itself(service: Service, ethereum: FakeEthereum) -> None:
    """In their order and as they were spelt; what is wrong with one takes nothing from another."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    ethereum.names["odd.eth"] = Name(address=WALLET, refusal=b"\x12\x34\x56\x78")
    ethereum.names["owned.eth"] = Name(contenthash=IPFS, owner=WALLET)
    answer = await ask(service, ["SITE.eth", "nobody.eth", "a..eth", "odd.eth", "owned.eth", ""])
    assert answer.status == 200
    site, nobody, wrong, odd, owned, empty = answer.json["result"]
    assert site == {"domain": "SITE.eth", **SITE, "content": {"type": "ipfs", "cid": CID}}
    assert nobody == {"domain": "nobody.eth", **NOT_FOUND}
    assert (wrong["status"], wrong["code"]) == (400, "invalid-domain")
    assert (odd["status"], odd["code"]) == (502, "invalid-upstream-response")
    assert owned["walletIsOwner"] is True
    assert (empty["status"], empty["code"]) == (400, "invalid-domain")


async def test_a_name_is_looked_up_once(service: Service, ethereum: FakeEthereum) -> None:
    """Twice in one request, in two requests at once, and alone: one call."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    ethereum.hold()
    asking = [
        asyncio.create_task(ask(service, ["site.eth", "site.eth"])),
        asyncio.create_task(ask(service, ["site.eth"], key="other")),
        asyncio.create_task(service.resolve("site.eth")),
    ]

    async def is_asked() -> bool:
        return ethereum.eth_calls > 0

    await eventually(is_asked)
    ethereum.release()
    both, one, alone = await asyncio.gather(*asking)
    assert both.json["result"] == [{"domain": "site.eth", **SITE}] * 2
    assert one.json["result"] == [{"domain": "site.eth", **SITE}]
    assert {"domain": "site.eth", "status": 200, **alone.json} == {"domain": "site.eth", **SITE}
    assert ethereum.eth_calls == 1


async def test_a_hundred_names_at_once(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """All are had, cold and warm, by a key that may look up two at once."""
    names = [f"name{number}.eth" for number in range(100)]
    for name in names:
        ethereum.names[name] = Name(address=WALLET)
    patient = {"names__deadline": 60, "limits__lookups": 2}
    async with serving(tmp_path, ethereum, **patient) as service:
        for _ in range(2):
            result = (await ask(service, names)).json["result"]
            assert result == [{"domain": name, **SITE} for name in names]
    assert ethereum.eth_calls == 100


async def test_names_take_turns_as_requests_do() -> None:
    """A hundred that are in memory do not keep the loop from another's request."""
    service, turns = KnownNames(site=ALICE), RequestTurns(alone=1, beside=1)
    directory = directory_of(service)
    await directory.resolve(DomainName.parse("site.eth"))
    handlers = ManyNamesHandlers(directory, KeyLimits(), turns)
    requestor = Requestor("a", frozenset({"resolve"}), "a", Allowance())
    body = msgspec.json.encode({"names": ["site.eth"] * 100})
    request = Request("", b"", (), Principal(requestor, "key"), body, "a")
    asking = asyncio.create_task(handlers.resolve(request))
    passed = 0
    while not asking.done():
        await asyncio.sleep(0)
        passed += 1
    assert passed >= 100
    answered = msgspec.json.decode((await asking).body)["result"]
    assert [one["status"] for one in answered] == [200] * 100
    assert service.asked == ["site.eth"]


async def test_a_coin_is_that_of_all(service: Service, ethereum: FakeEthereum) -> None:
    """As `?coinType=` alone."""
    ethereum.names["site.eth"] = Name(address=WALLET, addresses={700: b"\x01\x02"})
    (site,) = (await ask(service, ["site.eth"], coinType=700)).json["result"]
    assert site["walletAddress"] == {"type": "address", "addr": "0x0102"}


async def test_an_outage_is_told_of_each_name(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """What is known is stale and says so, what is not is 503 with the seconds to wait."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum, names__fresh=0.001) as service:
        await service.resolve("site.eth")
        ethereum.go_dark()
        known, unknown = (await ask(service, ["site.eth", "new.eth"], headers=NO_CACHE)).json[
            "result"
        ]
    assert known["walletAddress"] == ADDRESS
    assert known["age"] >= 0
    assert known["ttl"] < 0
    assert (unknown["status"], unknown["code"]) == (503, "upstream-unavailable")
    assert unknown["retryAfter"] > 0


async def test_each_name_counts(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """Those within the limit are answered, those beyond it refused; then the whole request is."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    chosen = {"keys__mode": "issued", "limits__requests_per_minute": 5}
    async with serving(tmp_path, ethereum, **chosen) as service:
        made = await service.gateway.issued_keys.create("many", SCOPES, None)
        assert made is not None
        key = made[0]
        first = await ask(service, ["site.eth"] * 3, key=key)
        assert [one["status"] for one in first.json["result"]] == [200] * 3
        assert first.headers["x-ratelimit-remaining"] == "2"
        second = await ask(service, ["site.eth"] * 4, key=key)
        assert [one["status"] for one in second.json["result"]] == [200, 200, 429, 429]
        assert second.json["result"][-1]["code"] == "rate-limited"
        assert second.json["result"][-1]["retryAfter"] > 0
        assert second.headers["x-ratelimit-remaining"] == "0"
        assert (await ask(service, ["site.eth"], key=key)).status == 429


async def test_what_is_blocked_is_refused_by_itself(tmp_path: Path, ethereum: FakeEthereum) -> None:
    """451 for that name, and the others are answered."""
    listed = tmp_path / "names.txt"
    listed.write_text("bad.eth\n")
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with serving(tmp_path, ethereum, denylist__domains_file=listed) as service:
        bad, good = (await ask(service, ["bad.eth", "site.eth"])).json["result"]
    assert (bad["status"], bad["code"]) == (451, "blocked")
    assert good["status"] == 200


BODIES: list[Any] = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"names": []}',
    b'{"names": "site.eth"}',
    b'{"names": [1]}',
    b'{"names": ["a.eth"], "coin": 60}',
    b'{"names": ["a.eth"], "coinType": -1}',
    b'{"names": ["a.eth"], "coinType": 4294967296}',
    b'{"names": ["a.eth"], "coinType": "60"}',
    b'{"names": ["\\ud800.eth"]}',
    b'{"names": ["\xff.eth"]}',
    b'{"names\xff": ["a.eth"]}',
    b'\xef\xbb\xbf{"names": ["a.eth"]}',
    b'{"names": ["a.eth"',
    b"[" * 10_000,
    msgspec.json.encode({"names": ["site.eth"] * 101}),
]


async def test_a_bad_body_is_a_clear_400(service: Service, ethereum: FakeEthereum) -> None:
    """101 names, none, what is no list: refused as a whole before anybody is asked."""
    for body in BODIES:
        with case(body[:60]):
            answer = await service.ask("POST", "/domain/resolve", headers=[JSON], body=body)
            assert (answer.status, answer.json["code"]) == (400, "invalid-body")
    assert ethereum.posts == 0


async def test_the_path_takes_nothing_else(service: Service) -> None:
    """No GET, no query, no body that is not JSON, none that is too large."""
    assert (await service.ask("GET", "/domain/resolve")).status == 405
    many = b'{"names": ["a.eth"]}'
    odd = await service.ask("POST", "/domain/resolve?coinType=60", headers=[JSON], body=many)
    assert (odd.status, odd.json["code"]) == (400, "invalid-query")
    text = [("Content-Type", "text/plain")]
    assert (await service.ask("POST", "/domain/resolve", headers=text, body=many)).status == 415
    large = b'{"names": ["' + b"a" * 66_000 + b'.eth"]}'
    assert (await service.ask("POST", "/domain/resolve", headers=[JSON], body=large)).status == 413
    assert (await service.ask("POST", "/domain/resolve", key=None, headers=[JSON])).status == 401
