"""A service that kills itself with SIGKILL at a named point, without its edge.

Run as a program it composes the real ledger, reconciler, sweep and backend as app.py does, takes
wishes as lines ("add REQUESTOR CID", "remove REQUESTOR CID") and says each back once it is
acknowledged. A process passes a point before and after every call of a port; at the given passage
of the given point it is gone."""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import PinNotFound
from content_gateway.ledger.contents import SqliteContents
from content_gateway.ledger.pins import SqliteLedger
from content_gateway.ledger.resyncs import SqliteResyncs
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import HttpClient
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync, ResyncSchedule
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import load
from content_gateway.sqlite.database import Database
from content_gateway.telemetry import configure
from content_gateway.wiring.pins import embedded_store, pin_backend, reconcile_policy


def _around(*calls: str) -> tuple[str, ...]:
    """The points before and after each of these calls."""
    return tuple(f"{when} {call}" for call in calls for when in ("before", "after"))


SWEEPING: Final = _around("acquire_job", "pinset", "known", "settled", "report", "finish_job")
"""Passed once in a short life."""
FAILPOINTS: Final = (
    *_around("add", "remove", "lease", "look", "begin", "pin", "unpin", "settle"),
    *SWEEPING,
)


class Failpoint:
    """The point at which this process dies, when it has passed it so many times."""

    def __init__(self, point: str, passages: int) -> None:
        self._point = point
        self._left = passages

    def passing(self, point: str) -> None:
        """Die here, if it is here."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A port whose calls pass a point before and after."""

    def __init__(self, port: Any, failpoint: Failpoint) -> None:
        self._port = port
        self._failpoint = failpoint

    def __getattr__(self, name: str) -> Any:
        attribute, failpoint = getattr(self._port, name), self._failpoint
        if inspect.isasyncgenfunction(attribute):

            async def listed(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
                failpoint.passing(f"before {name}")
                async for each in attribute(*arguments, **named):
                    yield each
                failpoint.passing(f"after {name}")

            return listed
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def watched(*arguments: Any, **named: Any) -> Any:
            failpoint.passing(f"before {name}")
            answer = await attribute(*arguments, **named)
            failpoint.passing(f"after {name}")
            return answer

        return watched


@asynccontextmanager
async def opened(settings: Settings, failpoint: Failpoint) -> AsyncIterator[Pinning]:
    """The running parts that keep pins."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.ledger_path))
        outbound = await stack.enter_async_context(HttpClient())
        if settings.pins.backend == "embedded":
            blocks = await stack.enter_async_context(Blockstore(settings.blocks_path))
            backend: Any = embedded_store(settings, outbound, blocks, Denylist(None, None))
        else:
            backend = pin_backend(settings, outbound)
        watched: Any = Watched(backend, failpoint)
        contents: Any = Watched(SqliteContents(database), failpoint)
        resyncs: Any = Watched(SqliteResyncs(database), failpoint)
        ledger: Any = Watched(SqliteLedger(database, grace=settings.pins.unpin_grace), failpoint)
        reconciler = Reconciler(contents, watched, policy=reconcile_policy(settings))
        stack.push_async_callback(reconciler.close)
        schedule = ResyncSchedule(interval=settings.pins.resync_interval)
        resync = Resync(resyncs, watched, wake=reconciler.wake, schedule=schedule)
        stack.push_async_callback(resync.close)
        reconciler.start()
        resync.start()
        yield Pinning(ledger, blocking=Denylist(None, None), wake=reconciler.wake)


async def grant(pinning: Pinning, request: str) -> None:
    """Do what a line asks for, and say that it is done."""
    what, requestor, cid = request.split()
    if what == "add":
        await pinning.add(requestor, cid)
    else:
        with suppress(PinNotFound):
            await pinning.remove(requestor, Cid.parse(cid))
    print(request, flush=True)


async def main(point: str, passages: str) -> None:
    """Serve the lines of standard input until it ends, or until death."""
    settings = load(environ=dict(os.environ)).settings
    configure("error", "text")
    lines = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    failpoint = Failpoint(point, int(passages))
    async with opened(settings, failpoint) as pinning, asyncio.TaskGroup() as tasks:
        while line := await lines.readline():
            tasks.create_task(grant(pinning, line.decode().strip()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
