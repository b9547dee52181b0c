"""`pin add --wait`: somebody brings the content in, and the command says how far that is."""

import asyncio
import json
import os
import pty
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, content, environment_of, run
from tests.fakes.origin import Origin
from tests.process import running


@asynccontextmanager
async def waiting(
    folder: Path, *arguments: str, **settings: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("pin", "add", *arguments),
        env=environment_of(folder, settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def said(child: asyncio.subprocess.Process, ending: str) -> str:
    """What it has printed on standard error, up to the line with *ending*."""
    assert child.stderr is not None
    text = ""
    async with asyncio.timeout(60):
        while ending not in text:
            line = (await child.stderr.readline()).decode()
            assert line, text
            text += line
    return text


def gateways(origin: Origin) -> str:
    return json.dumps([origin.url])


async def test_without_a_service_the_command_brings_the_content_in(
    tmp_path: Path, origin: Origin
) -> None:
    """Status 0 means that it is pinned; progress goes to stderr, the pin to stdout."""
    cid, data = content(1)
    origin.blocks[cid] = data
    arguments = ("pin", "add", str(cid), "--wait", "--json", "--name", "one")
    settings = {"EMBEDDED__GATEWAYS": gateways(origin)}
    done = await asyncio.to_thread(run, tmp_path, *arguments, **settings)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["status"], shown["name"]) == ("pinned", "one")
    assert shown["replicas"] == {"pinned": 1, "wanted": 1}
    assert "Pin added\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("pinned")


async def test_beside_a_service_the_service_does_it(tmp_path: Path, origin: Origin) -> None:
    """The command has no gateway to fetch from, and the content is pinned nevertheless."""
    cid, data = content(2)
    origin.blocks[cid] = data
    folder = tmp_path / "data"
    settings = {"CONTENT_GATEWAY_EMBEDDED__GATEWAYS": gateways(origin)}
    async with running("dev", folder, settings):
        done = await asyncio.to_thread(run, folder, "pin", "add", str(cid), "--wait")
        assert done.returncode == 0, done.stderr
        assert origin.asked_for(cid) > 0


async def test_a_service_that_ends_is_replaced_by_the_command(
    tmp_path: Path, origin: Origin
) -> None:
    """A service that could not do it is killed; the command goes on with its own gateways."""
    cid, data = content(3)
    origin.blocks[cid] = data
    folder = tmp_path / "data"
    settings = {"EMBEDDED__GATEWAYS": gateways(origin)}
    async with (
        running("dev", folder) as service,
        waiting(folder, str(cid), "--wait", **settings) as child,
    ):
        await said(child, "No gateway")
        service.kill()
        async with asyncio.timeout(60):
            assert await child.wait() == 0


def test_what_takes_too_long_is_told_and_kept(tmp_path: Path) -> None:
    """After the timeout: status 1, how far it is and why; the pin is there."""
    cid = str(content(4)[0])
    done = run(tmp_path, "pin", "add", cid, "--wait", "--timeout", "1.5")
    assert done.returncode == 1
    assert "Not pinned after 1.5 s" in done.stderr
    assert "No gateway" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(tmp_path, "pin", "status", cid).returncode == 0


async def test_ctrl_c_keeps_the_pin(tmp_path: Path) -> None:
    """Interrupted while it waits, the command says that the pin is kept, and it is."""
    cid = str(content(5)[0])
    async with waiting(tmp_path, cid, "--wait") as child:
        await said(child, "No gateway")
        child.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            _, rest = await child.communicate()
        assert child.returncode == 130
        assert "Interrupted. The pin is kept" in rest.decode()
        assert "Traceback" not in rest.decode()
    assert run(tmp_path, "pin", "status", cid).returncode == 0


async def test_a_terminal_gets_one_line_that_moves(tmp_path: Path, origin: Origin) -> None:
    """On a terminal there is a bar, written over itself and gone at the end."""
    cid, data = content(6)
    origin.blocks[cid] = data
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "pin", "add", str(cid), "--wait"],
        env=environment_of(tmp_path, {"EMBEDDED__GATEWAYS": gateways(origin)}),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    assert await asyncio.to_thread(child.wait, 60) == 0
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\r\x1b[K[" in shown
    assert "] pinned" in shown
    assert shown.endswith("\r\x1b[K")


@pytest.mark.parametrize("command", [["pin", "add", "CID", "--wait"], ["reconcile", "now"]])
async def test_pins_of_another_backend_are_not_touched(tmp_path: Path, command: list[str]) -> None:
    """With settings that name another backend than the service had, nothing is reconciled: contents
    would be called pinned that are not where they should be."""
    cid = str(content(7)[0])
    folder = tmp_path / "data"
    settings = {"CONTENT_GATEWAY_PINS__BACKEND": "kubo"}
    async with running("serve", folder, settings) as service:
        await service.stop()
    arguments = [cid if word == "CID" else word for word in command]
    done = await asyncio.to_thread(run, folder, *arguments)
    assert done.returncode == 2
    assert '"kubo"' in done.stderr
    assert '"embedded"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_timeout_without_waiting_is_a_mistake(tmp_path: Path) -> None:
    """--timeout says nothing without --wait, and the pin is not added."""
    cid = str(content(8)[0])
    assert run(tmp_path, "pin", "add", cid, "--timeout", "5").returncode == 2
    assert run(tmp_path, "pin", "status", cid).returncode == 1
