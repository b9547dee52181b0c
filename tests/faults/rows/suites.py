"""Rows that tests run in full already: they are run as they are, and their own words read.

A suite that fails is a figure that does not hold; how many cases it has is told by variables."""

import asyncio
import os
import re
import sys
from typing import Final

from tests.faults.ground import Ground
from tests.faults.row import Figure, Size

_MUTATIONS: Final = {"full": "100000", "short": "1000"}
_SHOWN: Final = 12_000  # characters of what a suite that fails has said last
_EXAMPLES: Final = {"full": "1000", "short": "10"}


async def _pytest(*arguments: str, **variables: str) -> tuple[bool, str, str]:
    """Whether all passed, the last line, and all that was printed."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "--timeout=1500"),
        *arguments,
        env=os.environ | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await child.communicate())[0].decode()
    last = [line for line in said.splitlines() if re.search(r"(passed|failed).* in [\d.]+", line)][
        -1:
    ]
    if child.returncode:
        sys.stderr.write(said[-_SHOWN:])
    return child.returncode == 0, (last or [said[-300:]])[0], said


async def mutated_answers(ground: Ground, size: Size) -> Figure:
    """`tests/mutations`: over HTTP, and at the client of upstreams."""
    number = _MUTATIONS[size]
    passed, last, _ = await _pytest("tests/mutations", MUTATIONS=number)
    return Figure(f"{int(number):,} answers, {_told(last)}", passed)


async def described_requests(ground: Ground, size: Size) -> Figure:
    """`tests/http/test_schemathesis.py`, with the ledger of this ground."""
    examples = _EXAMPLES[size]
    passed, last, _ = await _pytest(
        "tests/http/test_schemathesis.py",
        SCHEMATHESIS_EXAMPLES=examples,
        SCHEMATHESIS_DATABASE=ground.settings.get("CONTENT_GATEWAY_DATABASE__URL", ""),
    )
    return Figure(f"{examples} examples an operation, {_told(last)}", passed)


async def hostile_upstreams(ground: Ground, size: Size) -> Figure:
    """`tests/faults/test_hostile.py`, with one watcher on the loop and another client beside."""
    chosen = [] if size == "full" else ["-k", "large_pages"]
    passed, _, said = await _pytest("tests/faults/test_hostile.py", *chosen)
    found = re.findall(r"lag ([\d.]+) ms of CPU, then ([\d.]+), memory (\d+) MB", said)
    if not found:
        return Figure(said[-200:], False)
    second = max(float(then) for _, then, _ in found)
    memory = max(int(megabytes) for *_, megabytes in found)
    return Figure(
        f"{len(found)} attacks: second longest hold of the loop {second:.0f} ms of CPU, memory"
        f" {memory} MB",
        passed and memory < 400 and second < 50,
    )


def _told(line: str) -> str:
    """What pytest says in the end, without its ornaments."""
    counted = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", line)
    return ", ".join(counted) or line.strip("= ")
