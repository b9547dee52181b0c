"""The limits of keys: what a key may use, what every answer tells of it, and what is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from content_gateway.api_keys import SCOPES, Requestor
from content_gateway.errors import WrongSettings
from content_gateway.http.key_limits import MAX_KEYS, KeyLimits
from content_gateway.http.problems import HttpRefusal
from content_gateway.model.allowance import Allowance
from tests.cli.command import cids
from tests.contract import Answer
from tests.service import Service, running_service

TYPES: dict[str, Any] = {
    "reader": {"operations": ["resolveDomain"], "requests_per_minute": 3},
    "pinner": {"operations": ["*"], "pins": 2, "requests_per_day": 50},
    "nothing": {},
}


@pytest.fixture
async def issued(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path, keys__mode="issued", limits__types=TYPES, limits__requests_per_minute=20
    ) as service:
        yield service


async def key_of(service: Service, kind: str | None, **limits: int) -> str:
    made = await service.gateway.issued_keys.create(
        f"{kind}-{len(limits)}", SCOPES, None, type=kind, limits=limits
    )
    assert made is not None
    return made[0]


def told(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if "limit" in name}


async def test_what_is_left_is_told_in_every_answer(issued: Service) -> None:
    """In the words of the IETF's draft and in the older ones, errors included."""
    key = await key_of(issued, None)
    first = await issued.ask("GET", "/key", key=key)
    assert told(first) == {
        "ratelimit-policy": '"minute";q=20;w=60',
        "ratelimit": f'"minute";r=19;t={first.headers["x-ratelimit-reset"]}',
        "x-ratelimit-limit": "20",
        "x-ratelimit-remaining": "19",
        "x-ratelimit-reset": first.headers["x-ratelimit-reset"],
    }
    assert 59 <= int(first.headers["x-ratelimit-reset"]) <= 61
    wrong = await issued.ask("GET", "/ipfs/pin/status/nonsense", key=key)
    assert wrong.status == 400
    assert wrong.headers["x-ratelimit-remaining"] == "18"


