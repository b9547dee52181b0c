"""Status, list and removal of pins: what a requestor is told of its own, and of nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cases import case
from tests.fakes.cluster import MiniCluster
from tests.fakes.supply import Supply
from tests.http.held import V0, V1, becomes, cid_of
from tests.service import Service, running_service
from tests.waiting import eventually, until


@pytest.fixture
async def ledger_alone(tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose backend can fetch nothing: for tests of lists."""
    async with running_service(tmp_path / "alone") as service:
        yield service


async def status(service: Service, cid: str, **options: Any) -> Any:
    return await service.ask("GET", f"/ipfs/pin/status/{cid}", **options)


async def ls(service: Service, query: str = "", **options: Any) -> Any:
    return await service.ask("GET", f"/ipfs/pin/ls{query}", **options)


async def rm(service: Service, cid: str, **options: Any) -> Any:
    return await service.ask("DELETE", f"/ipfs/pin/rm/{cid}", **options)


# -- status ---------------------------------------------------------------------------------


async def test_a_pin_that_is_held_says_where(service: Service) -> None:
    """Three replicas of three, and what each peer says of it."""
    added = (await service.pin(V1)).json["result"]
    result = await becomes(service, V1, "pinned")
    assert result["replicas"] == {"pinned": 3, "wanted": 3}
    assert {peer["name"] for peer in result["peers"]} == {"peer0", "peer1", "peer2"}
    assert {peer["status"] for peer in result["peers"]} == {"pinned"}
    assert (result["cid"], result["timestamp"]) == (V1, added["timestamp"])
    assert "reason" not in result
    assert (await status(service, V1)).json["message"] == "The content is pinned"


async def test_a_pin_that_fails_says_why_and_when_it_is_tried_again(
    service: Service, cluster: MiniCluster
) -> None:
    """In words a person understands, with the peers' own beside them."""
    cluster.supply, cluster.pin_timeout = Supply(), 0.0
    await service.pin(V1)
    result = await becomes(service, V1, "failed")
    assert result["replicas"]["pinned"] == 0
    assert result["attempts"] >= 1
    assert result["nextAttempt"] > result["timestamp"]
    assert "not found in time" in result["reason"]
    assert "context canceled" not in result["reason"]
    assert {peer["error"] for peer in result["peers"]} == {"context canceled"}


async def test_a_backend_that_is_away_is_the_reason(service: Service, cluster: MiniCluster) -> None:
    """The pin stays queued, and says what it waits for."""
    for peer in cluster.peers:
        cluster.kill(peer)
    await service.pin(V1)

    async def says_why() -> bool:
        result = (await status(service, V1)).json["result"]
        assert result["status"] == "queued"
        return bool(result.get("reason"))

    assert await eventually(says_why)


async def test_every_spelling_finds_the_pin(service: Service) -> None:
    """And shows it as its requestor spelt it."""
    await service.pin(V0)
    for spelling in (V1, V0, V1.upper()):
        answer = await status(service, spelling)
        assert answer.json["result"]["cid"] == V0
    assert (await rm(service, V1)).status == 200
    assert (await status(service, V0)).status == 404


async def test_nobody_sees_the_pins_of_another(service: Service) -> None:
    """Status and removal of them are as of what never was, and no list has them."""
    await service.pin(V1, key="other")
    for answer in (await status(service, V1), await rm(service, V1)):
        assert (answer.status, answer.json["code"]) == (404, "pin-not-found")
    assert (await ls(service)).json == {"message": "Pins", "count": 0, "results": []}
    assert (await ls(service, key="other")).json["count"] == 1
    for cid in ("garbage", V1[:-1]):
        for answer in (await status(service, cid), await rm(service, cid)):
            assert (answer.status, answer.json["code"]) == (400, "invalid-cid")


# -- names and metadata --------------------------------------------------------------------


async def test_a_pin_has_a_name_and_metadata_on_both_faces(service: Service) -> None:
    """Given with the pin, and again with a repeat, which adds nothing."""
    query = "?name=site%20one&meta=" + quote('{"commit":"3f2a9c1"}')
    assert (await service.pin(V1 + query)).json["message"] == "Pin added"
    for page in (await ls(service), await service.psa("GET", "/pins?status=queued,pinning,pinned")):
        pin = page.json["results"][0]
        pin = pin.get("pin", pin)
        assert (pin["name"], pin["meta"]) == ("site one", {"commit": "3f2a9c1"})
    result = (await status(service, V1)).json["result"]
    assert (result["name"], result["meta"]) == ("site one", {"commit": "3f2a9c1"})
    exists = {"message": "A pin already exists for this CID and API key"}
    assert (await service.pin(V1 + "?name=two")).json == exists
    assert (await service.pin(V1)).json == exists
    result = (await status(service, V1)).json["result"]
    assert (result["name"], result["meta"]) == ("two", {"commit": "3f2a9c1"})


@pytest.mark.parametrize(
    "query",
    [
        *("?name=" + "a" * 256, "?name=%00", "?nmae=x", "?meta=x", "?meta=[]", "?name=a&name=b"),
        *("?meta=" + quote('{"a":1}'), "?meta=" + quote('{"a":"' + "b" * 4096 + '"}')),
    ],
)
async def test_what_cannot_be_kept_with_a_pin_is_refused(service: Service, query: str) -> None:
    """Nothing is pinned then."""
    answer = await service.pin(V1 + query)
    assert (answer.status, answer.json["code"]) == (400, "invalid-query")
    assert (await status(service, V1)).status == 404


