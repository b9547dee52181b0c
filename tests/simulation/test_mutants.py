"""Deliberate faults: the simulation finds each of them within some seeds.

Each runs in a process of its own, on a copy of the package. A mutant that survives shows something
that the simulation does not see."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, NoLongerThere, apply
from tests.simulation.world import empty_ledger, simulate

_ROOT: Final = Path(__file__).parents[2]
MOST_SEEDS: Final = 1_500


def seeds_until_found(mutant: Mutant, folder: Path, first: int, most: int = MOST_SEEDS) -> int:
    """How many seeds from *first* it took to find *mutant*; 0 if *most* did not."""
    apply(mutant, folder)
    command = [sys.executable, "-m", "tests.simulation", "--stop"]
    done = subprocess.run(
        [*command, "--first", str(first), "--seeds", str(most)],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    counted = [line for line in done.stdout.splitlines() if " seeds from " in line]
    assert counted, f"{done.stdout}\n{done.stderr}"
    print(f"{mutant.name}: {counted[0]}")
    print("\n".join(line for line in done.stdout.splitlines() if " fails: " in line))
    return int(counted[0].split(" seeds")[0].replace(",", "")) if done.returncode else 0


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_a_mutant_is_found(mutant: Mutant, tmp_path: Path) -> None:
    """What breaks a promise is seen by some seed, in which the code as it is keeps all of them.
    Always the same seeds: luck is no proof."""
    number = seeds_until_found(mutant, tmp_path, mutant.first)
    assert number, f"nothing is wrong in {MOST_SEEDS} seeds"
    with empty_ledger() as template:
        assert simulate(mutant.first + number - 1, template).wrong is None


def test_every_mutant_is_still_a_change_of_the_source(tmp_path: Path) -> None:
    """Its text is in the source once, so that it is this fault which is looked for."""
    assert len(MUTANTS) >= 20
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for number, mutant in enumerate(MUTANTS):
        try:
            apply(mutant, tmp_path / str(number))
        except NoLongerThere as gone:
            pytest.fail(str(gone))
        assert mutant.old != mutant.new