async def test_beyond_the_minute_is_429_and_says_when_to_go_on(issued: Service) -> None:
    """Exactly the limit is let through, of many at once, on both faces; another key is not
    touched."""
    key, other = await key_of(issued, None), await key_of(issued, None, pins=9)
    answers = await asyncio.gather(*(issued.ask("GET", "/key", key=key) for _ in range(25)))
    assert sorted(answer.status for answer in answers) == [200] * 20 + [429] * 5
    refused = await issued.ask("GET", "/ipfs/pin/ls", key=key)
    assert (refused.status, refused.json["code"]) == (429, "rate-limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert (await issued.psa("GET", key=key)).status == 429
    assert (await issued.ask("GET", "/key", key=other)).status == 200


async def test_a_day_has_a_limit_of_its_own(issued: Service) -> None:
    """The answer tells of both; the day's refusal has its own code."""
    key = await key_of(issued, "pinner", requests_per_day=2)
    answer = await issued.ask("GET", "/key", key=key)
    assert answer.headers["ratelimit-policy"] == '"minute";q=20;w=60, "day";q=2;w=86400'
    assert answer.headers["x-dailylimit-remaining"] == "1"
    await issued.ask("GET", "/key", key=key)
    refused = await issued.ask("GET", "/key", key=key)
    assert (refused.status, refused.json["code"]) == (429, "quota-exceeded")
    assert int(refused.headers["retry-after"]) > 80_000


def test_what_one_limit_refuses_counts_in_no_other() -> None:
    """Whoever goes on beyond the day is told of the day again and again, and whoever goes on beyond
    the minute has as much left of the day."""

    def codes(minute: int, day: int, *moments: float) -> list[str]:
        allowance = Allowance(requests_per_minute=minute, requests_per_day=day)
        limits, requestor = KeyLimits(), Requestor("id", frozenset(SCOPES), "name", allowance)
        told = []
        for now in moments:
            try:
                limits.admit(requestor, "getKey", now)
                told.append("")
            except HttpRefusal as refusal:
                told.append(refusal.kind.code)
        return told

    assert codes(3, 2, *[0.0] * 9) == ["", "", *["quota-exceeded"] * 7]
    assert codes(2, 2, *[0.0] * 9) == ["", "", *["quota-exceeded"] * 7]
    assert codes(1, 2, *[0.0] * 4, 70.0) == ["", *["rate-limited"] * 3, ""]


async def test_a_type_grants_what_it_lists_and_nothing_else(issued: Service) -> None:
    """Whatever the scopes of the key are. What a key may do it may always ask."""
    reader, nothing = await key_of(issued, "reader"), await key_of(issued, "nothing")
    assert (await issued.resolve("nobody.demo", key=reader)).status == 503  # nobody to ask
    refused = await issued.ask("GET", "/ipfs/pin/ls", key=reader)
    assert (refused.status, refused.json["code"]) == (403, "scope-missing")
    assert "type" in refused.json["detail"]
    for method, path in (("GET", "/domain/resolve/a.demo"), ("POST", "/ipfs/pin/add/bafkqaaa")):
        assert (await issued.ask(method, path, key=nothing)).status == 403
    assert (await issued.ask("GET", "/key", key=nothing)).json["result"]["type"] == "nothing"


async def test_a_type_that_is_gone_grants_nothing(issued: Service) -> None:
    """Its keys are not taken for keys without limits: they are refused as often as the limits of
    all keys allow."""
    key = await key_of(issued, "gone")
    assert (await issued.ask("GET", "/ipfs/pin/ls", key=key)).status == 403
    assert (await issued.ask("GET", "/key", key=key)).headers["x-ratelimit-remaining"] == "18"
    answers = await asyncio.gather(*(issued.ask("GET", "/ipfs/pin/ls", key=key) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [403] * 18 + [429] * 2


async def test_a_key_has_as_many_pins_as_it_may_have(issued: Service) -> None:
    """Exactly so many of twenty at once, on both faces; what is held is held, and room is made by
    removing one."""
    key = await key_of(issued, "pinner")
    many = cids(10)
    answers = await asyncio.gather(
        *(issued.pin(one, key=key) for one in many[:5]),
        *(issued.psa("POST", body={"cid": one}, key=key) for one in many[5:]),
    )
    statuses = [answer.status for answer in answers]
    assert sum(status < 300 for status in statuses) == 2
    assert statuses.count(409) == 8
    refused = next(answer for answer in answers if answer.status == 409)
    assert "2 pins" in str(refused.json)
    failure = next(answer for answer in reversed(answers) if answer.status == 409)
    assert failure.json["error"]["reason"] == "INSUFFICIENT_FUNDS"
    kept = [one for one, status in zip(many, statuses, strict=True) if status < 300]
    assert (await issued.pin(kept[0], key=key)).json["message"].startswith("A pin already exists")
    await issued.ask("DELETE", f"/ipfs/pin/rm/{kept[0]}", key=key)
    assert (await issued.pin(many[-1], key=key)).status == 200
    result = (await issued.ask("GET", "/key", key=key)).json["result"]
    assert result["limits"]["pins"] == {"limit": 2, "used": 2}
    assert result["limits"]["requestsPerDay"]["limit"] == 50


async def test_limits_of_its_own_are_never_wider(issued: Service) -> None:
    """Also where the type's were lowered since the key was issued."""
    key = await key_of(issued, "pinner", pins=7, requests_per_minute=1)
    answer = await issued.ask("GET", "/key", key=key)
    assert answer.json["result"]["limits"]["pins"]["limit"] == 2
    assert answer.headers["x-ratelimit-limit"] == "1"


async def test_a_type_that_grants_what_there_is_not_stops_the_start(tmp_path: Path) -> None:
    """And says which operation may be meant."""
    types = {"reader": {"operations": ["resolveDomian"]}}
    with pytest.raises(WrongSettings, match="did you mean resolveDomain"):
        async with running_service(tmp_path, limits__types=types):
            raise NotImplementedError("it has started")


def test_the_keys_that_are_remembered_are_bounded() -> None:
    """Where any key is taken there is no end of them; and one that is in use is never forgotten."""
    limits, allowance = KeyLimits(), Allowance(requests_per_minute=10)
    busy = Requestor("busy", frozenset(), allowance=allowance)
    let_in = 0
    for number in range(5 * MAX_KEYS):
        limits.admit(Requestor(str(number), frozenset(), allowance=allowance), "getKey", 0.0)
        if number % 1_000 == 0:
            with suppress(HttpRefusal):
                limits.admit(busy, "getKey", 0.0)
                let_in += 1
    assert len(list(limits.used())) <= 2 * MAX_KEYS
    assert let_in == 10
