"""Whether what clients were told of one pin can have been so: linearizability.

Theory of operation. There must be one order of all operations, each at a moment between its
invocation and its completion, in which a pin that behaves as promised gives the very answers that
were given. Events are walked in the order of time, with every configuration that is possible so
far: the state of the pin, and which of the operations under way have taken effect. At a completion
each configuration in which that operation has not taken effect is carried on until it has, by every
order of those under way (Wing and Gong; "just in time", Lowe). Where none is left, no order exists.

Unknown operations stay under way for ever, and may take effect once or never. They are counted and
not told apart, which keeps configurations few: one that has used fewer of them can do whatever
another one can that is the same otherwise.

A pin is held or not, and knows when it was created. Moments of creation of one requestor rise, so
that a removed pin that comes back under its old moment is found, whatever is unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.machines.history import Answer, Kind, Operation

_UNTOLD: Final = "?"
_SHOWN: Final = 12


class State(NamedTuple):
    """Of one pin: *created* is None where it is not held, "?" where nobody was told when it was
    created; *last* is the newest moment of creation that anybody was told."""

    created: str | None = None
    last: str = ""


class _Configuration(NamedTuple):
    """*done*: the numbers of operations that took effect before they were completed."""

    state: State
    done: frozenset[int]
    adds: int  # unknown ones that took effect
    removes: int


@dataclass(frozen=True)
class Violation:
    """No order explains what was told at the end of *at*; *before* leads there."""

    at: Operation
    before: Sequence[Operation]

    def __str__(self) -> str:
        return "\n".join(map(str, [*self.before[-_SHOWN:], f"{self.at}   <- impossible"]))


def after(state: State, operation: Operation) -> State | None:
    """The state after *operation* has taken effect with its answer; None where it cannot."""
    match operation.kind, operation.answer:
        case Kind.ADD, Answer.CREATED if state.created is None and operation.created > state.last:
            return State(operation.created, operation.created)
        case Kind.ADD, Answer.HELD if state.created is not None:
            return state
        case Kind.REMOVE, Answer.REMOVED if state.created is not None:
            return State(None, state.last)
        case ((Kind.REMOVE | Kind.READ), Answer.ABSENT) if state.created is None:
            return state
        case Kind.READ, Answer.HELD if state.created is not None:
            return _seen(state, operation.created)
    return None


def _seen(state: State, created: str) -> State | None:
    """The state in which a read was told *created*: it may be the first that is told."""
    if not created or state.created == created:
        return state
    if state.created == _UNTOLD and created > state.last:
        return State(created, created)
    return None


def violation(operations: Sequence[Operation]) -> Violation | None:
    """The first answer in *operations* on one pin that no order explains; None if all are right."""
    known = [each for each in operations if not each.is_unknown]
    unknown = [each for each in operations if each.is_unknown]
    # Of one moment, beginnings come first: those operations overlap.
    events = [(each.invoked, 0, number) for number, each in enumerate(known)]
    events += [(each.completed, 1, number) for number, each in enumerate(known)]
    events += [(each.invoked, 0, -1 - number) for number, each in enumerate(unknown)]
    search = _Search(known)
    ended: list[Operation] = []
    for _, is_end, number in sorted(events):
        if number < 0:
            search.begin_unknown(unknown[-1 - number])
            ended.append(unknown[-1 - number])
        elif not is_end:
            search.under_way.add(number)
        elif not search.end(number):
            return Violation(known[number], ended)
        else:
            ended.append(known[number])
    return None


class _Search:
    """The configurations that are possible at a moment."""

    def __init__(self, known: Sequence[Operation]) -> None:
        self._known = known
        self.under_way: set[int] = set()
        self._unknown: dict[Kind, int] = {Kind.ADD: 0, Kind.REMOVE: 0}
        self._possible: set[_Configuration] = {_Configuration(State(), frozenset(), 0, 0)}

    def begin_unknown(self, operation: Operation) -> None:
        """From now on it may take effect."""
        if operation.kind in self._unknown:
            self._unknown[operation.kind] += 1

    def end(self, number: int) -> bool:
        """Keep what is possible once operation *number* has taken effect; False: nothing is."""
        found: set[_Configuration] = set()
        seen = set(self._possible)
        waiting = list(self._possible)
        while waiting:
            one = waiting.pop()
            if number in one.done:
                found.add(one._replace(done=one.done - {number}))
                continue
            for more in self._next(one):
                if more not in seen:
                    seen.add(more)
                    waiting.append(more)
        self.under_way.discard(number)
        self._possible = _least(found)
        return bool(found)

    def _next(self, one: _Configuration) -> Iterable[_Configuration]:
        for number in self.under_way - one.done:
            state = after(one.state, self._known[number])
            if state is not None:
                yield one._replace(state=state, done=one.done | {number})
        if one.adds < self._unknown[Kind.ADD] and one.state.created is None:
            state = State(_UNTOLD, one.state.last)
            yield one._replace(state=state, adds=one.adds + 1)
        if one.removes < self._unknown[Kind.REMOVE] and one.state.created is not None:
            state = State(None, one.state.last)
            yield one._replace(state=state, removes=one.removes + 1)


def _least(found: set[_Configuration]) -> set[_Configuration]:
    """Those of *found* that no other one of the same state is better than."""
    best: dict[tuple[State, frozenset[int]], list[tuple[int, int]]] = {}
    for one in sorted(found, key=lambda each: (each.adds, each.removes)):
        used = best.setdefault((one.state, one.done), [])
        if not any(adds <= one.adds and removes <= one.removes for adds, removes in used):
            used.append((one.adds, one.removes))
    return {
        _Configuration(state, done, adds, removes)
        for (state, done), used in best.items()
        for adds, removes in used
    }
