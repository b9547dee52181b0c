"""Twenty thousand steps of requestors, crashes, outages and losses: what was promised is kept.

PIN_MODEL_SEEDS takes more of them. Three more are drawn from the day's TEST_SEED."""

import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from content_gateway.ledger.sqlite.database import LedgerDatabase
from tests.chance import SEED
from tests.pins.model.acting import Tally
from tests.pins.model.adapted import AdaptedCluster
from tests.pins.model.machine import ASKING, RECONCILE_POINTS, RESYNC_POINTS, PinMachine

pytestmark = pytest.mark.deep

STEPS_A_RUN = 60
# Hypothesis repeats itself, with small changes, once a seed has had ten runs.
RUNS_A_SEED = 10
SEEDS = int(os.environ.get("PIN_MODEL_SEEDS", "14"))
DAILY_SEEDS = 3


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Tens of thousands of troubles are not worth a line each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def template() -> AsyncIterator[Path]:
    """An empty ledger, to be copied; in memory where there is a folder for it."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = Path(folder) / "empty.sqlite"
        async with LedgerDatabase(path):
            pass
        yield path


def explore(template: Path, first_seed: int, **world: Any) -> Tally:
    """Take many steps in that world; what was done."""
    tally = Tally()
    chosen = {"tally": tally, "template": template} | world
    profile = settings(
        max_examples=RUNS_A_SEED,
        stateful_step_count=STEPS_A_RUN,
        database=None,
        deadline=None,
        phases=[Phase.generate, *([] if "PIN_MODEL_NO_SHRINK" in os.environ else [Phase.shrink])],
        suppress_health_check=list(HealthCheck),
    )
    daily = SEED * 10_000 + first_seed
    for number in (*range(first_seed, first_seed + SEEDS), *range(daily, daily + DAILY_SEEDS)):
        machine = seed(number)(type("PinMachine", (PinMachine,), chosen))
        run_state_machine_as_test(machine, settings=profile)
    return tally


def check(tally: Tally) -> None:
    """Enough was done: so many steps, and a process died at every point."""
    crashes = {
        point: tally.crashed[point] for point in (*ASKING, *RECONCILE_POINTS, *RESYNC_POINTS)
    }
    print(f"{tally.steps} steps, {sum(crashes.values())} crashes: {crashes}")
    print(f"calls: {dict(sorted(tally.passed.items()))}")
    assert tally.steps >= 500 * SEEDS
    if SEEDS >= 14:
        assert [point for point, times in crashes.items() if not times] == []


@pytest.mark.timeout(900)
def test_a_batching_cluster_holds_what_was_promised(template: Path) -> None:
    """It takes changes into a batch that may be lost, and shows none of them until then."""
    check(explore(template, 0, window=60.0))


@pytest.mark.timeout(900)
def test_a_store_without_batches_holds_what_was_promised(template: Path) -> None:
    """It fetches before it answers, and knows nothing of what it could not fetch."""
    check(explore(template, 1000, window=0.0))


@pytest.mark.timeout(900)
def test_nothing_is_lost_without_a_period_of_grace(template: Path) -> None:
    """What nobody holds is released at once, in the middle of an open batch."""
    check(explore(template, 2000, window=60.0, grace=0.0))


@pytest.mark.timeout(900)
def test_a_cluster_of_two_peers_holds_what_was_promised(template: Path) -> None:
    """Through the real adapter, with a batch in each peer; one of them is dark at times."""
    check(explore(template, 3000, cluster=AdaptedCluster))
