"""Limits how much of each requestor is in the queue of a backend that accepts everything. No I/O.

Theory of operation. A cluster works at a few pins at a time, first in, first out, so a pin that
hangs there delays the later pins of everybody. A single requestor is not limited. As soon as two
requestors have sent something within ten minutes, three rules hold:

- Room: a requestor may have as many contents in the queue as `fair_share` gives it of the workers;
  at most a quarter of the workers are for retries.
- Credit: a content that is done fast gives its requestor one more place, a slow one takes one away,
  like a congestion window. Credit is lost when nothing of the requestor has left the queue for some
  seconds.
- Withdrawal: if the queue is more than half full by then, what has been there for longer than its
  attempt timeout is withdrawn, and retried later.

Knows what was sent and what the backend has in progress; queue_watch.py asks and sends."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from content_gateway.model.content_state import (
    BackendStatus,
    LastRequest,
    Outcome,
    TrackerStatus,
    WorkItem,
    fair_share,
)
from content_gateway.pins.rules import Action, DecisionRules

_MAX_CREDIT: Final = 128  # what a cluster of three pins in a second and a half
_FAST: Final = 4.0  # seconds; a content that takes longer costs credit
_ACTIVE_FOR: Final = 600.0  # seconds for which room is reserved for a requestor after its last pin
# After a request, all peers list it within so many seconds: until then, absence means nothing.
_SENT_DELAY: Final = 0.5
_SPREAD_DELAY: Final = 2.0  # and until then, "in progress at some" may mean "not at the others yet"
_RESERVED_FOR: Final = 60.0  # seconds after which a place is free again if nothing was sent
_MAX_POLL_GAP: Final = 3.0  # seconds between two answers about the queue, at most
_REPORT_INTERVAL: Final = 2.0  # seconds; a reported content may be leased by another process
_MAX_ENTRIES: Final = 20_000
_MAX_WINDOWS: Final = 10_000
_MAX_REPORTED: Final = 1_000


@dataclass(slots=True)
class _Window:
    """One requestor's places: *held* in all, *retries* among them, *used* at the last answer."""

    active_at: float
    moved_at: float = 0.0  # when a content last left, or the first one entered
    held: int = 0
    retries: int = 0
    used: int = 0
    credit: int = 0


@dataclass(slots=True)
class _Submission:
    """A content that was sent *at* a time, with an attempt timeout of so many *seconds*.

    It takes room only while it is *in_progress*. It may become so again: when the batch it was sent
    in is committed, or when the backend retries it on its own."""

    number: int
    cid: str
    window: _Window
    seconds: float
    is_retry: bool
    at: float
    is_sent: bool = True
    in_progress: bool = False
    is_to_withdraw: bool = False
    reported_at: float = 0.0


def is_retry(item: WorkItem, seen: BackendStatus) -> bool:
    """Whether a request for *item*, whose status is *seen*, is a second attempt, which may hang.

    Not if the backend lost the first request: a cluster peer that dies loses what it accepted and
    did not commit, and no worker had begun with that."""
    is_forgotten = item.last_request is LastRequest.PIN and seen.status is TrackerStatus.ABSENT
    return item.attempts > 0 and not is_forgotten


