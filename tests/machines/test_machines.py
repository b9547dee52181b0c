"""Several machines over one PostgreSQL keep their promises while they fail."""

from pathlib import Path

import pytest

from tests.chance import SEED
from tests.machines.backends import miniature_cluster, real_cluster
from tests.machines.bed import running_bed
from tests.machines.nemesis import ALONE
from tests.machines.pair import running_pair
from tests.machines.run import run


@pytest.mark.deep
@pytest.mark.timeout(300)
async def test_gateways_and_their_database_may_fail(tmp_path: Path) -> None:
    """Some seconds of load while gateways are killed and PostgreSQL is restarted: nothing that was
    acknowledged is lost or doubled, and what clients were told can have been so."""
    pair = running_pair(has_standby=False)
    async with running_bed(
        tmp_path, pair, miniature_cluster, gateways=2, shares_limits=False
    ) as bed:
        verdict = await run(bed, seconds=10, seed=SEED, faults=ALONE, rest=1.0, clients=8)
    assert verdict.problems == [], str(verdict)
    assert verdict.faults["a gateway was killed"] >= 1, str(verdict)
    assert sum(verdict.faults[name] for name in ALONE) >= 1, str(verdict)


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_everything_may_fail(tmp_path: Path) -> None:
    """Three gateways, PostgreSQL with a standby, a real cluster, every fault: the same. For longer
    it is `make machines`."""
    async with running_bed(tmp_path, running_pair(), real_cluster, shares_limits=True) as bed:
        verdict = await run(bed, seconds=75, seed=SEED, rest=1.5)
    assert verdict.problems == [], str(verdict)
    assert verdict.faults.total() >= 10, str(verdict)
