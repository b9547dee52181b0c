"""Processes over one ledger keep every promise, whatever fails and whoever is killed.

A few seeds of the day, and three hundred in `make test-deep`; `make simulate SEEDS=10000` takes as
many as there is time for. A seed that fails is printed with the command that replays it."""

import re
from pathlib import Path

import pytest

from tests.simulation.many import failure_of, runs_of, seeds_of
from tests.simulation.world import Run, empty_ledger, simulate

FEW, MANY = 8, 300
_OWNER = re.compile(r"lease \S+")


def _prove(seeds: range) -> list[Run]:
    runs = []
    for run in runs_of(seeds, 1):
        assert run.wrong is None, failure_of(run)
        runs.append(run)
    seconds, commits = sum(run.seconds for run in runs), sum(run.commits for run in runs)
    print(f"{len(runs)} seeds from {seeds.start}: {seconds / 3600:.1f} virtual hours")
    assert commits > 20 * len(runs)
    assert seconds > 60 * len(runs)
    return runs


@pytest.mark.timeout(600)
def test_a_few_seeds_keep_every_promise() -> None:
    """Kills at any await, a slow and failing database, a backend that is late and lies."""
    _prove(seeds_of(FEW))


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_three_hundred_seeds_keep_every_promise() -> None:
    """As many again, and everything that can happen does happen in some of them."""
    runs = _prove(range(seeds_of(1).start + FEW, seeds_of(1).start + FEW + MANY))
    told = "\n".join(line for run in runs for line in run.course)
    for event in (
        *("is killed now", "is killed at a step", "is killed when it has committed"),
        *("is killed when the backend took", "is stopped", "set back"),
        *("the backend is AWAY", "the backend is MUTE", "the backend is started again"),
        *("the backend loses", "SimulatedStore", "SimulatedCluster"),
        *("the ledger is HANGING", "the ledger is UNANSWERED", "the ledger is LOCKED"),
    ):
        assert event in told, f"in no run: {event}"


def test_a_seed_takes_the_same_course_again(tmp_path: Path) -> None:
    """Each commit and each request at the same time, so that a failure can be looked into."""
    with empty_ledger() as template:
        first, second = (
            [
                _OWNER.sub("lease", line)
                for line in simulate(seeds_of(1).start, template, is_told=True).course
            ]
            for _ in range(2)
        )
    assert len(first) > 50
    assert first == second
