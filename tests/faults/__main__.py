"""`make faults`: every row of the table of faults, on SQLite and PostgreSQL, and docs/faults.md.

Each row on each database is a process of its own, with a deadline; one that fails keeps no other
from being run. Of a row that is not run the page keeps what it has. Ends with 1 where a number
does not hold."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.ground import ground
from tests.faults.page import Measured, machine, write
from tests.faults.row import Figure, Row, Size
from tests.faults.rows.all_rows import ROWS

DATABASES: Final = ("sqlite", "postgres")
_GRACE: Final = 20.0  # seconds to end what a row has started


def main() -> int:
    """The status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("rows", nargs="*", help="names of rows; all without any")
    parser.add_argument("--short", action="store_true", help="smaller numbers, and no page")
    parser.add_argument("--in", dest="database", choices=DATABASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.rows) - {row.name for row in ROWS}
    if unknown:
        names = ", ".join(row.name for row in ROWS)
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {names}")
    size: Size = "short" if given.short else "full"
    chosen = [row for row in ROWS if not given.rows or row.name in given.rows]
    if given.database:
        figure = alone(chosen[0], given.database, size)
        sys.stdout.write(msgspec.json.encode(figure).decode() + "\n")
        return 0
    measured = asyncio.run(every(chosen, size))
    if size == "full":
        write(measured, ROWS, machine())
    failed = [one for one in measured if not one.holds]
    print(f"{len(measured) - len(failed)} of {len(measured)} rows hold")
    return 1 if failed else 0


def alone(row: Row, database: str, size: Size) -> Figure:
    """The figure of one row on one database, measured in this process."""
    logging.disable(logging.CRITICAL)
    # Which a shell's background jobs ignore; `within_deadline` ends a row by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        try:
            with ground(database, Path(folder)) as place:
                return asyncio.run(row.scene(place, size))
        except BaseException as wrong:
            traceback.print_exc()
            for log in sorted(Path(folder).glob("*.log")):
                sys.stderr.write(f"--- {log.name}\n{log.read_text()[-3000:]}\n")
            first = str(wrong).partition("\n")[0][:200]
            return Figure(f"{type(wrong).__name__}: {first}", holds=False)


async def every(rows: list[Row], size: Size) -> list[Measured]:
    """All figures, row by row; told as they come."""
    measured = []
    for row in rows:
        found = [
            await within_deadline(row, database, size)
            for database in (DATABASES[:1] if row.apart else DATABASES)
        ]
        one = Measured(row, found)
        measured.append(one)
        print(f"{'holds' if one.holds else 'FAILS'}  {row.name}: {row.must}", flush=True)
        for database, figure in zip(DATABASES, found, strict=False):
            print(f"       {'' if row.apart else database + ': '}{figure.text}", flush=True)
    return measured


async def within_deadline(row: Row, database: str, size: Size) -> Figure:
    """The figure that a process of its own has measured; none in time is one that fails."""
    command = [sys.executable, "-m", "tests.faults", row.name, "--in", database]
    child = await asyncio.create_subprocess_exec(
        *command,
        *(["--short"] if size == "short" else []),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(row.deadline):
            said, _ = await child.communicate()
    except TimeoutError:
        return Figure(f"nothing was measured within {row.deadline:.0f} s", holds=False)
    finally:
        await _end(child)
    try:
        return msgspec.json.decode(said.splitlines()[-1], type=Figure)
    except (IndexError, msgspec.DecodeError):
        return Figure(f"its process ended with {child.returncode}", holds=False)


async def _end(child: asyncio.subprocess.Process) -> None:
    """End the row's process, and all that it has started and left."""
    if child.returncode is None:
        # Not SIGTERM: what it has mounted and started is put away as it leaves its blocks.
        child.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(_GRACE):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
