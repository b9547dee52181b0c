"""Logs are bounded in rate: a failure that every request meets does not fill the disk."""

import os
import subprocess
import sys

import pytest
import structlog

from content_gateway.telemetry.logs import BURST, LogBound
from tests.clock import Clock


def test_so_many_of_a_kind_and_no_more() -> None:
    """Ten thousand of one kind in a moment are a hundred lines; another kind is written all the
    same, and the next line of the first says how many were left out."""
    clock = Clock()
    bound = LogBound(clock)

    def written(level: str, text: str) -> dict[str, object] | None:
        try:
            return dict(bound(None, level, {"event": text}))
        except structlog.DropEvent:
            return None

    lines = [written("error", "ledger write failed") for _ in range(10_000)]
    assert sum(line is not None for line in lines) == BURST
    assert written("error", "another one") == {"event": "another one"}
    assert written("info", "ledger write failed") == {"event": "ledger write failed"}
    clock.pass_(3)
    after = [written("error", "ledger write failed") for _ in range(10)]
    assert after[0] == {"event": "ledger write failed", "left_out": 10_000 - BURST}
    assert [line for line in after[1:] if line] == 2 * [{"event": "ledger write failed"}]


def test_texts_of_others_cost_no_memory_without_end() -> None:
    """A library may put what it likes into its messages."""
    bound = LogBound()
    for number in range(5_000):
        assert bound.take("ERROR", f"message {number}") == 0
    assert sys.getsizeof(vars(bound)["_kinds"]) < 200_000


@pytest.mark.parametrize("level", ["structlog", "logging"])
def test_the_bound_is_in_place(level: str) -> None:
    """In the log of the process itself, whoever writes to it."""
    code = (
        "import logging, structlog; from content_gateway.telemetry import logs;"
        "logs.configure('info', 'json');"
        f"log = {'structlog.get_logger()' if level == 'structlog' else 'logging.getLogger()'};"
        "[log.error('it failed') for _ in range(1000)]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert BURST <= done.stderr.count("it failed") < BURST + 30


@pytest.mark.parametrize("level", ["structlog", "logging"])
@pytest.mark.parametrize("target", ["a full disk", "a pipe that nobody reads"])
def test_a_log_that_cannot_be_written_stops_nobody(level: str, target: str) -> None:
    """Whoever logs goes on: it may be the thread that writes the ledger, whose disk is full."""
    if target == "a full disk":
        stderr = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, stderr = os.pipe()
        os.close(reader)
    code = (
        "import logging, structlog; from content_gateway.telemetry import logs;"
        "logs.configure('info', 'text');"
        f"log = {'structlog.get_logger()' if level == 'structlog' else 'logging.getLogger()'};"
        "[log.error(f'failure {number} ' + 1000 * 'x') for number in range(100)];"
        "print('went on', flush=True)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=stderr, check=False
        )
    finally:
        os.close(stderr)
    assert done.stdout == b"went on\n"
