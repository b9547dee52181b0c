"""What a client knows of its own pins: what it asked for, what was acknowledged, what follows.

A request that was sent and not acknowledged may have been granted or not, and the ledger says
which; one that was acknowledged stands. The ledger is read while nobody runs on it."""

import random
from collections.abc import Iterator
from hashlib import sha256

from content_gateway.api_keys import OpenKeys
from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from tests.faults.ledger_rows import LedgerRows

REQUESTORS = ("anna", "ben")


def block(number: int) -> tuple[Cid, bytes]:
    data = f"content {number}".encode()
    return Cid(RAW, SHA2_256, sha256(data).digest()), data


class Journal:
    """Requests and answers of some requestors with open keys, over many lives of a service."""

    def __init__(self, seed: int) -> None:
        self._names = {OpenKeys().remembered(key).id: key for key in REQUESTORS}
        self.acknowledged = 0
        self._random = random.Random(seed)
        self._next = 0
        self._held: dict[tuple[str, str], bool] = {}  # acknowledged, or found in the ledger
        self._open: dict[tuple[str, str], str] = {}  # sent, and not answered
        self._kept: list[tuple[str, str]] = []  # what may be removed

    def next_request(self) -> str:
        """A line that asks for a new pin, a second one of a content, or a removal."""
        roll = self._random.random()
        pin = self._new()
        what = "add"
        if roll < 0.35 and self._kept:
            number = self._random.randrange(len(self._kept))
            old = self._kept[number]
            if roll < 0.1:
                pin = (REQUESTORS[1 - REQUESTORS.index(old[0])], old[1])
            else:
                self._kept[number] = self._kept[-1]
                self._kept.pop()
                pin, what = old, "remove"
        if pin in self._open or (what == "add" and self._held.get(pin)):
            pin, what = self._new(), "add"
        self._open[pin] = what
        return f"{what} {pin[0]} {pin[1]}"

    def _new(self) -> tuple[str, str]:
        self._next += 1
        return self._random.choice(REQUESTORS), str(block(self._next)[0])

    def answered(self, line: str) -> None:
        what, *pin = line.split()
        self._record((pin[0], pin[1]), what == "add")
        self.acknowledged += 1

    def _record(self, pin: tuple[str, str], is_held: bool) -> None:
        self._open.pop(pin, None)
        self._held[pin] = is_held
        if is_held:
            self._kept.append(pin)

    def check(self, rows: LedgerRows) -> None:
        """What was acknowledged is in the ledger, and nothing in it is half."""
        found = rows.pins()
        assert rows.halves() == [], "half rows"
        assert all(cid is not None for _, cid in found), "pins without contents"
        pins = {(self._names[requestor], str(cid)) for requestor, cid in found}
        sure = {pin for pin in self._held if pin not in self._open}
        assert {pin for pin in sure if self._held[pin]} <= pins, "acknowledged pins are lost"
        assert not {pin for pin in sure if not self._held[pin]} & pins, "removed pins are back"
        assert pins <= {*self._held, *self._open}, "pins that nobody asked for"
        for pin in list(self._open):
            self._record(pin, pin in pins)

    def held(self) -> set[Cid]:
        """Every content that somebody holds."""
        return {Cid.parse(cid) for (_, cid), is_held in self._held.items() if is_held}

    def contents(self, ahead: int) -> Iterator[tuple[Cid, bytes]]:
        """Every content that was or will soon be asked for."""
        return (block(number) for number in range(1, self._next + ahead))
