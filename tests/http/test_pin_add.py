"""POST /ipfs/pin/add/{cid}: as spec.yaml has it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.model.cid import RAW, Cid
from tests.http.held import V0, V1
from tests.service import Service, running_service

NOBODY = "http://127.0.0.1:9"
EXISTS = {"message": "A pin already exists for this CID and API key"}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        yield service


async def test_a_new_pin_is_confirmed(service: Service) -> None:
    """The answer has message, result and the key as it was sent, and is never stored."""
    answer = await service.pin(V1, key="my key")
    assert answer.json["message"] == "Pin added"
    assert answer.json["result"]["cid"] == V1
    assert answer.json["apiKey"] == "my key"
    assert answer.headers["cache-control"] == "no-store"


async def test_the_timestamp_is_the_ledgers(service: Service) -> None:
    """What is answered is what is kept, to the millisecond."""
    answered = (await service.pin(V1)).json["result"]["timestamp"]
    requestor = service.gateway.keys.identify("me").id
    kept = service.gateway.pinning.status(requestor, Cid.parse(V1)).pin
    assert kept.timestamp == answered


async def test_blanks_around_a_key_are_not_part_of_it(service: Service) -> None:
    """RFC 9110: a field's value has no blanks around it, so they name no other requestor."""
    await service.pin(V1, key="me")
    assert (await service.pin(V1, key=" me  ")).json == EXISTS


async def test_a_repeat_adds_nothing(service: Service) -> None:
    """The same key and CID get the notice, and only the notice."""
    await service.pin(V1)
    assert (await service.pin(V1)).json == EXISTS


async def test_another_key_has_a_pin_of_its_own(service: Service) -> None:
    """The same CID under a second key is a second pin."""
    await service.pin(V1, key="a")
    assert (await service.pin(V1, key="b")).json["message"] == "Pin added"


async def test_every_spelling_is_one_pin(service: Service) -> None:
    """CIDv0, base16, base36, base58 and base64 of a pinned CID are the pin that exists."""
    from multiformats import CID

    assert (await service.pin(V0)).json["result"]["cid"] == V0
    cid = CID.decode(V1)
    assert str(CID.decode(V0).set(version=1, base="base32")) == V1
    for base in ("base16", "base16upper", "base36", "base58btc", "base64", "base64url", "base2"):
        spelling = str(cid.set(base=base)).replace("/", "%2F")
        assert (await service.pin(spelling)).json == EXISTS, base


async def test_64_at_once_add_one(service: Service) -> None:
    """64 concurrent requests of one key and CID give one "Pin added" and 63 notices."""
    answers = await asyncio.gather(*(service.pin(V1) for _ in range(64)))
    messages = [answer.json["message"] for answer in answers]
    assert messages.count("Pin added") == 1
    assert messages.count(EXISTS["message"]) == 63


async def test_pins_survive_a_restart(tmp_path: Path) -> None:
    """What was acknowledged is there when the service comes back."""
    async with running_service(tmp_path) as service:
        await service.pin(V1)
    async with running_service(tmp_path) as service:
        assert (await service.pin(V1)).json == EXISTS


@pytest.mark.parametrize(
    ("cid", "word"),
    [(Cid(RAW, 0x1E, bytes(32)), "blake3"), (Cid(0x78, 0x12, bytes(32)), "git-raw")],
)
async def test_what_the_backend_can_never_keep_is_refused(
    service: Service, cid: Cid, word: str
) -> None:
    """The embedded store says so at once, by every way in, and not by a pin that always fails."""
    answers = [
        await service.pin(str(cid)),
        await service.psa("POST", body={"cid": str(cid)}),
    ]
    assert answers[0].json["code"] == "invalid-cid"
    for answer in answers:
        assert answer.status == 400
        assert word in answer.body.decode()


async def test_what_another_backend_can_keep_is_taken(tmp_path: Path) -> None:
    """A cluster verifies blake3: what is refused depends on who keeps it."""
    async with running_service(
        tmp_path / "cluster", pins__backend="ipfs-cluster", ipfs_cluster__urls=[NOBODY]
    ) as service:
        assert (await service.pin(str(Cid(RAW, 0x1E, bytes(32))))).status == 200
