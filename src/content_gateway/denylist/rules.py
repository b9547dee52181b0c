"""Deny and allow rules by what they speak of, and which of them speaks last.

Knows that the last matching rule decides (IPIP-383, negated rules) and how to keep a million
rules small. How rules are written, and what they are asked about, is left to compact_format.py and
domain_list.py."""

from typing import Final

_PARTS: Final = 256
_MASK: Final = _PARTS - 1
_SHIFT: Final = 32  # the lowest bits find the place inside a part


class RuleSet:
    """For each key the run of rules that spoke of it last.

    A run is a stretch of rules that all deny or all allow: within it order does not matter, so
    its number stands for the place of each of its rules, and one number serves them all. Runs
    that deny are odd, runs that allow are even, 0 is none at all: the highest run that matches
    decides, and it denies if it is odd.

    About 120 bytes a rule. The keys are spread over many small tables, as a table of a million
    takes 100 ms to grow, during which no other thread runs."""

    def __init__(self) -> None:
        self._parts: list[dict[bytes, int]] = [{} for _ in range(_PARTS)]

    def put(self, key: bytes, run: int) -> None:
        """Record that a rule of *run* speaks of *key*."""
        self._parts[hash(key) >> _SHIFT & _MASK][key] = run

    def last(self, key: bytes) -> int:
        """The last run that speaks of *key*, 0 if none does."""
        return self._parts[hash(key) >> _SHIFT & _MASK].get(key, 0)

    def __len__(self) -> int:
        return sum(map(len, self._parts))


def next_run(run: int, *, allows: bool) -> int:
    """The run of a rule that follows one of *run*."""
    return run + 1 if run % 2 == allows else run


def denies(run: int) -> bool:
    """True if what *run* spoke of last is blocked."""
    return run % 2 == 1