# -- removal --------------------------------------------------------------------------------


async def test_the_content_leaves_with_its_last_pin(service: Service, cluster: MiniCluster) -> None:
    """It stays until the last removal; and no answer tells whether others hold it."""
    cid = cid_of("shared")
    for key in ("one", "two"):
        await service.pin(cid, key=key)
    await becomes(service, cid, "pinned", key="one")
    first = (await rm(service, cid, key="one")).json
    assert first == {"message": "Pin removed", "result": {"cid": cid, "content": "released"}}
    assert (await status(service, cid, key="one")).status == 404
    assert (await status(service, cid, key="two")).status == 200
    last = (await rm(service, cid, key="two")).json
    assert last == first

    assert await until(lambda: not any(cid in peer.pinned for peer in cluster.peers))
    assert (await rm(service, cid, key="two")).status == 404


async def test_what_was_removed_can_be_pinned_again(service: Service) -> None:
    await service.pin(V1)
    await rm(service, V1)
    assert (await service.pin(V1)).json["message"] == "Pin added"
    await becomes(service, V1, "pinned")


async def test_of_many_removals_at_once_one_is_told(service: Service) -> None:
    """The others hear that there is nothing there."""
    await service.pin(V1)
    answers = await asyncio.gather(*(rm(service, V1) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [200] + [404] * 19


# -- lists ----------------------------------------------------------------------------------


async def test_pins_are_listed_newest_first(ledger_alone: Service) -> None:
    """A page at a time, with a cursor that leads on and is left out on the last one."""
    cids = [cid_of(str(number)) for number in range(7)]
    for cid in cids:
        await ledger_alone.pin(cid)
    seen, query = [], "?limit=3"
    for size, more in ((3, True), (3, True), (1, False)):
        page = (await ls(ledger_alone, query)).json
        assert (page["count"], len(page["results"]), "next" in page) == (7, size, more)
        seen += [pin["cid"] for pin in page["results"]]
        query = f"?limit=3&cursor={page.get('next')}"
    assert seen == cids[::-1]
    times = [pin["timestamp"] for pin in (await ls(ledger_alone)).json["results"]]
    assert times == sorted(times, reverse=True)


async def test_a_list_can_be_of_some_states(service: Service, cluster: MiniCluster) -> None:
    """One of them or several; `count` is of those alone."""
    held, lost = cid_of("held"), cid_of("lost")
    await service.pin(held)
    await becomes(service, held, "pinned")
    cluster.supply, cluster.pin_timeout = Supply(), 0.0
    await service.pin(lost)
    await becomes(service, lost, "failed")
    for query, expected in (
        ("?status=pinned", [held]),
        ("?status=failed", [lost]),
        ("?status=pinned,failed", [lost, held]),
        ("?status=pinned%2Cfailed", [lost, held]),
        ("?status=unpinned", []),
        ("", [lost, held]),
    ):
        page = (await ls(service, query)).json
        assert [pin["cid"] for pin in page["results"]] == expected, query
        assert page["count"] == len(expected)


BAD_QUERIES = [
    ("?limit=0", "invalid-query"),
    ("?limit=1001", "invalid-query"),
    ("?limit=-1", "invalid-query"),
    ("?limit=1e2", "invalid-query"),
    ("?limit=", "invalid-query"),
    ("?limit=%D9%A1", "invalid-query"),
    ("?limit=1&limit=2", "invalid-query"),
    ("?status=", "invalid-query"),
    ("?status=pinned,", "invalid-query"),
    ("?status=Pinned", "invalid-query"),
    ("?status=unpinning", "invalid-query"),
    ("?cursor=1&cursor=2", "invalid-query"),
    ("?state=pinned", "invalid-query"),
    ("?limit=1&x", "invalid-query"),
    ("?%FF=1", "invalid-query"),
    ("?" + "&".join(f"a{n}=1" for n in range(20)), "invalid-query"),
    ("?cursor=", "invalid-cursor"),
    ("?cursor=-1", "invalid-cursor"),
    ("?cursor=xyz", "invalid-cursor"),
    ("?cursor=FF", "invalid-cursor"),
    ("?cursor=" + "f" * 15, "invalid-cursor"),
    ("?cursor=" + "f" * 500, "invalid-cursor"),
]


async def test_a_query_that_is_not_understood_is_refused(ledger_alone: Service) -> None:
    """A filter that was misspelt would show more than was asked for."""
    for query, code in BAD_QUERIES:
        with case(query, code):
            answer = await ls(ledger_alone, query)
            assert (answer.status, answer.json["code"]) == (400, code)
            assert answer.json["detail"].endswith(".")


async def test_operations_without_parameters_refuse_one(ledger_alone: Service) -> None:
    await ledger_alone.pin(V1)
    for answer in (
        await status(ledger_alone, V1 + "?force=1"),
        await rm(ledger_alone, V1 + "?force=1"),
    ):
        assert (answer.status, answer.json["code"]) == (400, "invalid-query")
    assert (await status(ledger_alone, V1)).status == 200


async def test_the_operations_need_the_scope(tmp_path: Path) -> None:
    """A key that may only resolve sees and removes nothing."""
    async with running_service(tmp_path / "issued", keys__mode="issued") as service:
        created = await service.gateway.issued_keys.create("r", ("resolve",), None)
        assert created is not None
        for key, code in ((created[0], 403), (None, 401), ("x", 401)):
            for answer in (
                await status(service, V1, key=key),
                await ls(service, key=key),
                await rm(service, V1, key=key),
            ):
                assert answer.status == code
