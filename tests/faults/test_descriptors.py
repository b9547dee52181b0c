"""The real service with few descriptors (RLIMIT_NOFILE), and more wanted than there are.

Idle connections, names that hang and contents that nobody has are poured on it at once: it goes on
to take new callers, to search its ledger and to keep what it promised, and says what it lacks."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

from tests.fakes.ethereum import Ethereum
from tests.fakes.flood import flooding
from tests.faults.test_hostile import encoded, session_of, statuses
from tests.ledgers import cid
from tests.process import COMMAND, Running, running
from tests.waiting import until

FILES = 256
IDLE = 400
SEARCH = "/psa/pins?match=partial&name=a&status=queued,pinning,pinned,failed"


def cpu_seconds(service: Running) -> float:
    """What the process has used so far (utime and stime of proc(5))."""
    fields = Path(f"/proc/{service.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(service: Running) -> int:
    return len(os.listdir(f"/proc/{service.child.pid}/fd"))


@asynccontextmanager
async def idle_connections(service: Running, number: int) -> AsyncIterator[list[bool]]:
    """So many that ask nothing, one after the other; True in the place of each that has ended."""
    port = int(service.url.rpartition(":")[2])
    ended, writers, watching = [False] * number, [], []

    async def watch(place: int, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()
        ended[place] = True

    try:
        for place in range(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            watching.append(asyncio.create_task(watch(place, reader)))
        yield ended
    finally:
        for writer in writers:
            writer.close()
        await asyncio.gather(*watching)


async def test_without_descriptors_the_service_goes_on(tmp_path: Path, ethereum: Ethereum) -> None:
    """New callers are answered, the longest idle go first; what needs a descriptor is done, or
    refused with 503; every acknowledged pin is there; and nothing spins meanwhile."""
    ethereum.hold()
    with ExitStack() as floods:
        silent = [floods.enter_context(flooding(b"")).url for _ in range(4)]
        settings = {
            "CONTENT_GATEWAY_KEYS__MODE": "open",
            "CONTENT_GATEWAY_ENS__RPC_URLS": encoded([ethereum.url]),
            "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": encoded(silent),
        }
        program = ["prlimit", f"--nofile={FILES}:{FILES}", *COMMAND]
        async with running("serve", tmp_path / "data", settings, program) as service:
            url, began, cpu = service.url, monotonic(), cpu_seconds(service)
            pins = [f"/ipfs/pin/add/{cid(each)}" for each in range(100)]
            assert set(await statuses(url, "one", pins, "POST", at_once=8)) == {200}
            names = [f"/domain/resolve/hang{each}.eth" for each in range(100)]
            hanging = asyncio.create_task(statuses(url, "one", names, at_once=100))
            async with idle_connections(service, IDLE) as ended:
                await until(lambda: any(ended) and ended == sorted(ended, reverse=True))
                most = open_files(service)
                pinned, searched, versions = await asyncio.gather(
                    statuses(url, "two", pins, "POST", at_once=8),
                    statuses(url, "two", [SEARCH] * 40, at_once=8),
                    statuses(url, "three", ["/version"] * 40, at_once=8),
                )
                found = await hanging
                spent, passed = cpu_seconds(service) - cpu, monotonic() - began
            log = (tmp_path / "data.log").read_text()
            print(
                f"\n{most} of {FILES} files, {spent:.2f} s of CPU in {passed:.1f} s; {sum(ended)}"
                f" of {IDLE} idle ones went; {Counter(found)} {Counter(searched)}"
            )
            assert set(versions) == set(pinned) == {200}
            assert set(searched) <= {200, 503}
            assert 200 in searched
            assert set(found) <= {503, 504}
            assert sum(ended) >= IDLE - FILES
            for warning in ("connections are at their limit", "no connection can be opened here"):
                assert warning in log
            assert "Traceback" not in log
            assert spent < passed / 2
            async with session_of("two") as session, session.get(f"{url}/ipfs/pin/ls") as answer:
                assert (await answer.json())["count"] == len(pins)
