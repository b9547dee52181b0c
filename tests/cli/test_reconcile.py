"""`reconcile now` and `reconcile report`: what the ledger owes, worked off and shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.cli.command import content, run
from tests.fakes.origin import Origin
from tests.process import running
from tests.waiting import eventually, until


def import_some(folder: Path, numbers: range) -> None:
    text = "\n".join(str(content(number)[0]) for number in numbers)
    assert run(folder, "pin", "import", "-", given=text).returncode == 0


async def test_now_works_off_what_waits(tmp_path: Path, origin: Origin) -> None:
    """Without a service everything is pinned at the end, compared with the store, and reported."""
    origin.blocks.update(content(number) for number in range(30))
    await asyncio.to_thread(import_some, tmp_path, range(30))
    settings = {"EMBEDDED__GATEWAYS": json.dumps([origin.url])}
    done = await asyncio.to_thread(run, tmp_path, "reconcile", "now", "--json", **settings)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["contents"]["pinned"] == 30
    assert shown["contents"]["queued"] == 0
    assert shown["waiting"] == []
    assert shown["resync"]["unmanaged"] == 0


async def test_now_beside_a_service_leaves_the_work_to_it(tmp_path: Path, origin: Origin) -> None:
    """What waits out a long backoff is due at once, and the service fetches it; the command has no
    gateway."""
    cid, data = content(1)
    folder = tmp_path / "data"
    settings = {"CONTENT_GATEWAY_EMBEDDED__GATEWAYS": json.dumps([origin.url])}
    async with running("dev", folder, settings):
        added = await asyncio.to_thread(run, folder, "pin", "add", str(cid))
        assert added.returncode == 0

        await until(lambda: origin.asked_for(cid) > 0)
        origin.blocks[cid] = data
        done = await asyncio.to_thread(run, folder, "reconcile", "now", "--timeout", "60")
        assert done.returncode == 0, done.stderr
        assert "pinned     1" in done.stdout


async def test_now_says_what_it_could_not_do(tmp_path: Path, origin: Origin) -> None:
    """Content that nobody has is left over once it was tried again, long before the timeout:
    status 1, how many, and the reason of each."""
    origin.blocks.update([content(1)])
    await asyncio.to_thread(import_some, tmp_path, range(1, 3))
    settings = {"EMBEDDED__GATEWAYS": json.dumps([origin.url])}
    arguments = ("reconcile", "now", "--timeout", "600")
    done = await asyncio.to_thread(run, tmp_path, *arguments, **settings)
    assert done.returncode == 1
    assert done.stderr.endswith("Not all is done: 1 failed.\n")
    assert "pinned     1" in done.stdout
    assert f"  {content(2)[0]} failed since " in done.stdout


async def test_now_stops_at_the_timeout(tmp_path: Path) -> None:
    """Content that is still waited for then is told as such."""
    await asyncio.to_thread(import_some, tmp_path, range(1))
    done = await asyncio.to_thread(run, tmp_path, "reconcile", "now", "--timeout", "1")
    assert done.returncode == 1
    assert done.stderr.endswith("Not all is done after 1 s: 1 queued.\n")


def test_a_backend_that_is_away_is_told_at_once(tmp_path: Path) -> None:
    """Nobody waits for a timeout to learn that the backend cannot be reached."""
    import_some(tmp_path, range(1))
    settings = {"PINS__BACKEND": "kubo", "KUBO__URL": "http://127.0.0.1:9"}
    done = run(tmp_path, "reconcile", "now", **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert "The pin backend is unreachable" in done.stderr
    assert "Traceback" not in done.stderr


async def test_unmanaged_pins_are_reported_and_not_touched(tmp_path: Path, origin: Origin) -> None:
    """What the store holds and no ledger has asked for is named, and still there afterwards."""
    cid, data = content(1)
    origin.blocks[cid] = data
    settings = {"EMBEDDED__GATEWAYS": json.dumps([origin.url])}
    added = await asyncio.to_thread(run, tmp_path, "pin", "add", str(cid), "--wait", **settings)
    assert added.returncode == 0, added.stderr
    for path in tmp_path.glob("ledger.sqlite*"):
        path.unlink()
    for _ in range(2):
        assert run(tmp_path, "reconcile", "now").returncode == 0
        resync = json.loads(run(tmp_path, "reconcile", "report", "--json").stdout)["resync"]
        assert (resync["listed"], resync["unmanaged"], resync["sample"]) == (1, 1, [str(cid)])
    assert f"{cid} is on the backend" in run(tmp_path, "reconcile", "report").stdout


def test_a_report_of_an_empty_ledger_is_one(tmp_path: Path) -> None:
    """No pins, no resync: zeros, and that there was none."""
    run(tmp_path, "keys", "create", "--name", "team")
    done = run(tmp_path, "reconcile", "report")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == ["backend: nobody has asked it yet", "queued     0"]
    assert done.stdout.splitlines()[-1] == "no resync yet"


async def test_a_report_beside_a_service_opens_with_its_outage(tmp_path: Path) -> None:
    """The service cannot reach its cluster; another process says so, since when and until when, and
    how many pins wait for it."""
    settings = {
        "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
        "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
        "CONTENT_GATEWAY_KEYS__MODE": "open",
    }
    ours = {name.removeprefix("CONTENT_GATEWAY_"): value for name, value in settings.items()}
    async with running("serve", tmp_path, settings):
        await asyncio.to_thread(import_some, tmp_path, range(40))

        async def told() -> dict[str, Any] | None:
            done = await asyncio.to_thread(run, tmp_path, "reconcile", "report", "--json", **ours)
            shown: dict[str, Any] = json.loads(done.stdout)
            return shown if shown["backend"] and not shown["backend"]["reachable"] else None

        shown = await eventually(told, seconds=60)
        report = await asyncio.to_thread(run, tmp_path, "reconcile", "report", **ours)
        status = await asyncio.to_thread(
            run, tmp_path, "pin", "status", str(content(7)[0]), "--json", **ours
        )
    assert shown["reasons"] == {"the backend cannot be reached": 40}
    assert shown["backend"]["since"] <= shown["backend"]["nextAttempt"]
    assert shown["oldestWaiting"] is not None
    reasons = [each["reason"] for each in shown["waiting"]]
    assert reasons
    assert all("cannot be reached since" in reason for reason in reasons)
    assert report.stdout.startswith("backend cannot be reached since 2")
    assert "  40: the backend cannot be reached" in report.stdout
    one = json.loads(status.stdout)
    assert one["reason"].startswith("The pin backend cannot be reached since 2")
    assert one["nextAttempt"] is not None
