"""Anything that can happen to pins, in any order, and what must hold after each step.

Hypothesis draws the steps; the real ledger, rules and loops do them, on a real file, a simulated
cluster and a clock that moves only here. Two processes share the file. While one of them works, at
a point that was armed before, requestors change their minds, the cluster is lost, time passes, the
other process works, or the process dies.

After each step: the ledger has what the model has, no half rows, what is final is in the cluster
for good, what was forgotten is not. After everything has quietened down: the cluster holds exactly
what requestors hold, and what unmanaged pins put there."""

from functools import partial
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label, Search
from tests.ledgers import as_it_is
from tests.pins.model.acting import OURS, STRANGE, Acting
from tests.pins.model.cluster import Mood

REQUESTORS: Final = ("anna", "ben", "cleo")


def around(*calls: str) -> tuple[str, ...]:
    """The points before and after each of these calls."""
    return tuple(f"{when} {call}" for call in calls for when in ("before", "after"))


ASKING: Final = around("add", "remove", "replace", "relabel")
RECONCILE_POINTS: Final = around("lease", "status", "begin", "pin", "unpin", "record_outcomes")
RESYNC_POINTS: Final = around(
    *("acquire_job", "pinset", "known", "final_pins", "recheck", "report", "finish_job")
)

requestors = st.sampled_from(REQUESTORS)
numbers = st.integers(0, 4)
cids = st.sampled_from(OURS)
names = st.sampled_from([None, "one", "two"])
both = st.sampled_from([0, 1])
passages = st.sampled_from([1, 1, 1, 2, 3])
deeds = st.sampled_from(["add", "remove", "kill", "commit", "work", "other", "away", "lose"])
moments = st.sampled_from([0.001, 0.4, 3.0, 9.0, 25.0, 61.0, 71.0])
waits = st.sampled_from([0.0, 30.0, 61.0, 61.0])


