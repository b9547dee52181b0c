"""Whether a run was as promised, and its figures: everything that is compared at the end.

The histories of pins must be linearizable, with the last reads of every gateway among them. The
ledger must have each pin once, and in its audit log additions and removals of a pin by turns. The
cluster must hold what the ledger wants, and nothing else. Names must have been looked up once a
process. No client may have had a wrong answer."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from content_gateway.api_keys import OpenKeys
from tests.machines.bed import Bed
from tests.machines.clients import KEYS, Clients
from tests.machines.history import Answer, History, Key, Kind, Operation
from tests.machines.linearizable import violation
from tests.waiting import eventually

_SHOWN = 5


@dataclass
class Verdict:
    """The figures of a run, and in `problems` what was not as promised, in words."""

    seed: int
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    pins: int = 0
    operations: int = 0
    held: int = 0
    lost: int = 0
    doubled: int = 0
    wrong_answers: int = 0
    longest_gap: float = 0.0
    not_linearizable: int = 0
    processes: int = 0
    names: int = 0
    lookups: int = 0
    most_lookups: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{what:>10} {came:<56} {n:>8,}" for (what, came), n in sorted(self.outcomes.items())
        ]
        lines += [f"{'fault':>10} {name:<56} {n:>8,}" for name, n in sorted(self.faults.items())]
        figures = {
            "operations": sum(self.outcomes.values()),
            "pins with a history": self.pins,
            "operations in histories": self.operations,
            "histories not linearizable": self.not_linearizable,
            "pins held at the end": self.held,
            "acknowledged pins lost": self.lost,
            "pins doubled": self.doubled,
            "answers other than right or 503": self.wrong_answers,
            "most seconds without a write": round(self.longest_gap),
            "processes of gateways": self.processes,
            "cold names": self.names,
            "look-ups": self.lookups,
            "most look-ups of a name per process": self.most_lookups,
        }
        lines += [f"{'':>10} {name:<56} {n:>8,}" for name, n in figures.items()]
        lines += [f"PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*lines, f"seed {self.seed}: {'FAILED' if self.problems else 'passed'}"])


async def judge(bed: Bed, history: History, clients: Clients, seed: int) -> Verdict:
    """The verdict on a run that has come to rest."""
    verdict = Verdict(seed, clients.outcomes)
    await clients.read_all()
    _judge_histories(verdict, history)
    _judge_answers(verdict, clients, history)
    held = {pin for pin, kept in history if _is_held(kept)}
    verdict.held = len(held)
    await _judge_ledger(verdict, bed, held, history)
    await _judge_cluster(verdict, bed, held)
    _judge_names(verdict, bed, clients)
    return verdict


def _judge_histories(verdict: Verdict, history: History) -> None:
    for pin, operations in history:
        verdict.pins += 1
        verdict.operations += len(operations)
        verdict.lost += is_lost(operations)
        if found := violation(operations):
            verdict.not_linearizable += 1
            if verdict.not_linearizable <= _SHOWN:
                verdict.problems.append(f"not linearizable: {pin}\n{found}")
    if verdict.lost:
        verdict.problems.append(f"{verdict.lost} acknowledged pins are lost")


def is_lost(operations: list[Operation]) -> bool:
    """Whether a pin was acknowledged, nobody has asked for its removal since, and it is not there:
    the plainest of what is not linearizable."""
    last = max(operations, key=lambda each: each.completed if not each.is_unknown else -1.0)
    if last.kind is not Kind.READ or last.answer is not Answer.ABSENT:
        return False
    adds = [each for each in operations if each.kind is Kind.ADD and not each.is_unknown]
    acknowledged = max((each.invoked for each in adds), default=None)
    if acknowledged is None:
        return False
    return not any(each.completed > acknowledged for each in operations if each.kind is Kind.REMOVE)


def _is_held(operations: list[Operation]) -> bool:
    reads = [each for each in operations if each.kind is Kind.READ]
    return bool(reads) and max(reads, key=lambda each: each.completed).answer is Answer.HELD


def _judge_answers(verdict: Verdict, clients: Clients, history: History) -> None:
    verdict.wrong_answers = len(clients.wrong)
    verdict.longest_gap = clients.longest_gap
    verdict.problems += clients.wrong[:_SHOWN]
    verdict.problems += [f"in a list, and never added: {pin}" for pin in history.strange[:_SHOWN]]


async def _judge_ledger(verdict: Verdict, bed: Bed, held: set[Key], history: History) -> None:
    """One row a pin, and additions and removals by turns."""

    def ask(statement: str) -> list[tuple[str, ...]]:
        return bed.pair.primary.run(statement, "ledger")

    keys = {OpenKeys().remembered(key).id: key for key in KEYS}
    rows = await asyncio.to_thread(
        ask,
        "SELECT r.requestor, c.cid FROM pins p JOIN requestors r ON r.number = p.requestor"
        " JOIN contents c ON c.id = p.content",
    )
    pins = Counter((keys[requestor], cid) for requestor, cid in rows)
    acts = await asyncio.to_thread(
        ask,
        "SELECT requestor, detail, action FROM audit WHERE action IN ('pin', 'unpin') ORDER BY id",
    )
    told: dict[Key, list[str]] = {}
    for requestor, cid, action in acts:
        told.setdefault((keys[requestor], cid), []).append(action)
    for pin, actions in told.items():
        doubled = actions != ["pin", "unpin"] * (len(actions) // 2) + ["pin"] * (len(actions) % 2)
        if doubled or pins[pin] > 1 or _created(history, pin) > actions.count("pin"):
            verdict.doubled += 1
            verdict.problems.append(f"doubled: {pin} {actions}")
    if set(pins) != held:
        different = sorted(set(pins) ^ held)
        verdict.problems.append(f"the ledger and the last reads differ in {different[:_SHOWN]}")


def _created(history: History, pin: Key) -> int:
    """How often clients were told that they had made that pin."""
    operations = history.pins[pin].operations if pin in history.pins else []
    return sum(each.answer is Answer.CREATED for each in operations)


async def _judge_cluster(verdict: Verdict, bed: Bed, held: set[Key]) -> None:
    wanted = {cid for _, cid in held}
    difference: set[str] = set()

    async def is_so() -> bool:
        nonlocal difference
        difference = await bed.backend.pinset() ^ wanted
        waiting = await asyncio.to_thread(
            bed.pair.primary.run, "SELECT count(*) FROM contents WHERE state <> 'pinned'", "ledger"
        )
        return not difference and waiting == [(0,)]

    try:
        await eventually(is_so, what="the cluster holds what the ledger wants", seconds=300)
    except TimeoutError as late:
        verdict.problems.append(f"{late}: {sorted(difference)[:_SHOWN]}")


def _judge_names(verdict: Verdict, bed: Bed, clients: Clients) -> None:
    counted = bed.ethereum.lookups
    verdict.processes = sum(gateway.life for gateway in bed.gateways)
    verdict.names = len(set(clients.names))
    verdict.lookups = counted.total()
    verdict.most_lookups = max(counted.values(), default=0)
    more = [
        f"{name} {number} times by {process}"
        for (process, name), number in counted.items()
        if number > 1
    ]
    if more:
        verdict.problems.append(f"looked up more than once: {more[:_SHOWN]}")
