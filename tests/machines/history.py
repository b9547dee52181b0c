"""What clients did with each pin, and what they were told: when each operation began and ended.

A pin is a pair of API key and CID. An operation without a clear answer (503, a timeout, a
connection that was cut) is unknown: it may have happened, or may still happen at any time. Reads
that can tell nothing new are not kept. What a history must be like is said in linearizable.py."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]  # an API key and a CID


class Kind(Enum):
    """What a client asked for."""

    ADD = "add"
    REMOVE = "remove"
    READ = "read"


class Answer(Enum):
    """What it was told."""

    CREATED = "created"  # a new pin
    HELD = "held"  # a repeat, or a read of a pin that is there
    REMOVED = "removed"
    ABSENT = "absent"  # a removal or a read of a pin that is not there
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one pin, in seconds of one clock; *completed* is infinite if unknown.

    *created* is when the pin was created, as the service spells it; "" where it did not say."""

    kind: Kind
    invoked: float
    completed: float
    answer: Answer
    created: str = ""
    by: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether it may have happened or not."""
        return self.answer is Answer.UNKNOWN

    def __str__(self) -> str:
        end = "..." if self.is_unknown else f"{self.completed:.3f}"
        made = f" {self.created}" if self.created else ""
        return f"{self.invoked:.3f}-{end} {self.by} {self.kind.value}: {self.answer.value}{made}"


@dataclass(slots=True)
class PinHistory:
    """The operations on one pin, in the order in which they ended."""

    operations: list[Operation] = field(default_factory=list)
    open_writes: int = 0
    last_write: float = -math.inf  # when a write was invoked, or ended, last
    unknown: set[Kind] = field(default_factory=set)

    def add(self, operation: Operation) -> None:
        """Keep *operation*, unless it is a read that tells nothing new."""
        if operation.kind is not Kind.READ or not self._is_redundant(operation):
            self.operations.append(operation)

    def _is_redundant(self, read: Operation) -> bool:
        """Whether an earlier read saw the same, and nothing can have changed since it began.

        An unknown addition changes nothing of a pin that is held, nor an unknown removal of one
        that is not."""
        changes = Kind.REMOVE if read.answer is Answer.HELD else Kind.ADD
        if self.open_writes or changes in self.unknown or not self.operations:
            return False
        last = self.operations[-1]
        return (
            last.kind is Kind.READ
            and (last.answer, last.created) == (read.answer, read.created)
            and self.last_write < last.invoked
        )


@dataclass(frozen=True, slots=True)
class Invocation:
    """An operation that was begun."""

    pin: Key
    kind: Kind
    at: float
    by: str


class History:
    """The histories of all pins, on one *clock*."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.pins: dict[Key, PinHistory] = {}
        self.strange: list[str] = []  # pins in lists that nobody has ever added

    def invoke(self, pin: Key, kind: Kind, by: str = "") -> Invocation:
        """Note that *by* begins an operation now."""
        kept = self.pins.setdefault(pin, PinHistory())
        now = self.clock()
        if kind is not Kind.READ:
            kept.open_writes += 1
            kept.last_write = now
        return Invocation(pin, kind, now, by)

    def complete(self, begun: Invocation, answer: Answer, created: str = "") -> None:
        """Note that it ends now, with that *answer*."""
        kept = self.pins[begun.pin]
        now = self.clock()
        is_unknown = answer is Answer.UNKNOWN
        if begun.kind is not Kind.READ:
            kept.open_writes -= 1
            kept.last_write = now
            if is_unknown:
                kept.unknown.add(begun.kind)
        elif is_unknown:
            return  # a read that failed tells nothing
        end = math.inf if is_unknown else now
        kept.add(Operation(begun.kind, begun.at, end, answer, created, begun.by))

    def never_sent(self, begun: Invocation) -> None:
        """Note that nobody took the request: it has certainly not happened."""
        if begun.kind is not Kind.READ:
            self.pins[begun.pin].open_writes -= 1

    def listed(
        self, key: str, invoked: float, found: Mapping[str, str], *, is_whole: bool, by: str = ""
    ) -> None:
        """Note a list of the pins of *key* that was begun at *invoked* and ends now: *found* has
        when each was created, by CID.

        Each CID of it is a read by itself: a page is of one moment, a list of several pages is not.
        A pin that is held all the time is in a list that *is_whole*, so one that is not there was
        absent at some moment of it."""
        now = self.clock()
        for cid, created in found.items():
            if (key, cid) not in self.pins:
                self.strange.append(f"{key} {cid}")
                continue
            read = Operation(Kind.READ, invoked, now, Answer.HELD, created, by)
            self.pins[key, cid].add(read)
        if is_whole:
            read = Operation(Kind.READ, invoked, now, Answer.ABSENT, "", by)
            for (owner, cid), kept in self.pins.items():
                if owner == key and cid not in found:
                    kept.add(read)

    def __iter__(self) -> Iterator[tuple[Key, list[Operation]]]:
        for pin, kept in self.pins.items():
            yield pin, kept.operations