class PinMachine(Acting):
    """Two processes, a cluster with this batch *window*, and their requestors."""

    # Steps.

    @rule(which=both, requestor=requestors, cid=cids, name=names)
    def add(self, which: int, requestor: str, cid: Cid, name: str | None) -> None:
        self._do(which, partial(self._add, which, requestor, cid, name))

    @rule(which=both, cid=cids, name=names, rounds=st.integers(0, 3), seconds=moments)
    def all_add(self, which: int, cid: Cid, name: str | None, rounds: int, seconds: float) -> None:
        for requestor in REQUESTORS:
            self._do(which, partial(self._add, which, requestor, cid, name))
        self._work(which, rounds, seconds)

    @rule(which=both, requestor=requestors, number=numbers)
    def remove(self, which: int, requestor: str, number: int) -> None:
        cid = self._held(requestor, number)
        self._do(which, partial(self._remove, which, requestor, cid))

    @rule(which=both, number=numbers, wait=waits, rounds=st.integers(0, 3), seconds=moments)
    def all_remove(self, which: int, number: int, wait: float, rounds: int, seconds: float) -> None:
        cid = OURS[number]
        for requestor in REQUESTORS:
            self._do(which, partial(self._remove, which, requestor, cid))
        self.world.clock.now += wait
        self._work(which, rounds, seconds)

    @rule(which=both, requestor=requestors, cid=cids, name=names)
    def describe(self, which: int, requestor: str, cid: Cid, name: str | None) -> None:
        async def describe() -> None:
            status = await self._of(which).pinning.describe(requestor, str(cid), Label(name))
            assert status.pin.label.name == name

        self._do(which, describe)

    @rule(which=both, requestor=requestors, number=numbers, cid=cids, name=names)
    def replace(self, which: int, requestor: str, number: int, cid: Cid, name: str | None) -> None:
        async def replace() -> None:
            if pins := self.world.model.pins[requestor]:
                old = pins[number % len(pins)]
                await self._of(which).pinning.replace(requestor, old, str(cid), Label(name))

        self._do(which, replace)

    @rule(which=both, requestor=requestors, name=names, limit=st.integers(1, 3), page=st.booleans())
    def search(self, which: int, requestor: str, name: str | None, limit: int, page: bool) -> None:
        async def search() -> None:
            found = [
                pin
                for pin in reversed(self.world.model.pins[requestor])
                if name is None or pin.label.name == name
            ]
            rest = found[1:] if page else found
            cursor = found[0].created_at if page and found else None
            wanted = Search(name=name, cursor=cursor, limit=limit)
            answer = await self._of(which).pinning.search(requestor, wanted, as_it_is)
            assert [status.pin for status in answer.pins] == rest[:limit]
            assert (answer.count, answer.more) == (len(found), len(rest) > limit)

        self._do(which, search)

    @initialize(cids=st.lists(cids, max_size=4))
    def begin(self, cids: list[Cid]) -> None:
        for cid in cids:
            self._do(0, partial(self._add, 0, "anna", cid, None))

    @rule(which=both, rounds=st.integers(1, 4), seconds=moments)
    def work(self, which: int, rounds: int, seconds: float) -> None:
        self._work(which, rounds, seconds)

    @rule(which=both, seconds=st.sampled_from([25.0, 61.0, 71.0]))
    def work_long(self, which: int, seconds: float) -> None:
        self._work(which, 4, seconds)

    @rule(seconds=st.sampled_from([0.1, 5.0, 31.0, 61.0, 200.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.now += seconds

    @rule(mood=st.sampled_from(list(Mood)), steps=st.integers(1, 6))
    def mood(self, mood: Mood, steps: int) -> None:
        self.world.cluster.mood = mood
        self._moody_steps = steps

    @rule(seconds=st.sampled_from([0.0, 0.2, 9.0]))
    def latency(self, seconds: float) -> None:
        self.world.calls.latency = seconds

    @rule()
    def cluster_is_killed(self) -> None:
        self.world.cluster.kill()

    @rule()
    def batch_is_full(self) -> None:
        self.world.cluster.commit()

    @rule(cid=cids)
    def cluster_loses(self, cid: Cid) -> None:
        self.world.cluster.lose(cid)
        self.truths.excuse([cid])

    @rule(cid=cids)
    def nodes_lose(self, cid: Cid) -> None:
        """What the nodes have is gone, and the pinset does not know."""
        self.world.cluster.lose_blocks(cid)
        self.truths.excuse([cid])

    @rule()
    def cluster_is_wiped(self) -> None:
        self.world.cluster.wipe()
        self.truths.excuse(OURS)

    @rule(cid=st.sampled_from(STRANGE))
    def stranger(self, cid: Cid) -> None:
        self.world.cluster.put(cid)

    @rule(cid=cids)
    def content_appears(self, cid: Cid) -> None:
        self.world.cluster.provide(cid)

    @rule(cid=cids)
    def content_disappears(self, cid: Cid) -> None:
        self.world.cluster.forget(cid)

    @rule(which=both)
    def crash(self, which: int) -> None:
        self._run(self._kill(which))

    @rule(which=both)
    def stop(self, which: int) -> None:
        if (process := self.processes[which]) is not None:
            self.processes[which] = None
            self._run(process.stop())

    @rule(which=both, point=st.sampled_from(ASKING), requestor=requestors, number=numbers, cid=cids)
    def dies_when_asked(
        self, which: int, point: str, requestor: str, number: int, cid: Cid
    ) -> None:
        self._arm(which, point, 1, None)
        match point.split()[1]:
            case "add":
                self._do(which, partial(self._add, which, requestor, cid, None))
            case "remove":
                self.remove(which, requestor, number)
            case "replace":
                self.replace(which, requestor, number, cid, "one")
            case "relabel":
                self.describe(which, requestor, self._held(requestor, number), "two")

    @rule(
        which=both,
        point=st.sampled_from(RECONCILE_POINTS),
        passages=passages,
        number=numbers,
        seconds=moments,
    )
    def dies_at_work(
        self, which: int, point: str, passages: int, number: int, seconds: float
    ) -> None:
        # There is something to pin, or to released.
        if point.endswith(("pin", "begin")):
            self.cluster_loses(OURS[number])
            self.all_add(which, OURS[number], None, 0, 0.0)
            self._do(which, partial(self._resync, which))
        if point.endswith(("unpin", "record_outcomes")):
            self._work(which, 1, 0.1)
            self.all_remove(which, number, 61.0, 0, 0.0)
        self._arm(which, point, passages, None)
        self._work(which, 3, seconds)

    @rule(which=both, number=numbers, after=st.sampled_from([0.1, 55.0, 58.0, 61.0, 66.0, 75.0]))
    def comes_back(self, which: int, number: int, after: float) -> None:
        """What is being released is wanted again."""
        cid = self._held("anna", number)
        self.all_remove(which, OURS.index(cid), 61.0, 1, after)
        self._do(which, partial(self._add, which, "ben", cid, None))
        self._work(which, 2, 0.1)

    @rule(
        which=both,
        number=numbers,
        point=st.sampled_from([*RECONCILE_POINTS, "during unpin"]),
        takes=st.sampled_from([0.0, 0.0, 9.0, 40.0]),
    )
    def second_thoughts(self, which: int, number: int, point: str, takes: float) -> None:
        """What is being released is wanted again in the middle of it."""
        cid = self._held("anna", number)
        self.all_remove(which, OURS.index(cid), 61.0, 0, 0.0)
        self._arm(which, point, 1, partial(self._deed, which, "add", "ben", cid, takes))
        self._work(which, 2, 0.1)

    @rule(
        which=both,
        number=numbers,
        what=st.sampled_from(["pin", "unpin"]),
        deed=st.sampled_from(["work", "other"]),
        takes=st.sampled_from([9.0, 40.0, 95.0]),
    )
    def falls_asleep(self, *, which: int, number: int, what: str, deed: str, takes: float) -> None:
        """A process sleeps in the middle of a call, perhaps longer than its leases last."""
        if what == "pin":
            self.all_add(which, OURS[number], None, 0, 0.0)
        else:
            self.all_remove(which, number, 61.0, 0, 0.0)
        meanwhile = partial(self._deed, which, deed, "anna", OURS[number], takes)
        self._arm(which, f"during {what}", 1, meanwhile)
        self._work(which, 2, 61.0)

    @rule(which=both, point=st.sampled_from(RESYNC_POINTS), number=numbers)
    def dies_sweeping(self, which: int, point: str, number: int) -> None:
        if point.endswith("recheck"):
            self.all_add(which, OURS[number], None, 3, 76.0)
            self.cluster_loses(OURS[number])
        self._arm(which, point, 1, None)
        self._do(which, partial(self._resync, which))

    @rule(which=both, point=st.sampled_from(ASKING), deed=deeds, requestor=requestors, cid=cids)
    def meanwhile(self, which: int, point: str, deed: str, requestor: str, cid: Cid) -> None:
        self._arm(which, point, 1, partial(self._deed, which, deed, requestor, cid, 0.0))

    @rule(
        which=both,
        point=st.sampled_from([*RECONCILE_POINTS, "during pin", "during unpin"]),
        passages=passages,
        deed=deeds,
        requestor=requestors,
        cid=cids,
        takes=st.sampled_from([0.0, 0.0, 9.0, 40.0, 95.0]),
        seconds=moments,
    )
    def meanwhile_at_work(
        self,
        *,
        which: int,
        point: str,
        passages: int,
        deed: str,
        requestor: str,
        cid: Cid,
        takes: float,
        seconds: float,
    ) -> None:
        meanwhile = partial(self._deed, which, deed, requestor, cid, takes)
        self._arm(which, point, passages, meanwhile)
        self._work(which, 3, seconds)

    @rule(
        which=both,
        point=st.sampled_from([*RESYNC_POINTS, "during pinset"]),
        deed=deeds,
        requestor=requestors,
        cid=cids,
        takes=st.sampled_from([0.0, 40.0, 150.0]),
    )
    def meanwhile_sweeping(
        self, *, which: int, point: str, deed: str, requestor: str, cid: Cid, takes: float
    ) -> None:
        self._arm(which, point, 1, partial(self._deed, which, deed, requestor, cid, takes))
        self._do(which, partial(self._resync, which))

    @rule(which=both, really=st.sampled_from([False, False, True]))
    def quieten(self, which: int, really: bool) -> None:
        if really:
            self._run(self._quieten(which))

    # What must hold.

    @invariant()
    def nothing_is_wrong(self) -> None:
        self.tally.steps += 1
        self._moody_steps -= 1
        if self._moody_steps <= 0:
            self.world.cluster.mood = Mood.WELL
        self._is_fine = False
        self.truths.check()
        self._is_fine = True
