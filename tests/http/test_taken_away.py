"""A ledger that is taken away while the service runs, as its clients see it."""

from pathlib import Path

from tests.cli.command import content
from tests.service import running_service


async def test_without_its_ledger_the_service_promises_nothing(tmp_path: Path) -> None:
    """Ten pins after the ledger was renamed: ten times 503 in words; so are repeats and lists. When
    it is put back everything works again, and what was promised before is there."""
    data = tmp_path / "data"
    cids = [str(content(number)[0]) for number in range(12)]
    async with running_service(data) as service:
        assert (await service.pin(cids[0])).json["message"] == "Pin added"
        (data / "ledger.sqlite").rename(data / "away")
        for cid in cids[1:11]:
            answer = await service.pin(cid)
            assert (answer.status, answer.json["code"]) == (503, "storage-unavailable")
            assert answer.headers["retry-after"]
            assert "ledger" in answer.json["detail"]
        assert (await service.pin(cids[0])).status == 503
        assert (await service.ask("GET", "/ipfs/pin/ls")).status == 503
        assert (await service.psa("GET")).status == 503
        assert (await service.psa("POST", body={"cid": cids[11]})).status == 503
        assert (await service.ask("GET", "/version", key=None)).status == 200
        assert not (data / "ledger.sqlite").exists()
        (data / "away").rename(data / "ledger.sqlite")
        assert (await service.pin(cids[0])).json["message"].startswith("A pin already exists")
        assert (await service.pin(cids[1])).json["message"] == "Pin added"
        assert (await service.ask("GET", "/ipfs/pin/ls")).json["count"] == 2
