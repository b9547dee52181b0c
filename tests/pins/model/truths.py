"""What must be true of the ledger and the cluster after each step, and once all is quiet.

Reads the tables by itself. Knows what is excused: what the cluster lost of its own until a resync
has compared the two, and what a process did that slept longer than its lease."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from content_gateway.codecs.timestamps import microseconds
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState, ResyncReport
from tests.pins.model.process import World

_PINS: Final = "SELECT cid, created_at, name FROM pins JOIN contents ON id = content"
_CONTENTS: Final = (
    "SELECT cid, state, next_at, lease_owner,"
    " (SELECT count(*) FROM pins WHERE content = id) FROM contents"
)
LONGEST: Final = 601.0  # the longest gap between tries of what fails


@dataclass(frozen=True)
class Excuse:
    """Why a final content may be missing: *number* tells it from later ones; over at *until*."""

    number: int
    until: float


class Truths:
    """The checks of one run; each ends in an AssertionError that says what is wrong."""

    def __init__(self, world: World, unmanaged: set[Cid]) -> None:
        self._world = world
        self._rows = world.rows
        self._strange = unmanaged
        self.number = 0
        self._excused: dict[Cid, Excuse] = {}
        self._late: dict[Cid, float] = {}
        self._unexplained: set[Cid] = set()

    def leased(self) -> set[Cid]:
        """What some process works at."""
        found = self._rows.execute("SELECT cid FROM contents WHERE lease_owner IS NOT NULL")
        return {Cid.parse(cid) for (cid,) in found}

    def excuse(self, cids: Iterable[Cid], *, late: bool = False) -> None:
        """*cids* may be missing until a resync that begins after this; with *late*, something may
        be sent for them that should not, within a call and a batch age."""
        self.number += 1
        cluster, now = self._world.cluster, self._world.clock()
        until = now + 2 * cluster.batch_age + 60 if late else now
        for cid in cids:
            self._excused[cid] = Excuse(self.number, until)
            if late:
                self._late[cid] = until

    def resynced(self, report: ResyncReport, number: int) -> None:
        """A resync is over that began when *number* was the last excuse."""
        for cid, excuse in list(self._excused.items()):
            if excuse.number <= number and excuse.until <= report.started_at:
                del self._excused[cid]

    def check(self) -> None:
        """What must hold at any moment."""
        model, cluster = self._world.model, self._world.cluster
        assert not model.wrong, f"{model.wrong}"
        for requestor, pins in model.pins.items():
            rows = self._rows.execute(
                f"{_PINS} WHERE requestor = ? ORDER BY created_at", (requestor,)
            ).fetchall()
            wanted = [(str(pin.cid), microseconds(pin.created_at), pin.label.name) for pin in pins]
            assert rows == wanted, f"the ledger has other pins of {requestor}"
        (number,) = self._rows.execute("SELECT count(*) FROM pins").fetchone()
        assert number == sum(map(len, model.pins.values())), "a pin without a content"
        known, may_keep, now = set(), cluster.may_keep(), self._world.clock()
        for cid, state, next_at, owner, holders in self._rows.execute(_CONTENTS).fetchall():
            leaves = state == ContentState.UNPINNING
            assert leaves == (holders == 0), f"{cid} is {state} and has {holders} holders"
            assert next_at is not None or (state == ContentState.PINNED and owner is None), (
                f"{cid} is {state} and is never tended again"
            )
            assert next_at is None or next_at < 1000 * (now + LONGEST), f"{cid} waits too long"
            known.add(content := Cid.parse(cid))
            if next_at is None and content not in self._excused:
                assert cluster.keeps(content), f"{cid} is final, and not for good in the cluster"
        self._check_leaks(known, may_keep - self._strange)

    def _check_leaks(self, known: set[Cid], may_keep: set[Cid]) -> None:
        now = self._world.clock()
        self._unexplained = self._unexplained & may_keep - known
        for cid in may_keep - known - self._unexplained:
            assert self._late.get(cid, 0.0) > now, f"{cid} is forgotten, and left in the cluster"
            self._unexplained.add(cid)

    def is_quiet(self) -> bool:
        """Whether nothing waits any more."""
        return self.next_at() is None and self._world.cluster.commits_at is None

    def next_at(self) -> float | None:
        """When something is due next."""
        (moment,) = self._rows.execute("SELECT min(next_at) FROM contents").fetchone()
        return None if moment is None else float(moment) / 1000

    def rows(self) -> list[tuple[object, ...]]:
        """All contents, for people."""
        return self._rows.execute("SELECT * FROM contents").fetchall()

    def check_all_kept(self, report: ResyncReport) -> None:
        """What must hold once all is quiet and a resync has found *report*."""
        held, cluster = self._world.model.held(), self._world.cluster
        rows = {Cid.parse(cid): state for cid, state, *_ in self._rows.execute(_CONTENTS)}
        assert set(rows) == held
        assert set(rows.values()) <= {ContentState.PINNED}
        assert all(cluster.keeps(cid) for cid in held)
        unmanaged = cluster.may_keep() - held
        assert unmanaged <= self._strange | self._unexplained
        assert (report.missing, report.under_replicated) == (0, 0)
        assert (report.listed, set(report.sample)) == (len(cluster.may_keep()), unmanaged)
        assert report.unmanaged == len(unmanaged)
