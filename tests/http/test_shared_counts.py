"""One limit of a key, counted by several processes that tell each other."""

import asyncio
import random
import time

import pytest

from content_gateway.api_keys import Requestor
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.shared_counts import SharedCounts, Taken
from content_gateway.model.allowance import Allowance
from tests.chance import SEED
from tests.waiting import until


class Process:
    """A process in miniature: its limits, and those that it tells."""

    def __init__(self) -> None:
        self.limits = KeyLimits()
        self.others: list[Process] = []
        self.told = 0
        self.counts = SharedCounts(self.limits, self._tell)

    def _tell(self, taken: Taken) -> None:
        self.told += 1
        for other in self.others:
            asyncio.get_running_loop().call_soon(other.counts.hear, taken)

    def let_in(self, requestor: Requestor) -> bool:
        try:
            self.limits.admit(requestor, "getKey", time.perf_counter())
        except HttpRefusal:
            return False
        return True


def processes(number: int) -> list[Process]:
    """As many, each of which tells all others."""
    made = [Process() for _ in range(number)]
    for one in made:
        one.others = [other for other in made if other is not one]
    return made


def requestor(name: str = "team", per_minute: int = 1_000, per_day: int = 0) -> Requestor:
    allowance = Allowance(requests_per_minute=per_minute, requests_per_day=per_day)
    return Requestor(f"key_{name}", frozenset(), name, allowance)


@pytest.mark.parametrize("number", [2, 4])
async def test_a_thousand_a_minute_are_a_thousand_by_all_processes_together(number: int) -> None:
    """Three times as many are asked for, a request to any process in each turn of the loop: what is
    let in is never less, and at most 2 % more."""
    made, team, random_ = processes(number), requestor(), random.Random(SEED)
    let_in = 0
    for _ in range(3_000):
        let_in += random_.choice(made).let_in(team)
        await asyncio.sleep(0.0005)
    assert 1_000 <= let_in <= 1_020
    # A message costs every process something: near the limit only there is one for each request.
    assert sum(each.told for each in made) < 1_000


async def test_the_day_is_shared_as_the_minute_is() -> None:
    """And a key that one process has never seen has its limits there."""
    one, other = processes(2)
    team = requestor(per_minute=0, per_day=3)
    assert [one.let_in(team) for _ in range(4)] == [True, True, True, False]
    await until(lambda: dict(other.limits.used()))
    assert not other.let_in(team)


async def test_a_new_process_begins_with_what_the_others_have_counted() -> None:
    """Also where the limit is another by then, and what was counted a while ago."""
    one, fresh = Process(), Process()
    team = requestor(per_minute=10, per_day=100)
    assert all(one.let_in(team) for _ in range(8))
    fresh.counts.hear_late(one.counts.counts())
    assert [fresh.let_in(team) for _ in range(3)] == [True, True, False]
    raised = requestor(per_minute=20, per_day=100)
    other = Process()
    other.counts.hear_late(one.counts.counts())
    assert sum(other.let_in(raised) for _ in range(20)) == 12


async def test_keys_without_limits_are_nobodys_business() -> None:
    """They cost no message."""
    one, _ = processes(2)
    for _ in range(100):
        assert one.let_in(requestor(per_minute=0))
    one.counts.tell()
    assert one.told == 0
