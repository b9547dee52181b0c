"""The checker finds what cannot have been, and passes what can: by hand, and against all orders."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest

from tests.chance import SEED
from tests.machines.history import Answer, History, Kind, Operation
from tests.machines.linearizable import violation
from tests.machines.verdict import is_lost

_ANSWERS = {
    "add": (Kind.ADD, Answer.CREATED),
    "repeat": (Kind.ADD, Answer.HELD),
    "add?": (Kind.ADD, Answer.UNKNOWN),
    "remove": (Kind.REMOVE, Answer.REMOVED),
    "remove404": (Kind.REMOVE, Answer.ABSENT),
    "remove?": (Kind.REMOVE, Answer.UNKNOWN),
    "held": (Kind.READ, Answer.HELD),
    "absent": (Kind.READ, Answer.ABSENT),
}


def told(*lines: str) -> list[Operation]:
    """Operations from lines like `0-2 add t1`: from when to when, what, and when it was created."""
    operations = []
    for line in lines:
        times, word, *created = line.split()
        kind, answer = _ANSWERS[word]
        begin, _, end = times.partition("-")
        completed = math.inf if answer is Answer.UNKNOWN else float(end)
        operations.append(Operation(kind, float(begin), completed, answer, "".join(created)))
    return operations


RIGHT = {
    "nothing at all": [],
    "added and read": ["0-1 add t1", "2-3 held t1", "4-5 repeat"],
    "removed and added again": ["0-1 add t1", "2-3 remove", "4-5 absent", "6-7 add t2"],
    "a read beside an addition sees it": ["0-3 add t1", "1-2 held t1"],
    "a read beside an addition does not see it": ["0-3 add t1", "1-2 absent"],
    "two additions at once, of which one is new": ["0-3 add t1", "1-2 repeat"],
    "a repeat that ends first": ["0-9 add t1", "1-2 repeat", "3-4 held t1"],
    "an unknown addition that happened": ["0-1 add?", "2-3 held t1", "4-5 repeat"],
    "an unknown addition that did not": ["0-1 add?", "2-3 absent", "4-5 add t1"],
    "an unknown addition that happens late": ["0-1 add?", "2-3 absent", "4-5 held t1"],
    "a lost answer that is asked for again": ["0-1 add?", "2-3 repeat", "4-5 held t1"],
    "an unknown removal that happened": ["0-1 add t1", "2-3 remove?", "4-5 absent"],
    "an unknown removal that did not": ["0-1 add t1", "2-3 remove?", "4-5 held t1"],
    "unknown ones that undo each other": [
        *("0-1 add t1", "2-3 remove?", "2-3 add?", "4-5 held t1", "6-7 held t2", "8-9 remove"),
        "10-11 absent",
    ],
}
WRONG = {
    "an acknowledged pin is lost": ["0-1 add t1", "2-3 absent"],
    "an acknowledged repeat is lost": ["0-1 add?", "2-3 repeat", "4-5 absent"],
    "a stale read": ["0-1 add t1", "2-3 remove", "4-5 held t1"],
    "created twice": ["0-1 add t1", "2-3 add t2"],
    "created twice at once": ["0-3 add t1", "1-2 add t2"],
    "removed, and back": ["0-1 add t1", "2-3 remove", "4-5 absent", "6-7 held t1"],
    "removed, and back under its old moment": [
        *("0-1 add t1", "2-3 remove", "4-5 add?", "6-7 held t1"),
    ],
    "an unknown addition that happens twice": [
        *("0-1 add?", "2-3 held t1", "4-5 remove", "6-7 held t2"),
    ],
    "its moment changes": ["0-1 add t1", "2-3 held t2"],
    "removed twice": ["0-1 add t1", "2-3 remove", "4-5 remove"],
    "removed twice at once": ["0-1 add t1", "2-5 remove", "3-4 remove"],
    "removed and never there": ["0-1 remove"],
    "held and never added": ["0-1 held t1"],
    "held before it was asked for": ["0-1 held t1", "2-3 add t1"],
    "a repeat of nothing": ["0-1 repeat", "2-3 add t1"],
    "seen, and gone again, beside its addition": ["0-9 add t1", "1-2 held t1", "3-4 absent"],
    "an unknown removal that happens twice": [
        *("0-1 add t1", "2-3 remove?", "4-5 absent", "6-7 add t2", "8-9 absent"),
    ],
    "moments that go back": ["0-1 add t2", "2-3 remove", "4-5 add t1"],
}


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_what_can_have_been_passes(lines: Sequence[str]) -> None:
    assert violation(told(*lines)) is None


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_what_cannot_have_been_is_found(lines: Sequence[str]) -> None:
    assert violation(told(*lines)) is not None


def test_a_violation_says_where_it_is() -> None:
    """The answer that nothing explains, behind those before it."""
    found = violation(told("0-1 add t1", "2-3 absent", "4-5 absent"))
    assert str(found).splitlines() == [
        "0.000-1.000  add: created t1",
        "2.000-3.000  read: absent   <- impossible",
    ]


def any_history(chance: random.Random) -> list[Operation]:
    """A few operations with any answers, at any times, of two moments of creation."""
    operations = []
    for _ in range(chance.randint(1, 6)):
        word = chance.choice(list(_ANSWERS))
        kind, answer = _ANSWERS[word]
        begin = chance.randint(0, 8)
        end = math.inf if answer is Answer.UNKNOWN else begin + chance.choice([0.5, 2.5, 4.5])
        created = chance.choice(["t1", "t2"]) if word in ("add", "held") else ""
        operations.append(Operation(kind, begin, end, answer, created))
    return operations


def orders(operations: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    """Every order of them that time allows, with any of the unknown ones left out."""
    unknown = [each for each in operations if each.is_unknown]
    known = [each for each in operations if not each.is_unknown]
    for number in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, number):
            for order in itertools.permutations([*known, *some]):
                pairs = itertools.combinations(order, 2)
                if all(later.completed >= earlier.invoked for earlier, later in pairs):
                    yield order


def explains(order: Sequence[Operation]) -> bool:
    """Whether a pin that is told these, one after the other, may answer so.

    Tries every moment of creation for those that nobody was told of."""
    silent = [at for at, each in enumerate(order) if each.kind is Kind.ADD and each.is_unknown]
    # "t1" and "t2" are told; others come before, between and behind them.
    choices = ("t0", "t1", "t1a", "t2", "t3")
    for moments in itertools.product(choices, repeat=len(silent)):
        given = dict(zip(silent, moments, strict=True))
        if _replays([(each, given.get(at, each.created)) for at, each in enumerate(order)]):
            return True
    return False


def _replays(order: Sequence[tuple[Operation, str]]) -> bool:
    held, newest = "", ""
    for each, moment in order:
        match each.kind, each.answer:
            case Kind.ADD, Answer.CREATED | Answer.UNKNOWN:
                if held:
                    if each.is_unknown:
                        continue
                    return False
                # Moments rise; but two that nobody was told of may lie as near as they like.
                if moment <= newest and not (each.is_unknown and moment not in ("t1", "t2")):
                    return False
                held, newest = moment, max(moment, newest)
            case Kind.ADD, _:
                if not held:
                    return False
            case Kind.REMOVE, Answer.REMOVED:
                if not held:
                    return False
                held = ""
            case Kind.REMOVE, Answer.UNKNOWN:
                held = ""
            case Kind.READ, Answer.HELD:
                if held != each.created:
                    return False
            case _:
                if held:
                    return False
    return True


def test_it_agrees_with_trying_all_orders() -> None:
    """Two thousand small histories of the day: the same verdict as by trying every order."""
    chance = random.Random(SEED)
    verdicts = []
    for _ in range(2_000):
        operations = any_history(chance)
        wrong = violation(operations) is not None
        right = any(explains(order) for order in orders(operations))
        assert wrong is not right, "\n".join(map(str, operations))
        verdicts.append(right)
    assert 100 < sum(verdicts) < 1_900


def test_a_long_history_with_much_unknown_is_judged() -> None:
    """Two hundred unknown operations and as many reads: what is told apart stays little."""
    lines = ["0-1 add t1"]
    for number in range(200):
        at = 2 * number + 2
        lines += [f"{at}-{at} {'remove?' if number % 2 else 'add?'}", f"{at + 1}-{at + 1} held t1"]
    assert violation(told(*lines)) is None
    assert violation(told(*lines, "500-501 remove", "502-503 held t1")) is not None


class Ticks:
    """Each moment is one later than the one before."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_reads_that_tell_nothing_new_are_not_kept() -> None:
    """A hundred reads of a pin that nobody writes are one; a write makes the next one count."""
    history, pin = History(Ticks()), ("anna", "cid")
    history.complete(history.invoke(pin, Kind.ADD), Answer.CREATED, "t1")
    for _ in range(100):
        history.complete(history.invoke(pin, Kind.READ), Answer.HELD, "t1")
    history.listed("anna", history.clock(), {"cid": "t1"}, is_whole=True)
    assert len(history.pins[pin].operations) == 2
    history.complete(history.invoke(pin, Kind.REMOVE), Answer.UNKNOWN)
    history.complete(history.invoke(pin, Kind.READ), Answer.HELD, "t1")
    history.complete(history.invoke(pin, Kind.READ), Answer.HELD, "t1")
    assert len(history.pins[pin].operations) == 5
    assert violation(history.pins[pin].operations) is None


def test_a_whole_list_says_what_is_not_there() -> None:
    """A pin that it leaves out was absent, unless the list was cut off before it."""
    for is_whole in (False, True):
        history, pin = History(Ticks()), ("anna", "cid")
        history.complete(history.invoke(pin, Kind.ADD), Answer.CREATED, "t1")
        history.listed("anna", history.clock(), {}, is_whole=is_whole)
        assert (violation(history.pins[pin].operations) is not None) is is_whole


def test_a_list_has_only_what_was_asked_for() -> None:
    history = History(Ticks())
    history.listed("anna", history.clock(), {"cid": "t1"}, is_whole=True)
    assert history.strange == ["anna cid"]


def test_a_pin_that_is_lost_is_called_so() -> None:
    """And one that somebody may have removed is not."""
    assert is_lost(told("0-1 add t1", "2-3 absent"))
    assert is_lost(told("0-1 add?", "2-3 repeat", "4-5 absent"))
    assert not is_lost(told("0-1 add t1", "2-3 remove?", "4-5 absent"))
    assert not is_lost(told("0-1 add t1", "2-3 held t1"))
    assert not is_lost(told("0-1 add?", "4-5 absent"))
