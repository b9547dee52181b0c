"""What a client knows of its own pins: what it asked for, what was acknowledged, what follows.

A request that was sent and not acknowledged may have been granted or not, and the ledger says
which; one that was acknowledged stands. Reads the ledger's file by itself, as nobody runs then."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid

REQUESTORS = ("anna", "ben")


def block(number: int) -> tuple[Cid, bytes]:
    data = f"content {number}".encode()
    return Cid(RAW, SHA2_256, sha256(data).digest()), data


class Journal:
    """Requests and answers of some requestors, over many lives of a service.

    *known_as* is what the ledger calls them."""

    def __init__(self, seed: int, known_as: Callable[[str], str] = str) -> None:
        self._names = {known_as(requestor): requestor for requestor in REQUESTORS}
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

    def check(self, ledger: Path) -> None:
        """What was acknowledged is in the ledger, and nothing in it is half."""
        with closing(sqlite3.connect(ledger)) as connection:
            found = connection.execute(
                "SELECT requestor, cid FROM pins LEFT JOIN contents ON id = content"
            )
            pins = {(self._names[requestor], cid) for requestor, cid in found}
            halves = connection.execute(
                "SELECT cid, state FROM contents WHERE (state = 'unpinning')"
                " = EXISTS (SELECT 1 FROM pins WHERE content = id)"
            ).fetchall()
            (integrity,) = connection.execute("PRAGMA integrity_check").fetchone()
        assert integrity == "ok"
        assert halves == [], "contents without pins, or on their way out with them"
        assert all(cid is not None for _, cid in pins), "pins without contents"
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


def let_leases_run_out(ledger: Path) -> None:
    """What half a minute, and for a resync two, would do after a death."""
    with closing(sqlite3.connect(ledger, timeout=10)) as connection:
        connection.execute("UPDATE contents SET next_at = 0 WHERE lease_owner IS NOT NULL")
        connection.execute("UPDATE jobs SET next_at = 0 WHERE lease_owner IS NOT NULL")
        connection.commit()


def unsettled(ledger: Path) -> int:
    """How many contents of the ledger are not pinned yet, for all that is known."""
    with closing(sqlite3.connect(ledger, timeout=10)) as connection:
        (waiting,) = connection.execute(
            "SELECT count(*) FROM contents WHERE state != 'pinned' OR next_at IS NOT NULL"
        ).fetchone()
    return int(waiting)
