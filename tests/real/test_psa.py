"""The Pinning Service API against those who speak it: Kubo's own client, and the compliance suite.

Kubo adds content, offers it at its gateway and asks us to pin it; our embedded store fetches it
from there. The suite pins random CIDs that nobody can supply, so it meets a miniature cluster
that has everything."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from content_gateway.model.cid import Cid
from tests.http.held import before, running_cluster
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world.kubo import Kubo, running_kubo
from tests.world.peers import absent, require_peer

pytestmark = pytest.mark.deep

SUITE = "node_modules/@ipfs-shipyard/pinning-service-compliance"


class IpfsFailed(Exception):
    """The command line client failed; the message is its own."""


class PinRemote:
    """`ipfs pin remote` against one daemon."""

    def __init__(self, kubo: Kubo) -> None:
        self._command = [str(require_peer("ipfs")), "--api", f"/ip4/127.0.0.1/tcp/{kubo.port}"]

    async def __call__(self, *words: str) -> str:
        """What it prints; raises IpfsFailed."""
        child = await asyncio.create_subprocess_exec(
            *(*self._command, "pin", "remote", *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaint = await child.communicate()
        if child.returncode:
            raise IpfsFailed(complaint.decode())
        return said.decode()

    async def ls(self, *words: str) -> list[dict[str, Any]]:
        """The pins that `ls` shows."""
        lines = (await self("ls", "--service=gw", "--enc=json", *words)).splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
async def kubo(tmp_path: Path) -> AsyncIterator[Kubo]:
    async with running_kubo(tmp_path / "kubo") as kubo:
        yield kubo


@pytest.fixture
async def service(tmp_path: Path, kubo: Kubo) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path / "gateway",
        keys__mode="issued",
        pins__unpin_grace=0,
        embedded__gateways=[kubo.gateway_url],
    ) as service:
        yield service


@pytest.fixture
async def key(service: Service) -> str:
    created = await service.gateway.issued_keys.create("kubo", ("pin",), None)
    assert created is not None
    return created[0]


@pytest.fixture
async def remote(kubo: Kubo, service: Service, key: str) -> PinRemote:
    remote = PinRemote(kubo)
    await remote("service", "add", "gw", f"{service.url}/psa", key)
    return remote


async def test_kubo_counts_the_pins_of_each_status(remote: PinRemote, kubo: Kubo) -> None:
    """`service ls --stat` asks once for every status."""
    await remote("add", "--service=gw", await kubo.add_raw(b"one"))
    assert "0/0/1/0" in await remote("service", "ls", "--stat")


async def test_kubo_pins_and_waits_until_it_is_pinned(
    remote: PinRemote, kubo: Kubo, service: Service, key: str
) -> None:
    """A directory, with a name; the native face shows the same pin."""
    cid = await kubo.add_directory({"index.html": b"<h1>hello</h1>", "a/b.txt": b"b" * 300_000})
    said = await remote("add", "--service=gw", "--name=site", "--enc=json", cid)
    assert json.loads(said) == {"Status": "pinned", "Cid": cid, "Name": "site"}
    assert await remote.ls() == [{"Status": "pinned", "Cid": cid, "Name": "site"}]
    native = (await service.ask("GET", f"/ipfs/pin/status/{cid}", key=key)).json["result"]
    assert (native["status"], native["cid"]) == ("pinned", cid)


async def test_kubo_pins_in_the_background(remote: PinRemote, kubo: Kubo) -> None:
    """Content that is not there yet; it is pinned once it is."""
    cid = await kubo.add_raw(b"later")
    await kubo.remove_block(cid)
    said = json.loads(
        await remote("add", "--service=gw", "--background", "--name=x", "--enc=json", cid)
    )
    assert said["Status"] in ("queued", "pinning", "failed")
    every = "--status=queued,pinning,pinned,failed"
    assert [pin["Cid"] for pin in await remote.ls(every)] == [cid]
    assert await remote.ls() == []
    assert await kubo.add_raw(b"later") == cid

    async def is_pinned() -> bool:
        return [pin["Status"] for pin in await remote.ls(f"--cid={cid}", every)] == ["pinned"]

    assert await eventually(is_pinned, seconds=60)


async def test_kubo_finds_pins_by_name_and_cid(remote: PinRemote, kubo: Kubo) -> None:
    """And only those."""
    cids = {name: await kubo.add_raw(name.encode()) for name in ("a", "b", "c")}
    for name, cid in cids.items():
        await remote("add", "--service=gw", f"--name={name}", cid)
    assert [pin["Name"] for pin in await remote.ls()] == ["c", "b", "a"]
    assert [pin["Cid"] for pin in await remote.ls("--name=b")] == [cids["b"]]
    assert [pin["Name"] for pin in await remote.ls(f"--cid={cids['c']}")] == ["c"]
    assert await remote.ls("--status=failed") == []


async def test_kubo_removes_pins(remote: PinRemote, kubo: Kubo, service: Service, key: str) -> None:
    """One by its CID, which it asks for by request id; many only when it is forced to."""
    cids = [await kubo.add_raw(str(number).encode()) for number in range(3)]
    for cid in cids:
        await remote("add", "--service=gw", "--name=many", cid)
    await remote("rm", "--service=gw", f"--cid={cids[0]}")
    assert {pin["Cid"] for pin in await remote.ls()} == set(cids[1:])
    with pytest.raises(IpfsFailed, match="force"):
        await remote("rm", "--service=gw", "--name=many")
    await remote("rm", "--service=gw", "--name=many", "--force")
    assert await remote.ls() == []
    for cid in cids:
        assert (await service.ask("GET", f"/ipfs/pin/status/{cid}", key=key)).status == 404


async def test_kubo_sees_more_pins_than_fit_a_page(
    remote: PinRemote, kubo: Kubo, service: Service, key: str
) -> None:
    """It asks on with `before` until it has them all."""
    requestor = (await service.gateway.keys.identify(key)).id
    cids = [str(Cid.parse(await kubo.add_raw(str(number).encode()))) for number in range(45)]
    for cid in cids:
        await service.gateway.pinning.add(requestor, cid)

    async def are_all_there() -> bool:
        return [pin["Cid"] for pin in await remote.ls()] == cids[::-1]

    assert await eventually(are_all_there, seconds=60)


async def test_kubo_can_read_why_it_is_refused(kubo: Kubo, service: Service) -> None:
    """A wrong key, and a CID that cannot be pinned: our words reach the person."""
    remote = PinRemote(kubo)
    await remote("service", "add", "gw", f"{service.url}/psa", "wrong")
    with pytest.raises(IpfsFailed, match="A valid API key is required"):
        await remote.ls()


@pytest.mark.timeout(400)  # it takes a second between pins, and the machine may be busy
async def test_the_compliance_suite_is_content(tmp_path: Path) -> None:
    """All of its expectations are met: 89 of 89 of version 1.8.1."""
    suite = require_peer("ipfs").parents[1] / "psa" / SUITE
    if not suite.is_dir():
        absent("the compliance suite is not installed: run `make peers`")
    async with (
        running_cluster() as cluster,
        before(cluster, tmp_path / "gateway", keys__mode="issued") as service,
    ):
        created = await service.gateway.issued_keys.create("suite", ("pin",), None)
        assert created is not None
        with (tmp_path / "suite.log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(
                *("node", str(suite / "dist/src/index.js")),
                *("-s", f"{service.url}/psa", created[0]),
                cwd=tmp_path,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                await child.wait()
            finally:
                if child.returncode is None:
                    child.kill()
    said = (tmp_path / "suite.log").read_text()
    assert "Summary (9/9 successful)" in said, said[-5000:]
    assert "❌" not in said
    report = (suite / "dist" / "docs" / "127.0.0.1.md").read_text()
    assert f"# {service.url}/psa compliance" in report
    assert expectations(report) == (89, 89), said[-5000:]


def expectations(report: str) -> tuple[int, int]:
    """How many of the suite's expectations were met, and how many there are.

    The report counts those of a part again in the whole that it belongs to: only the wholes of
    its summary are added up."""
    summary, *sections = report.split("\n## ")[1:]
    wholes = set(re.findall(r"\[(.+)\]\(#", summary))
    met = there = 0
    for section in sections:
        title = section.partition("\n")[0].rsplit(" - ", 1)[0]
        found = re.search(r"### Expectations \((\d+)/(\d+) successful\)", section)
        if title in wholes and found is not None:
            met, there = met + int(found[1]), there + int(found[2])
    return met, there