class SubmissionWindows:
    """The windows of all requestors, for a backend that pins *workers* contents at a time."""

    def __init__(self, workers: int, rules: DecisionRules, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._share = fair_share(workers, 0)
        self._rules = rules
        self._clock = clock
        self._is_known = True
        self._others_in_progress = 0  # not sent by us: by other processes, or unmanaged pins
        self._entries: dict[int, _Submission] = {}
        self._windows: dict[int, _Window] = {}  # by requestor; who came last is at the end
        self._busy: dict[int, _Window] = {}  # those with something in hand, by identity

    @property
    def is_shared(self) -> bool:
        """Whether at least two requestors were active in the last ten minutes."""
        latest = list(islice(reversed(self._windows.values()), 2))
        # abs(): after the clock was set back, an old time must not stay recent.
        return len(latest) > 1 and abs(self._clock() - latest[1].active_at) < _ACTIVE_FOR

    @property
    def is_empty(self) -> bool:
        """Whether none of our contents takes room."""
        return not self._busy

    def __len__(self) -> int:
        return len(self._entries)

    def record_arrival(self, requestor: int) -> None:
        """*requestor* has something to send, and counts as active from now on."""
        window = self._windows.pop(requestor, None) or _Window(0.0)
        window.active_at = self._clock()
        self._windows[requestor] = window
        if len(self._windows) > _MAX_WINDOWS:
            del self._windows[next(iter(self._windows))]

    def may_send(self, requestor: int, *, is_retry: bool = False) -> bool:
        """Whether there is room for one more content of *requestor*; always for its first one."""
        window = self._windows.get(requestor)
        if window is None or not self._is_limiting:
            return True
        if is_retry and window.retries >= max(1, self._workers // 4):
            return False  # a retry may take an hour, so most workers stay free for others
        held = window.held - self._credit(window)
        # Somebody who was alone may hold more than its share. It gets no more until that has
        # left, and the others need not wait for it: it counts as its share only.
        taken = sum(min(self._share, number) for number in self._workers_taken())
        return held < 0 or fair_share(max(1, self._workers - taken), held) > 0

    def reserve(self, item: WorkItem, *, is_retry: bool = False) -> None:
        """*item* is about to be sent: take a place for it."""
        self.record_arrival(item.requestor)
        self._add(item, item.attempts if is_retry else 0, self._clock(), is_sent=False)

    def record_sent(self, item: WorkItem) -> None:
        """The backend accepted the request for *item*."""
        if (entry := self._entries.get(item.id)) is not None:
            entry.is_sent, entry.at = True, self._clock()

    def record_not_sent(self, item: WorkItem) -> None:
        """No pin request was sent after all: free its place, unless an earlier one is queued."""
        entry = self._entries.get(item.id)
        if entry is not None and not (entry.is_sent and item.last_request is LastRequest.PIN):
            self.remove(item, is_pinned=False)

    def remove(self, item: WorkItem, *, is_pinned: bool) -> None:
        """*item* has left the queue; *is_pinned*, as it is done."""
        if (entry := self._entries.pop(item.id, None)) is not None:
            self._leave(entry, is_done=is_pinned)

    def adjust(
        self, item: WorkItem, seen: BackendStatus, action: Action | Outcome
    ) -> Action | Outcome:
        """Replaces *action*, which DecisionRules chose for *item* alone, where the queue asks for
        something else: a retry without room is postponed, a hanging content is withdrawn."""
        entry = self._entries.get(item.id)
        if action is Action.PIN and is_retry(item, seen) and not seen.replicas:
            self.record_arrival(item.requestor)
            has_room = entry is not None and entry.in_progress
            if not has_room and not self.may_send(item.requestor, is_retry=True):
                return Outcome(None, self._rules.backoffs.status_backoff(item.status_checks), seen)
            self.reserve(item, is_retry=True)
        # A status without peers comes from a listing, which does not show partial replicas.
        is_there = seen.status in (TrackerStatus.QUEUED, TrackerStatus.PINNING) and seen.peers
        if (
            isinstance(action, Outcome)
            and is_there
            and item.is_held
            and item.last_request is not None
        ):
            if seen.replicas:
                # Some peers have it: only a slow peer is busy with it, and it is not withdrawn.
                self.remove(item, is_pinned=True)
                return action
            if entry is None:  # sent before we were started, or by another process
                entry = self._add(item, max(0, item.attempts - 1), item.requested_at, is_sent=True)
            # A content that only waits for a worker is withdrawn only if its requestor holds more
            # than its share: otherwise it waits because of others.
            has_begun = seen.status is TrackerStatus.PINNING or entry.window.held > self._share
            if entry.is_to_withdraw and has_begun and self._is_limiting and self._is_hanging(entry):
                self.remove(item, is_pinned=False)
                return Action.WITHDRAW
        return action

    def needs_fresh_status(self, item: WorkItem) -> bool:
        """Whether *item* is to be withdrawn, which must not rest on an old status."""
        entry = self._entries.get(item.id)
        return entry is not None and entry.is_to_withdraw

    def record_answer(self, in_progress: Mapping[str, bool] | None) -> list[int]:
        """Record which CIDs the backend has in progress: at most nodes (True) or at some (False).
        None: it did not answer, and nothing is limited until it does.

        Returns the numbers of contents that block others, to be checked soon."""
        self._is_known = in_progress is not None
        if in_progress is None:
            return []
        now, entries = self._clock(), list(self._entries.values())
        known = sum(in_progress.get(entry.cid, False) for entry in entries)
        self._others_in_progress = sum(in_progress.values()) - known
        for window in self._busy.values():
            window.used = window.held
        for entry in entries:
            age, is_there = now - entry.at, in_progress.get(entry.cid)
            if is_there is False and _SPREAD_DELAY <= age <= entry.seconds:
                # Most nodes have it already. One slow node blocks nobody.
                self._leave(self._entries.pop(entry.number), is_done=True)
            elif is_there is None and not 0 <= age < (
                _SENT_DELAY if entry.is_sent else _RESERVED_FOR
            ):
                # It left the queue. If it was to be withdrawn, another process may have done so:
                # that gives no credit.
                self._leave(entry, is_done=entry.is_sent and not entry.is_to_withdraw)
            elif is_there is not None and not entry.in_progress:
                self._enter(entry, now)
        is_full = sum(self._workers_taken()) > self._workers // 2
        hanging = [each for each in entries if is_full and self._is_hanging(each)]
        for entry in hanging:
            entry.is_to_withdraw = True
        slow = [each for each in hanging if not 0 <= now - each.reported_at <= _REPORT_INTERVAL]
        for entry in slow[:_MAX_REPORTED]:
            entry.reported_at = now
        return [entry.number for entry in slow[:_MAX_REPORTED]]

    @property
    def _is_limiting(self) -> bool:
        return self._is_known and self.is_shared

    def _is_hanging(self, entry: _Submission) -> bool:
        """Whether it is past its attempt timeout and its requestor's window does not move. While
        the window moves, a late content only waits for its turn."""
        is_late = entry.in_progress and self._clock() - entry.at > entry.seconds
        return is_late and self._is_stuck(entry.window)

    def _is_stuck(self, window: _Window) -> bool:
        since = self._clock() - window.moved_at
        return not 0 <= since <= self._rules.backoffs.first_attempt_timeout + _MAX_POLL_GAP

    def _credit(self, window: _Window) -> int:
        return 0 if self._is_stuck(window) else window.credit

    def _workers_taken(self) -> Iterator[int]:
        """How many workers each requestor takes beyond its credit; first, those of contents that
        we did not send (other processes, unmanaged pins)."""
        yield self._others_in_progress
        for window in self._busy.values():
            yield max(0, window.held - self._credit(window))

    def _add(self, item: WorkItem, attempts: int, at: float, *, is_sent: bool) -> _Submission:
        if (old := self._entries.pop(item.id, None)) is not None:
            self._leave(old, is_done=False)
        if item.requestor not in self._windows:
            self.record_arrival(item.requestor)
        window = self._windows[item.requestor]
        seconds = self._rules.backoffs.attempt_timeout(replace(item, attempts=attempts))
        entry = _Submission(item.id, str(item.cid), window, seconds, attempts > 0, at, is_sent)
        self._entries[item.id] = entry
        self._enter(entry, at)
        if len(self._entries) > _MAX_ENTRIES:
            self._leave(self._entries.pop(next(iter(self._entries))), is_done=False)
        return entry

    def _enter(self, entry: _Submission, at: float) -> None:
        window, entry.in_progress, entry.at = entry.window, True, at
        window.credit = self._credit(window)
        if not window.held:  # an empty window cannot be stuck: its time starts now
            window.moved_at = self._clock()
        window.held += 1
        window.retries += entry.is_retry
        self._busy[id(window)] = window

    def _leave(self, entry: _Submission, *, is_done: bool) -> None:
        window, now = entry.window, self._clock()
        if not entry.in_progress:
            return
        if is_done:
            change = 1 if 0 <= now - entry.at <= _FAST else -1
            # At most twice what it uses: a requestor with few contents at a time cannot save up
            # credit for a flood (RFC 7661 limits TCP's window so).
            most = min(_MAX_CREDIT, 2 * window.used)
            window.credit = max(0, min(most, self._credit(window) + change))
            window.moved_at = now
        entry.in_progress = entry.is_to_withdraw = False
        window.held -= 1
        window.retries -= entry.is_retry
        if not window.held:
            del self._busy[id(window)]
