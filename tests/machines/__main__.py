"""`python -m tests.machines --minutes 20`: three gateways, PostgreSQL with a standby, Valkey, three
cluster peers with three Kubos, under load and faults; a table of figures, and 1 if anything is
wrong."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.chance import SEED
from tests.machines.backends import real_cluster
from tests.machines.bed import running_bed
from tests.machines.pair import running_pair
from tests.machines.run import run
from tests.machines.verdict import Verdict


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--postgres", default="15", help="its version")
    parser.add_argument("--logs", type=Path, help="an empty folder for logs and data, which stays")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="machines") as made:
        folder = asked.logs or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        verdict = asyncio.run(_run(folder, asked))
    print(verdict)
    return 1 if verdict.problems else 0


async def _run(folder: Path, asked: argparse.Namespace) -> Verdict:
    begun = time.monotonic()

    def note(what: str) -> None:
        print(f"{time.monotonic() - begun:8.1f} s  {what}", flush=True)

    pair = running_pair(version=asked.postgres)
    async with running_bed(folder, pair, real_cluster, shares_limits=True) as bed:
        note("all run")
        return await run(
            bed, seconds=60 * asked.minutes, seed=asked.seed, clients=asked.clients, note=note
        )


if __name__ == "__main__":
    sys.exit(main())
