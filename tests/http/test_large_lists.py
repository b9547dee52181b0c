"""Large labels: refused when they are sent, and what was taken before is listed in small pages."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.pins import Label
from tests.http.held import EVERY_STATUS, V1, add, found
from tests.http.large import LARGE, MIB, encoded, hold_large, sizes_of_lists
from tests.lag import MOST_LAG, loop_lag
from tests.ledgers import cid
from tests.process import running
from tests.service import Service, running_service

PINS = 60
ME = OpenKeys().remembered("me").id


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose backend cannot be reached, and a ledger of before."""
    async with running_service(
        tmp_path / "gateway",
        pins__backend="ipfs-cluster",
        ipfs_cluster__urls=["http://127.0.0.1:9"],
    ) as service:
        yield service


def ledger_of(database: LedgerDatabase) -> SqlitePins:
    return SqlitePins(database, grace=0.0)


@pytest.fixture
async def held(service: Service, tmp_path: Path) -> list[str]:
    """The CIDs of pins with labels of 46 KB each, the newest first."""
    async with LedgerDatabase(tmp_path / "gateway" / "ledger.sqlite") as database:
        await hold_large(ledger_of(database), ME, PINS)
    return [str(cid(number)) for number in range(PINS - 1, -1, -1)]


TOO_LARGE: list[dict[str, Any]] = [
    {"meta": {"a": "b" * 4_096}},
    {"meta": {"a": "\x01" * 700}},
    {"meta": {"\x01" * 700: "a"}},
    {"meta": {str(number): "" for number in range(600)}},
    {"name": "\x01" * 255, "meta": {"a": "b" * 2_600}},
    {"name": "ж" * 255, "meta": {"a": "\u6f22" * 1_300}},
    {"origins": [f"/dns4/{'a' * 60}.{number}.example.net/tcp/4001" for number in range(20)]}
    | {"meta": {"a": "b" * 2_500}},
]


async def test_a_label_that_is_too_large_is_refused(service: Service) -> None:
    """Name, origins and meta together, in bytes as they are answered; the refusal says so."""
    held = await add(service, V1)
    for label in TOO_LARGE:
        for path in ("/pins", f"/pins/{held['requestid']}"):
            answer = await service.psa("POST", path, body={"cid": V1, **label})
            assert answer.status == 400, label
            assert answer.json["error"]["reason"] == "BAD_REQUEST"
            assert "4096 bytes" in answer.json["error"]["details"]
    assert (await service.psa("GET", f"/pins/{held['requestid']}")).json["pin"] == {"cid": V1}


async def test_a_label_up_to_the_limit_is_taken(service: Service) -> None:
    label = {"name": "a", "meta": {"b": ""}}
    label["meta"] = {"b": "c" * (4_096 - encoded(label))}
    assert (await add(service, V1, **label))["pin"] == {"cid": V1, **label}
    label["name"] = "aa"
    assert (await service.psa("POST", body={"cid": V1, **label})).status == 400


async def test_pages_of_large_pins_are_short_and_lead_on(service: Service, held: list[str]) -> None:
    """By `before` and `count` none is missing and none comes twice; nothing of them is lost."""
    seen: list[Any] = []
    query = f"{EVERY_STATUS}&limit=1000"
    while True:
        answer = await service.psa("GET", f"/pins{query}")
        assert len(answer.body) <= MIB
        page = answer.json
        assert page["count"] == PINS - len(seen)
        seen += page["results"]
        if page["count"] == len(page["results"]):
            break
        assert len(answer.body) > MIB * 0.9
        query = f"{EVERY_STATUS}&limit=1000&before={quote(page['results'][-1]['created'])}"
    assert [status["pin"]["cid"] for status in seen] == held
    expected = {"name": LARGE.name, "origins": list(LARGE.origins), "meta": LARGE.meta}
    assert all(status["pin"] == {"cid": status["pin"]["cid"], **expected} for status in seen)


async def test_our_own_pages_lead_on_as_well(service: Service, held: list[str]) -> None:
    """By `next`, however few a page has had room to read."""
    seen: list[str] = []
    query = "?limit=1000"
    while True:
        page = (await service.ask("GET", f"/ipfs/pin/ls{query}")).json
        assert page["count"] == PINS
        seen += [result["cid"] for result in page["results"]]
        if "next" not in page:
            break
        query = f"?limit=1000&cursor={page['next']}"
    assert seen == held


async def test_a_page_of_small_pins_is_whole(service: Service) -> None:
    """A thousand of them, with names, are one page: the limit is bytes, not pins."""
    pinning = service.gateway.pinning
    for number in range(1_000):
        await pinning.add(ME, str(cid(number)), Label(f"pin {number}"))
    assert len(await found(service, f"{EVERY_STATUS}&limit=1000")) == 1_000


async def test_the_loop_goes_on_while_pages_are_made(service: Service, held: list[str]) -> None:
    """They are read and written beside it: others wait less than 50 ms."""
    await sizes_of_lists(service.url, 1)
    async with loop_lag() as lag:
        sizes = await sizes_of_lists(service.url, 8)
    assert all(0 < size <= MIB for size in sizes)
    assert lag.worst < MOST_LAG


@pytest.mark.timeout(180)
async def test_many_large_pages_at_once_fit_into_memory(tmp_path: Path) -> None:
    """150 lists of pins of 46 MB in all: the process stays under 400 MB."""
    data = tmp_path / "gateway"
    async with LedgerDatabase(data / "ledger.sqlite") as database:
        await hold_large(ledger_of(database), ME, 1_000)
    chosen = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
        "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
    }
    async with running("serve", data, chosen) as gateway:
        sizes = await sizes_of_lists(gateway.url, 150)
        status = Path(f"/proc/{gateway.child.pid}/status").read_text()
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    assert max(sizes) <= MIB
    assert sum(size > 0 for size in sizes) >= 4
    assert int(peak) < 400 * 1024
