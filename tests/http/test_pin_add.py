"""POST /ipfs/pin/add/{cid}: as spec.yaml has it."""

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
    requestor = (await service.gateway.keys.identify("me")).id
    kept = (await service.gateway.pinning.status(requestor, Cid.parse(V1))).pin
    assert kept.timestamp == answered


async def test_a_key_has_one_pin_of_a_cid(service: Service) -> None:
    """A repeat gets the notice alone; blanks around a field's value are not part of it (RFC 9110
    section 5.5). Another key has a pin of its own."""
    await service.pin(V1, key="me")
    for key in ("me", " me  "):
        assert (await service.pin(V1, key=key)).json == EXISTS
    assert (await service.pin(V1, key="another")).json["message"] == "Pin added"


async def test_every_spelling_is_one_pin(service: Service) -> None:
    """CIDv0, base16, base36, base58 and base64 of a pinned CID are the pin that exists."""
    from multiformats import CID

    assert (await service.pin(V0)).json["result"]["cid"] == V0
    cid = CID.decode(V1)
    assert str(CID.decode(V0).set(version=1, base="base32")) == V1
    for base in ("base16", "base16upper", "base36", "base58btc", "base64", "base64url", "base2"):
        spelling = str(cid.set(base=base)).replace("/", "%2F")
        assert (await service.pin(spelling)).json == EXISTS, base


async def test_pins_survive_a_restart(tmp_path: Path) -> None:
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
