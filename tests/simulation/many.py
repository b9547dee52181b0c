"""Simulates many seeds and says which fail; one seed with --told tells of its course.

`python -m tests.simulation --seeds 10000` takes the seeds that TEST_SEED begins with, in several
processes; `--seed N` takes one. Ends with status 1 where a seed fails, and prints how to replay
it."""

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.chance import SEED
from tests.simulation.world import Run, empty_ledger, simulate

_A_DAY: Final = 1_000_000  # seeds that one TEST_SEED begins
_PROGRESS_SECONDS: Final = 30.0
_SHOWN: Final = 60


def seeds_of(number: int, first: int | None = None) -> range:
    """So many seeds from *first*, or from the first one of the day's TEST_SEED."""
    begin = SEED * _A_DAY if first is None else first
    return range(begin, begin + number)


def replay(seed: int) -> str:
    """The command that takes the course of *seed* again."""
    return f"python -m tests.simulation --seed {seed} --told"


def failure_of(run: Run) -> str:
    """A failed run for people, with the end of its course."""
    course = "\n".join(run.course[: run.course.index("the end")][-_SHOWN:])
    return f"seed {run.seed} fails: {run.wrong}\n{course}\nreplay it: {replay(run.seed)}"


def runs_of(seeds: range, processes: int) -> Iterator[Run]:
    """The runs of *seeds*, as they end."""
    with empty_ledger() as template:
        if processes == 1:
            yield from (simulate(seed, template) for seed in seeds)
            return
        context = multiprocessing.get_context("spawn")
        with context.Pool(processes, maxtasksperchild=500) as pool:
            jobs = ((seed, template) for seed in seeds)
            yield from pool.imap_unordered(_simulated, jobs, chunksize=5)


def _simulated(job: tuple[int, Path]) -> Run:
    seed, template = job
    return simulate(seed, template)


def _one(seed: int, *, is_told: bool) -> int:
    with empty_ledger() as template:
        run = simulate(seed, template, is_told=is_told)
    if is_told:
        print("\n".join(run.course))
    print(f"seed {seed}: {run.wrong or 'all is as it must be'}")
    return int(run.wrong is not None)


def _many(seeds: range, processes: int, *, stops: bool) -> int:
    began = told_at = time.monotonic()
    number = failed = commits = requests = callbacks = 0
    seconds = 0.0
    for run in runs_of(seeds, processes):
        number, seconds = number + 1, seconds + run.seconds
        commits, requests = commits + run.commits, requests + run.requests
        callbacks += run.callbacks
        if run.wrong is not None:
            failed += 1
            print(failure_of(run), flush=True)
            if stops:
                break
        if time.monotonic() > told_at + _PROGRESS_SECONDS:
            told_at = time.monotonic()
            print(f"{number:,} seeds, {seconds / 3600:,.1f} virtual hours", flush=True)
    print(
        f"{number:,} seeds from {seeds.start}: {failed} failed, {seconds / 3600:,.1f} virtual hours"
        f" in {time.monotonic() - began:,.0f} s; {commits:,} commits, {requests:,} requests to the"
        f" backend, {callbacks:,} callbacks"
    )
    return int(failed > 0)


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--first", type=int, help="the first one, instead of the day's")
    parser.add_argument("--told", action="store_true", help="tell of each commit")
    parser.add_argument("--stop", action="store_true", help="stop at the first that fails")
    parser.add_argument("--processes", type=int, default=1, help="how many at a time")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return _one(chosen.seed, is_told=chosen.told)
    seeds = seeds_of(chosen.seeds, chosen.first)
    return _many(seeds, chosen.processes, stops=chosen.stop)
