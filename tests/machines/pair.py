"""Two PostgreSQLs: a primary, and a standby that every commit waits for.

Restarts them, fails over as a failover manager does (the old primary is fenced, the standby is
promoted, the old one becomes a copy of the new), and stands a link between the two. Which faults
come when is the nemesis's business."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.postgres.toxic import Link, linked
from tests.waiting import eventually
from tests.world.postgres import USER, Postgres, as_ordinary_user, require_programs

_SETTINGS: Final = {
    "shared_buffers": "64MB",
    "max_connections": "200",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "500ms",
    "wal_receiver_timeout": "10s",
    "wal_sender_timeout": "10s",
    "wal_keep_size": "256MB",
}
_BOTH: Final = "FIRST 1 (one, two)"
_STARTS: Final = 40


class Machine(Postgres):
    """A PostgreSQL called *name*; its commits wait for the other one where it *is_synchronous*."""

    def __init__(self, name: str, programs: Path, folder: Path, *, is_synchronous: bool) -> None:
        super().__init__(programs, folder, dict(_SETTINGS))
        self.name = name
        self.is_synchronous = is_synchronous

    def start(self) -> None:
        """As of any PostgreSQL; one that was killed may need some tries, as others end late."""
        # From the first moment on, so that nothing is committed by one alone after a promotion.
        self._settings["synchronous_standby_names"] = _BOTH if self.is_synchronous else ""
        for _ in range(_STARTS - 1):
            try:
                return super().start()
            except RuntimeError:
                self.stop()
                time.sleep(0.1)
        return super().start()

    def power_off(self) -> None:
        """Kill all of its processes at once: none is left that could commit anything."""
        if self._server is None:
            return
        pid = self._server.pid
        os.kill(pid, signal.SIGSTOP)  # so that it starts no more
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        self.stop()

    def crash(self) -> None:
        """End at once, as by `pg_ctl stop -m immediate`."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(30)
            self._server = None

    def pause(self) -> None:
        """Stand still, all of it: connections stay, and nothing is answered."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Go on after a pause."""
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Become a primary; return once it takes writes."""
        self.run("SELECT pg_promote(true, 60)")

    def copy_from(self, primary: "Machine", port: int) -> None:
        """Become a standby of *primary*, reached at *port*, with a copy of its files."""
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user={USER}"
        command: list[str | Path] = [
            *(self._programs / "pg_basebackup", "-D", data, "-d", source, "--no-sync"),
            *("-c", "fast", "-X", "stream", "-R"),
        ]
        done = subprocess.run(as_ordinary_user(command), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pg_basebackup failed: {done.stderr.decode(errors='replace')}")
        follows = f"host=127.0.0.1 port={port} user={USER} application_name={self.name}"
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{follows}'\n")

    def _pids(self) -> list[int]:
        if self._server is None:
            return []
        pid = self._server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]


class Pair:
    """The two machines; `replication` is the link on which the standby follows the primary.

    Without a standby there is the primary alone."""

    def __init__(self, primary: Machine, standby: Machine | None, links: dict[str, Link]) -> None:
        self.primary = primary
        self.standby = standby
        self._links = links

    @property
    def machines(self) -> list[Machine]:
        """Both, in the order of their names."""
        both = [self.primary, *([self.standby] if self.standby else [])]
        return sorted(both, key=lambda machine: machine.name)

    @property
    def replication(self) -> Link:
        """What the standby follows the primary by."""
        return self._links[self.primary.name]

    async def fail_over(self) -> None:
        """Lose the primary, and go on with the standby; in the end there is a standby again.

        Also to one that lags: commits that it lacks were still waiting for it, and nobody has seen
        them. Only where the primary was started again meanwhile it shows them (docs/facts/
        postgres.md): then `until_in_step` comes first."""
        assert self.standby is not None
        old, new = self.primary, self.standby
        await asyncio.to_thread(old.power_off)  # fenced: it can answer nobody any more
        await asyncio.to_thread(new.promote)
        self.primary, self.standby = new, old
        await asyncio.to_thread(old.copy_from, new, self._links[new.name].port)
        await asyncio.to_thread(old.start)
        await self.until_in_step()

    async def until_in_step(self, seconds: float = 120.0) -> None:
        """Return once the standby follows and has all that the primary has committed."""
        if self.standby is None:
            return

        ((end,),) = await asyncio.to_thread(self.primary.run, "SELECT pg_current_wal_flush_lsn()")

        async def is_in_step() -> bool:
            rows = await asyncio.to_thread(
                self.primary.run,
                f"SELECT state = 'streaming' AND flush_lsn >= '{end}'::pg_lsn"
                " FROM pg_stat_replication WHERE application_name IN ('one', 'two')",
            )
            return any(is_so for (is_so,) in rows)

        await eventually(is_in_step, what="the standby is in step", seconds=seconds)

    def stop(self) -> None:
        """End both."""
        for machine in self.machines:
            machine.power_off()


@asynccontextmanager
async def running_pair(
    *, has_standby: bool = True, is_synchronous: bool = True, version: str = "15"
) -> AsyncIterator[Pair]:
    """Two machines with a ledger's schema in the database `ledger`, the first one primary."""
    programs = require_programs(version)
    async with AsyncExitStack() as stack:
        machines, links = [], {}
        for name in ("one", "two") if has_standby else ("one",):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pg")))
            machine = Machine(name, programs, folder, is_synchronous=False)
            machines.append(machine)
            links[name] = await stack.enter_async_context(linked(machine.port))
        pair = Pair(machines[0], machines[1] if has_standby else None, links)
        stack.callback(pair.stop)
        await asyncio.to_thread(_begin, pair, is_synchronous and has_standby)
        await pair.until_in_step()
        yield pair


def _begin(pair: Pair, is_synchronous: bool) -> None:
    primary, standby = pair.primary, pair.standby
    primary.create()
    primary.start()
    primary.make_template()
    primary.run("CREATE DATABASE ledger TEMPLATE template_ledger")
    if standby is None:
        return
    standby.copy_from(primary, pair.replication.port)
    standby.is_synchronous = is_synchronous
    standby.start()
    primary.shut_down()
    primary.is_synchronous = is_synchronous
    primary.start()
