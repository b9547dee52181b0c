"""How many cases there are, which number each has, and what became of them.

A case is known by its family and number: everything random in it follows from the two (and from
TEST_SEED), so that one case can be run again by itself. MUTATIONS is how many there are in
all; CI runs the full number."""

import os
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.chance import SEED

TOTAL: Final = int(os.environ.get("MUTATIONS", "100000"))
# Of 1,000 cases, how many are of which family.
SHARES: Final = {
    "ens": 380,
    "basenames": 40,
    "space-id": 40,
    "unstoppable": 60,
    "off-chain": 160,
    "quorum": 80,
    "ipns": 210,
    "http": 30,
}
ERRORS: Final = (502, 503, 504)
_MOST_TOLD: Final = int(os.environ.get("MUTATIONS_TOLD", "5"))


def share(family: str, of: int = 1) -> int:
    """The number of cases of *family* in one of the *of* tests that share them, at least 10."""
    return max(10, round(TOTAL * SHARES[family] / (1000 * of)))


@dataclass
class Case:
    """One case: its name, its dice, and what was done in it."""

    name: str
    rng: random.Random
    notes: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        """Remember what was done, to be told if the case fails."""
        self.notes.append(what)


class Wrong(AssertionError):
    """What came out is not what the bytes say."""


class Tally:
    """What became of the cases of one test."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.ends: Counter[int] = Counter()
        self.failures: list[str] = []

    def count(self, end: int) -> None:
        """Note how a case ended."""
        self.ends[end] += 1

    def fail(self, case: Case, why: object) -> None:
        """Note a case that went wrong."""
        notes = "\n    ".join(note[:3000] for note in case.notes)
        self.failures.append(f"{case.name} (TEST_SEED={SEED}): {why}\n    {notes}")

    def check(self, *expected: int) -> None:
        """Fail if any case went wrong, or if none ended in one of the *expected* ways: a test in
        which nothing ever gets through, or nothing is ever refused, shows nothing."""
        told = "\n".join(self.failures[:_MOST_TOLD])
        assert not self.failures, f"{len(self.failures)} failures, {self.ends}\n{told}"
        if self.ends.total() >= 200:
            missing = [end for end in expected if not self.ends[end]]
            assert not missing, (missing, self.ends)


def cases(family: str, what: str, number: int) -> Iterator[Case]:
    """The cases of one test."""
    for index in range(number):
        name = f"{family}/{what}/{index}"
        yield Case(name, random.Random(f"{SEED}/{name}"))


async def run(family: str, what: str, number: int, one: Callable[[Case], Awaitable[int]]) -> Tally:
    """Every case of one test through *one*, which returns how it ended or raises Wrong.

    Any other exception is a failure as well, and is told with its traceback."""
    tally = Tally(family)
    for case in cases(family, what, number):
        try:
            tally.count(await one(case))
        except Wrong as wrong:
            tally.fail(case, wrong)
        except Exception:
            tally.fail(case, traceback.format_exc(limit=-6))
    return tally
