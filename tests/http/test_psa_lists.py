"""Lists of the Pinning Service API: what its filters find, and how one page follows another."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label
from tests.http.held import EVERY_STATUS, V1, add, cid_of, found
from tests.service import Service
from tests.waiting import eventually


@pytest.fixture
async def twelve(service: Service) -> list[Any]:
    """Twelve pins that are held, oldest first."""
    requestor = (await service.gateway.keys.identify("me")).id
    for number in range(12):
        meta = {"parity": "odd" if number % 2 else "even", "number": str(number)}
        label = Label(f"Pin {number}", (), meta)
        await service.gateway.pinning.describe(requestor, cid_of(str(number)), label)

    async def are_held() -> Any:
        page = (await service.psa("GET", "/pins?limit=1000")).json
        return page["results"] if page["count"] == 12 else None

    pins = await eventually(are_held)
    assert isinstance(pins, list)
    return pins[::-1]


async def test_the_ten_newest_are_shown(service: Service, twelve: list[Any]) -> None:
    """And how many there are in all; older ones follow with `before`."""
    first = (await service.psa("GET")).json
    assert first["count"] == 12
    assert first["results"] == twelve[:1:-1]
    oldest = first["results"][-1]["created"]
    rest = (await service.psa("GET", f"/pins?before={quote(oldest)}")).json
    assert (rest["count"], rest["results"]) == (2, twelve[1::-1])


async def test_moments_are_exclusive_and_take_any_form(service: Service, twelve: list[Any]) -> None:
    """Other zones, more digits, small letters; a pin is neither before nor after itself."""
    created = twelve[5]["created"]
    moment = datetime.fromisoformat(created)
    there = moment.astimezone().isoformat()
    go = moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    for text in (created, created.lower(), go, there, moment.isoformat()):
        for name, expected in (("before", twelve[4::-1]), ("after", twelve[:5:-1])):
            answer = await service.psa("GET", f"/pins?{name}={quote(text)}&limit=1000")
            assert answer.json["results"] == expected, (name, text)


async def test_a_finer_moment_than_ours_leaves_nothing_out(
    service: Service, twelve: list[Any]
) -> None:
    """A nanosecond after a pin it is before, and a nanosecond before it, it is after."""
    created = datetime.fromisoformat(twelve[5]["created"])
    later = created.strftime("%Y-%m-%dT%H:%M:%S.%f001Z")
    answer = await service.psa("GET", f"/pins?before={later}&limit=1000")
    assert answer.json["results"] == twelve[5::-1]
    earlier = (created - timedelta(microseconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%f999Z")
    answer = await service.psa("GET", f"/pins?after={earlier}&limit=1000")
    assert answer.json["results"] == twelve[:4:-1]


FILTERS: list[tuple[str, list[int]]] = [
    ("limit=3", [11, 10, 9]),
    ("name=Pin%203", [3]),
    ("name=pin%203", []),
    ("name=pin%203&match=iexact", [3]),
    ("name=in%201&match=partial", [11, 10, 1]),
    ("name=IN%201&match=partial", []),
    ("name=IN%201&match=ipartial", [11, 10, 1]),
    ("name=%25&match=partial", []),
    ("name=_in%203&match=ipartial", []),
    ("match=exact&limit=1", [11]),
    (f"cid={cid_of('7')}", [7]),
    (f"cid={cid_of('2')},{cid_of('7')},{cid_of('none')}", [7, 2]),
    (f"cid={cid_of('7').upper()}", [7]),
    ("meta=" + quote('{"parity": "odd"}'), [11, 9, 7, 5, 3, 1]),
    ("meta=" + quote('{"parity": "odd", "number": "3"}'), [3]),
    ("meta=" + quote('{"parity": "odd", "number": "4"}'), []),
    ("meta=" + quote('{"none": ""}'), []),
    ("status=pinned&limit=2", [11, 10]),
    ("status=queued,failed,pinning", []),
]


async def test_a_filter_shows_what_passes_it(service: Service, twelve: list[Any]) -> None:
    """And nothing else."""
    for query, numbers in FILTERS:
        results = (await service.psa("GET", f"/pins?{query}")).json["results"]
        assert results == [twelve[number] for number in numbers], query


async def test_a_long_filter_is_no_long_path(service: Service) -> None:
    """255 letters of any script, and ten CIDs, each of which takes nine bytes or more."""
    await add(service, V1, name="ж" * 250 + "漢" * 5)
    cids = ",".join([V1, *(cid_of(str(number)) for number in range(9))])
    name = quote("ж" * 250 + "漢" * 5)
    assert await found(service, f"{EVERY_STATUS}&name={name}&cid={cids}") == [V1]


async def test_pages_by_before_neither_repeat_nor_skip(service: Service) -> None:
    """As clients do it: the `created` of the last one shown, while pins come and go."""
    requestor = (await service.gateway.keys.identify("me")).id

    async def hold(name: str) -> None:
        await service.gateway.pinning.describe(requestor, cid_of(name), Label(name))

    for number in range(15):
        await hold(f"lasting {number}")
    query, seen = "&limit=4", []
    for round_ in range(20):
        page = (await service.psa("GET", f"/pins{EVERY_STATUS}{query}")).json
        seen += [status["pin"]["name"] for status in page["results"]]
        if page["count"] <= len(page["results"]):
            break
        query = f"&limit=4&before={quote(page['results'][-1]['created'])}"
        await hold(f"passing {round_}")
        await service.gateway.pinning.remove(requestor, Cid.parse(cid_of(f"passing {round_}")))
        await hold(f"new {round_}")
    assert seen == [f"lasting {number}" for number in range(14, -1, -1)]


WRONG_FILTERS = [
    *("limit=0", "limit=1001", "limit=x", "limit=", "limit=1&limit=1"),
    *("status=", "status=done", "status=unpinned", "status=pinned;failed"),
    *("match=fuzzy", "match=", "name=" + "a" * 256, "name=%00", "nmae=x", "cid=", "cid=x"),
    *("cid=" + ",".join([V1] * 11), "&".join([f"cid={V1}"] * 11)),
    *("before=yesterday", "before=2026-11-21", "after=2026-13-01T00:00:00Z", "before="),
    *("before=2026-11-21T12:00:00", "after=9999-12-31T23:59:59-23:00"),
    *("before=2026-11-21T12:00:00.1234567890Z", "after=%D9%A2026-11-21T12:00:00Z"),
    *("meta=x", "meta=[]", "meta=" + quote('{"a":1}'), "meta=" + quote("[" * 500)),
    *("meta=null", "%FF=1"),
]


async def test_a_list_may_be_written_in_both_ways(service: Service) -> None:
    """Members separated by commas, as the API has it, and the parameter again, as generators do."""
    await service.psa("POST", body={"cid": V1})
    for query in ("status=queued,pinning,pinned", "status=queued&status=pinning,pinned"):
        page = (await service.psa("GET", f"/pins?{query}&cid={V1}&cid={V1}")).json
        assert [pin["pin"]["cid"] for pin in page["results"]] == [V1]
    native = await service.ask("GET", "/ipfs/pin/ls?status=queued&status=pinning&status=pinned")
    assert native.json["count"] == 1


async def test_a_filter_that_is_not_understood_is_refused(service: Service) -> None:
    """One that was passed over would show, and let a client remove, what was not meant."""
    for query in WRONG_FILTERS:
        answer = await service.psa("GET", f"/pins?{query}")
        assert answer.status == 400, (query, answer.body)
        assert answer.json["error"]["reason"] == "BAD_REQUEST"
        assert answer.json["error"]["details"].endswith(".")
