"""What must be true at every commit, at every request to the backend, and once all has healed.

Is told of each commit in the order in which the ledger made them, of leases, of requests to the
backend, and of what clients were told. Knows what is excused: what the backend lost of its own,
until a resync has compared the two. Finds the first thing that is wrong, and keeps it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    LastRequest,
    LeaseQuota,
    Queue,
    ResyncReport,
    WorkItem,
    shared_by_all,
)
from content_gateway.pins.rules import MAX_SEND_DELAY
from tests.simulation.ledger import Content, Rows, Snapshot
from tests.simulation.loop import OWNER
from tests.simulation.process import POLICY, Process

LONGEST_WAIT: Final = 61.0
"""Seconds until something is due again, at most: the longest backoff or lease, with a margin."""
_JOB_AFTER_STEP: Final = 120.0  # a job's lease of before is ignored, as it seems too long
# Seconds until due times are corrected that were written by a clock that was set back meanwhile.
_CORRECTED_WITHIN: Final = 130.0


@dataclass(eq=False)
class Call:
    """A request to the backend that *process* has under way."""

    process: Process
    request: LastRequest
    cid: Cid


@dataclass
class Truths:
    """The checks of one run; *wrong* is the first thing that was not as it must be."""

    rows: Rows
    backend: Any
    clock: Callable[[], float]
    ticks: Callable[[], float]
    grace: float
    limits: dict[str, int]
    strange: set[Cid] = field(default_factory=set)
    wrong: str | None = None
    commits: int = 0
    requests: int = 0
    resynced_from: float = -1.0
    stepped_at: float = -1000.0
    note: Callable[[str], None] | None = None
    expected: dict[tuple[str, str], bool | None] = field(default_factory=dict)
    _seen: Snapshot = field(default_factory=lambda: Snapshot({}, {}))
    _released_at: dict[int, float] = field(default_factory=dict)
    _withdrawn: set[int] = field(default_factory=set)
    _calls: list[Call] = field(default_factory=list)
    _lost: dict[Cid, float] = field(default_factory=dict)
    _final_at: dict[int, float] = field(default_factory=dict)
    _jobs: dict[str, tuple[Process, float]] = field(default_factory=dict)
    _under_way: dict[Process, dict[int, WorkItem]] = field(default_factory=dict)

    def fail(self, what: str) -> None:
        """Something is not as it must be."""
        if self.wrong is None:
            self.wrong = f"{self.ticks():.3f} s: {what}"

    def expect(self, is_right: bool, what: str) -> None:
        """As `fail`, unless it *is_right*."""
        if not is_right:
            self.fail(what)

    # At each commit, before anybody has its answer.

    def committed(self) -> None:
        """Compare what is committed now with what was before."""
        self.commits += 1
        old, new = self._seen, self.rows.read()
        self._seen = new
        now = round(self.clock() * 1000)
        for number, content in new.contents.items():
            before = old.contents.get(number)
            if before != content:
                if self.note is not None:
                    self.note(_told(content, now))
                self._check_content(content, now)
                self._check_change(before, content, now)
        for number, content in old.contents.items():
            if number not in new.contents:
                self._check_gone(content, new)
        if old.pins != new.pins:
            self._check_pins(new)

    def _check_content(self, content: Content, now: int) -> None:
        leaves = content.state == "unpinning"
        self.expect(
            leaves == (content.holders == 0),
            f"{content.cid} is {content.state} and has {content.holders} holders",
        )
        if content.next_at is None:
            self.expect(
                content.state == "pinned" and content.lease_owner is None,
                f"{content.cid} is {content.state} and is never reconciled again",
            )

    def _check_change(self, before: Content | None, content: Content, now: int) -> None:
        if before is None:
            return
        if content.next_at is None and before.next_at is not None:
            self._final_at[content.id] = self.clock()
        if content.state == "unpinning" and before.state != "unpinning":
            self._released_at[content.id] = self.ticks()
        if content.state == "pinned" and before.state != "pinned":
            self.expect(
                not self.backend.is_leaving(Cid.parse(content.cid)),
                f"{content.cid} is told as pinned, and its unpin is on its way",
            )
        old, new = before.lease_owner, content.lease_owner
        if new is not None and old is not None and new != old:
            due = before.next_at or 0
            self.expect(due <= now, f"{content.cid} is leased by {new}, and {old} has it")
        # Not if it is only earlier: a lease corrects what a wrong clock has written.
        is_new = (content.requested_at or 0) > (before.requested_at or 0)
        if content.last_request == "unpin" and (is_new or before.last_request != "unpin"):
            # A promise of the same transaction came after it: it begins a new generation.
            is_older = content.generation != before.generation
            self._check_unpin(content, is_older=is_older)

    def _check_unpin(self, content: Content, *, is_older: bool) -> None:
        if content.id in self._withdrawn:
            return
        self.expect(
            is_older or not content.holders,
            f"{content.cid} is to be unpinned, and somebody holds it",
        )
        since = self.ticks() - self._released_at.get(content.id, 0.0)
        self.expect(
            since > self.grace - 0.01 or self._is_stepped(600.0),
            f"{content.cid} is unpinned {since:.1f} s after its release",
        )

    def _check_gone(self, content: Content, new: Snapshot) -> None:
        self.expect(
            not any(number == content.id for _, number in new.pins),
            f"{content.cid} is forgotten, and somebody holds it",
        )
        cid = Cid.parse(content.cid)
        is_there = cid in self.backend.may_keep() and cid not in self.strange
        self.expect(not is_there, f"{content.cid} is forgotten, and left in the backend")

    def _check_pins(self, new: Snapshot) -> None:
        texts = {number: content.cid for number, content in new.contents.items()}
        held = {(requestor, texts.get(number, "?")) for requestor, number in new.pins}
        self.expect(all(cid != "?" for _, cid in held), "there is a pin without a content")
        for key, expected in self.expected.items():
            if expected is not None:
                self.expect(
                    (key in held) == expected,
                    f"the acknowledged pin {key} is gone"
                    if expected
                    else f"the removed pin {key} is back",
                )
        numbers = Counter(requestor for requestor, _ in new.pins)
        for requestor, most in self.limits.items():
            self.expect(numbers[requestor] <= most, f"{requestor} has {numbers[requestor]} pins")
        moments = {(requestor, at) for (requestor, _), at in new.pins.items()}
        self.expect(len(moments) == len(new.pins), "two pins of a requestor have one moment")
        counts = self.rows.counts()
        self.expect(
            all(counts.get(requestor) == number for requestor, number in numbers.items()),
            f"the ledger counts {counts}, and there are {dict(numbers)}",
        )

    # Leases and jobs.

    def leased(
        self, process: Process, owner: str, quota: LeaseQuota, items: Sequence[WorkItem]
    ) -> None:
        """*process* has leased *items*: no more than *quota*, and no requestor more than its
        share."""
        self.expect(len(items) <= quota.most, f"{len(items)} were leased, of {quota.most}")
        limits = {
            Queue.FIRST_TRY: quota.first_tries,
            Queue.RETRY: quota.retries,
            Queue.SLOW: quota.slow,
        }
        tries = Counter(item.queue for item in items if item.is_held or not quota.releases)
        for queue, number in tries.items():
            self.expect(number <= limits[queue], f"{number} of {queue!r} were leased")
        if quota.releases or quota.held is None:
            return
        held = Counter(requestor for requestor, _ in quota.held)
        got = Counter(item.requestor for item in items)
        most = POLICY.workers
        for requestor, number in (held + got).items():
            self.expect(
                number <= most or not got[requestor],
                f"requestor {requestor} has {number} of {shared_by_all(most)} workers",
            )

    def job_begins(self, process: Process, owner: str, until: float) -> None:
        """*process* has the resync's lease, unless the answer came too late: then the resync
        breaks off when it renews, and does no harm until then, as it sends nothing."""
        if until <= self.clock():
            return
        for other, (worker, its_until) in self._jobs.items():
            is_at_it = other != owner and not worker.is_dead and its_until > self.clock()
            is_at_it = is_at_it and not self._is_stepped(_JOB_AFTER_STEP)
            self.expect(not is_at_it, f"{process.name} and {worker.name} resync at once")
        self._jobs[owner] = process, until

    def job_goes_on(self, owner: str, until: float) -> None:
        """*owner* has renewed the resync's lease."""
        if owner in self._jobs:
            self._jobs[owner] = self._jobs[owner][0], until

    def job_ends(self, owner: str) -> None:
        """The resync of *owner* is over, or broke off."""
        self._jobs.pop(owner, None)

    def begins(self, item: WorkItem, *, is_withdrawal: bool) -> None:
        """A request for *item* is about to be recorded."""
        if is_withdrawal:
            self._withdrawn.add(item.id)
        else:
            self._withdrawn.discard(item.id)

    # Requests to the backend.

    def request_begins(self, request: LastRequest, cid: Cid) -> Call:
        """The calling process sends *request*: nobody else has one under way, and it is
        recorded."""
        process = OWNER.get()
        assert isinstance(process, Process)
        self.requests += 1
        self._calls = [call for call in self._calls if not call.process.is_dead]
        for call in self._calls:
            self.expect(
                call.cid != cid,
                f"{process.name} sends {request} of {cid}, and {call.process.name} is at"
                f" {call.request}",
            )
        call = Call(process, request, cid)
        self._calls.append(call)
        text = str(cid)
        found = [each for each in self._seen.contents.values() if each.cid == text]
        self.expect(bool(found), f"{request} of {cid} is sent, which is not in the ledger")
        for content in found:
            self.expect(
                content.last_request == request, f"{request} of {cid} is sent and not recorded"
            )
            since = self.clock() - (content.requested_at or 0) / 1000
            self.expect(
                since <= MAX_SEND_DELAY + 0.01 or self._is_stepped(60.0),
                f"{request} of {cid} is sent {since:.1f} s after it was recorded",
            )
            self._check_lease(call, content)
        return call

    def _check_lease(self, call: Call, content: Content) -> None:
        """Who is at a content has its lease, though nobody else may want it."""
        left = (content.next_at or 0) / 1000 - self.clock()
        self.expect(
            (content.lease_owner is not None and left > -0.01) or self._is_stepped(60.0),
            f"{call.process.name} is at {call.request} of {content.cid}, and its lease ran out",
        )

    def request_ends(self, call: object) -> None:
        """Its caller has the answer, or has given up."""
        self._calls = [each for each in self._calls if each is not call]

    # What the backend loses, and what clears it.

    def lost(self, cid: Cid) -> None:
        """The backend has lost *cid* of its own."""
        self._lost[cid] = self.clock()

    def resynced(self, report: ResyncReport) -> None:
        """A resync that began at `report.started_at` has compared everything."""
        if not self._is_stepped(_JOB_AFTER_STEP):  # else it may have begun before by another clock
            self.resynced_from = max(self.resynced_from, report.started_at)

    def stepped(self, seconds: float) -> None:
        """The time of day was set back."""
        self.stepped_at = self.ticks()
        self._lost = {cid: at - seconds for cid, at in self._lost.items()}
        self._final_at = {number: at - seconds for number, at in self._final_at.items()}
        self._jobs.clear()
        self.resynced_from = -1.0

    def _is_stepped(self, seconds: float) -> bool:
        return self.ticks() - self.stepped_at < seconds

    # Now and then.

    def check_now(self, *, is_alive: bool) -> None:
        """What must hold at any moment; *is_alive*: some process can read and write the ledger."""
        now = self.clock() * 1000
        at = {str(call.cid): call for call in self._calls if not call.process.is_dead}
        for content in self._seen.contents.values():
            if content.cid in at:
                self._check_lease(at[content.cid], content)
        if not is_alive and self._is_stepped(_CORRECTED_WITHIN):
            self.stepped_at = self.ticks()  # nobody could correct it yet
        for content in self._seen.contents.values():
            cid = Cid.parse(content.cid)
            if content.next_at is None:
                self._check_final(cid, content)
            elif not self._is_stepped(_CORRECTED_WITHIN):
                self.expect(
                    content.next_at <= now + LONGEST_WAIT * 1000,
                    f"{content.cid} waits for {(content.next_at - now) / 1000:.0f} s",
                )

    def _check_final(self, cid: Cid, content: Content) -> None:
        """What the backend lost of its own may be final until the next resync has ended."""
        if self.backend.keeps(cid):
            self._lost.pop(cid, None)
            return
        known_at = max(self._lost.get(cid, math.inf), self._final_at.get(content.id, 0.0))
        self.expect(
            cid in self._lost and self.resynced_from <= known_at,
            f"{content.cid} is final, and not for good in the backend",
        )

    def is_quiet(self, since: float) -> bool:
        """Whether nothing waits any more, and a resync that began after that, and after *since*,
        found it so."""
        if any(content.next_at is not None for content in self._seen.contents.values()):
            return False
        last = max([since, *(self._final_at.get(number, 0.0) for number in self._seen.contents)])
        return self.backend.is_quiet and self.resynced_from > last

    def check_all_kept(self) -> None:
        """What must hold once all is quiet."""
        contents = self._seen.contents.values()
        held = {Cid.parse(content.cid) for content in contents if content.holders}
        self.expect(all(content.holders for content in contents), "something is still released")
        self.expect(all(content.state == "pinned" for content in contents), "not all is pinned")
        for cid in held:
            self.expect(self.backend.keeps(cid), f"{cid} is promised, and not in the backend")
        left = self.backend.may_keep() - held - self.strange
        self.expect(not left, f"released, and left in the backend: {[str(cid) for cid in left]}")
        self._check_pins(self._seen)

    def waiting(self) -> str:
        """What waits, for people."""
        return self.rows.text()


def _told(content: Content, now: int) -> str:
    """A content as it is committed, for people."""
    due = "never" if content.next_at is None else f"in {(content.next_at - now) / 1000:.1f} s"
    owner = OWNER.get()
    return (
        f"{getattr(owner, 'name', '?')} commits: {content.cid[-6:]} {content.state}"
        f" g{content.generation} of {content.holders}, due {due}, last {content.last_request},"
        f" attempts {content.attempts}, lease {content.lease_owner}"
    )
