"""A service under a service manager: sockets handed over, notifications, the watchdog.

The manager is this test: it binds the sockets, and reads what it is told."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.http.load import load_on
from tests.http.raw import Wire, get
from tests.process import QUIET, running
from tests.waiting import until

# What systemd does before it executes a service: descriptors from 3 on, and the id they are for.
LAUNCH = """\
import os, sys
handed = [int(one) for one in os.environ.pop("HANDED").split()]
for place, one in enumerate(handed, 3):
    os.dup2(one, place)
os.environ.setdefault("LISTEN_PID", str(os.getpid()))
os.environ["LISTEN_FDS"] = str(len(handed))
os.execv(sys.executable, [sys.executable, "-m", "content_gateway", *sys.argv[1:]])
"""
PROGRAM = [sys.executable, "-c", LAUNCH]


def listener(host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, 0), backlog=2_048)


def handed(*sockets: socket.socket, **more: str) -> dict[str, str]:
    """The environment of a service that gets *sockets*."""
    return {"HANDED": " ".join(str(one.fileno()) for one in sockets), **more}


def descriptors(*sockets: socket.socket) -> list[int]:
    return [one.fileno() for one in sockets]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.deep)])
async def test_a_restart_under_load_loses_no_connection(tmp_path: Path, workers: int) -> None:
    """Stopped and started three times on the same listener: whoever connects meanwhile waits in its
    queue, and every request has its answer."""
    with listener() as held, load_on(held.getsockname()[1]) as load:
        for restarts in (3, 2, 1, 0):
            environment = handed(held, CONTENT_GATEWAY_WORKERS=str(workers))
            async with running(
                "serve", tmp_path / "data", environment, PROGRAM, handed=descriptors(held)
            ) as service:
                assert service.url.endswith(f":{held.getsockname()[1]}")
                seen = load.answered
                await until(lambda seen=seen: load.answered > seen + 500)  # type: ignore[misc]
                if not restarts:
                    await asyncio.to_thread(load.end)
                assert await service.stop() == 0
    assert (load.failures, load.repeated) == ([], 0)
    assert load.answered > 2_000


async def test_the_admin_listener_is_handed_over_too(tmp_path: Path) -> None:
    """As the second, or in any order with its name."""
    with listener() as one, listener() as two:
        for names, admin in (("", two), ("admin:http", one)):
            environment = handed(one, two, **({"LISTEN_FDNAMES": names} if names else {}))
            async with running(
                "serve", tmp_path / "data", environment, PROGRAM, handed=descriptors(one, two)
            ):
                url = f"http://127.0.0.1:{admin.getsockname()[1]}/livez"
                async with aiohttp.ClientSession() as session, session.get(url) as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_sockets_for_another_process_are_left_alone(tmp_path: Path) -> None:
    """The variables of a parent that got them mean nothing here."""
    with listener() as held:
        environment = handed(held, LISTEN_PID="1")
        async with running(
            "serve", tmp_path / "data", environment, PROGRAM, handed=descriptors(held)
        ) as service:
            assert not service.url.endswith(f":{held.getsockname()[1]}")


@pytest.mark.parametrize(
    ("kind", "said"),
    [("datagrams", "no listening TCP socket"), ("closed", "no listening TCP socket"),
     ("three", "3 sockets were handed over"), ("open keys", "bound to a loopback address")],
)  # fmt: skip
def test_what_cannot_be_listened_on_is_refused_in_words(
    tmp_path: Path, kind: str, said: str
) -> None:
    """Status 2, as for every wrong setting; open keys are not given to other machines."""
    sockets = [listener("0.0.0.0" if kind == "open keys" else "127.0.0.1")]
    if kind == "datagrams":
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
    elif kind == "closed":
        sockets = [socket.socket()]
    elif kind == "three":
        sockets += [listener(), listener()]
    more = {"CONTENT_GATEWAY_DATA_DIR": str(tmp_path / "data"), "CONTENT_GATEWAY_PORT": "0"}
    if kind == "open keys":
        more["CONTENT_GATEWAY_KEYS__MODE"] = "open"
    done = subprocess.run(
        [*PROGRAM, "serve"],
        env=QUIET | handed(*sockets) | more,
        pass_fds=descriptors(*sockets),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    for one in sockets:
        one.close()
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which a service manager hears, and its name as it is given to services."""
    name = str(tmp_path / "notify") if request.param == "path" else f"\0notify{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(name)
        bound.settimeout(20)
        yield bound


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.deep)])
async def test_the_manager_is_told_how_the_service_is(
    manager: socket.socket, tmp_path: Path, workers: int
) -> None:
    """That it is ready once it listens, that it reloads, lives, and stops; in this order."""
    name = manager.getsockname()
    address = "@" + name[1:].decode() if isinstance(name, bytes) else name
    told: list[str] = []

    async def hear(what: str) -> str:
        while True:
            told.append((await asyncio.to_thread(manager.recv, 4096)).decode())
            if told[-1].startswith(what):
                return told[-1]

    settings = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}
    settings |= {"CONTENT_GATEWAY_ADMIN__DRAIN": "1.5s", "CONTENT_GATEWAY_WORKERS": str(workers)}
    async with running("serve", tmp_path / "data", settings) as service:
        assert f"STATUS=Listening on {service.url}" in await hear("READY=1")
        await hear("WATCHDOG=1")
        service.child.send_signal(signal.SIGHUP)
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", await hear("RELOADING=1"))
        await hear("READY=1")
        await hear("WATCHDOG=1")
        service.child.send_signal(signal.SIGTERM)
        assert "EXTEND_TIMEOUT_USEC=31500000" in await hear("STOPPING=1")
        assert await asyncio.to_thread(service.child.wait, 20) == 0


async def test_a_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    """It is told in the log, and the service serves."""
    settings = {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    async with running("serve", tmp_path / "data", settings) as service:
        with Wire(int(service.url.rpartition(":")[2])) as wire:
            assert wire.ask(get("/version")).status == 200
        await until(lambda: "service manager cannot be told" in service.log.read_text())
        assert await service.stop() == 0
