"""How much of each requestor is in the queue of a backend that takes whatever it is sent: rules
without I/O.

A cluster works at a few pins at a time, in the order in which they came, so that what hangs there
keeps everybody's later pins waiting. One requestor alone is not limited. Where another one had
anything to send within ten minutes, there are three rules. Room: each may have so many contents in
hand there as `fair_share` says of the workers, a quarter of them for what is tried again. Credit:
what is done soon lets its requestor have one more there, what is done late one less; all of it is
gone once nothing of the requestor's has left the queue for some seconds. And what has been there
beyond its attempt timeout by then is taken back, if what takes room is more than half of the
workers. Knows what was sent and what the backend has in hand; who asks, sends and writes is left to
the reconciler."""

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

_MAX_CREDIT: Final = 128  # a second and a half of what a cluster of three brings in
_FAST: Final = 4.0  # seconds after which what is done costs credit
_ACTIVE_FOR: Final = 600.0  # seconds for which room is left to who has sent something
_SENT_DELAY: Final = 0.5  # seconds until all of a backend has heard of what it was sent
_SPREAD_DELAY: Final = (
    2.0  # seconds; before, those that have it not in hand may not have heard of it
)
_RESERVED_FOR: Final = 60.0  # seconds after which what never came to be sent takes no more room
_MAX_POLL_GAP: Final = 3.0  # seconds after which it is heard again what is in hand, at the latest
_REPORT_INTERVAL: Final = 2.0  # seconds; whoever looks may not be the process that hears
_MAX_ENTRIES: Final = 20_000
_MAX_WINDOWS: Final = 10_000
_MAX_REPORTED: Final = 1_000


@dataclass(slots=True)
class _Window:
    """What a requestor has in hand there: *held* contents, *retries* of them tried again; *used*
    is what it held when that was last heard."""

    active_at: float
    moved_at: float = 0.0  # when something left the queue, or the first one entered it
    held: int = 0
    retries: int = 0
    used: int = 0
    credit: int = 0


@dataclass(slots=True)
class _Submission:
    """A content that was sent at *at*, for so many *seconds*, and that nobody has seen pinned yet.

    One that is not *in_progress* takes no room, and may come back to it: when the batch that it
    came with is closed, or when the backend by itself tries again what has failed."""

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
    """Whether *item*, of which *seen* was seen, may hang there as it may have done before.

    What the backend has forgotten with the request has not: a cluster's peer that dies loses all
    that it has taken in and not committed, and nobody was at that."""
    is_forgotten = item.last_request is LastRequest.PIN and seen.status is TrackerStatus.ABSENT
    return item.attempts > 0 and not is_forgotten


class SubmissionWindows:
    """The windows of all requestors before a backend with so many *workers*."""

    def __init__(self, workers: int, rules: DecisionRules, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._share = fair_share(workers, 0)
        self._rules = rules
        self._clock = clock
        self._is_known = True
        self._others_in_progress = (
            0  # in hand there, and not known to us: of other processes, or unmanaged pins
        )
        self._entries: dict[int, _Submission] = {}
        self._windows: dict[int, _Window] = {}  # by requestor; who came last is at the end
        self._busy: dict[int, _Window] = {}  # those with something in hand, by identity

    @property
    def is_shared(self) -> bool:
        """Whether more than one requestor has had something to send lately."""
        latest = list(islice(reversed(self._windows.values()), 2))
        # A clock that was set back must not make a moment last.
        return len(latest) > 1 and abs(self._clock() - latest[1].active_at) < _ACTIVE_FOR

    @property
    def is_empty(self) -> bool:
        """Whether nothing of anybody's is in hand there, for all we know."""
        return not self._busy

    def __len__(self) -> int:
        return len(self._entries)

    def record_arrival(self, requestor: int) -> None:
        """It has something to send."""
        window = self._windows.pop(requestor, None) or _Window(0.0)
        window.active_at = self._clock()
        self._windows[requestor] = window
        if len(self._windows) > _MAX_WINDOWS:
            del self._windows[next(iter(self._windows))]

    def may_send(self, requestor: int, *, is_retry: bool = False) -> bool:
        """Whether there is room for one more of *requestor*; for a first one always."""
        window = self._windows.get(requestor)
        if window is None or not self._is_limiting:
            return True
        if is_retry and window.retries >= max(1, self._workers // 4):
            return False  # it may take an hour
        held = window.held - self._credit(window)
        # What one has sent beyond its share, while it was alone, is on its way out.
        taken = sum(min(self._share, number) for number in self._workers_taken())
        return held < 0 or fair_share(max(1, self._workers - taken), held) > 0

    def reserve(self, item: WorkItem, *, is_retry: bool = False) -> None:
        """It is about to be sent."""
        self.record_arrival(item.requestor)
        self._add(item, item.attempts if is_retry else 0, self._clock(), is_sent=False)

    def record_sent(self, item: WorkItem) -> None:
        """The backend has taken it."""
        if (entry := self._entries.get(item.id)) is not None:
            entry.is_sent, entry.at = True, self._clock()

    def record_not_sent(self, item: WorkItem) -> None:
        """Nothing was sent, or it was released."""
        entry = self._entries.get(item.id)
        if entry is not None and not (entry.is_sent and item.last_request is LastRequest.PIN):
            self.remove(item, is_pinned=False)

    def remove(self, item: WorkItem, *, is_pinned: bool) -> None:
        """Nothing of *item* is in the queue any more."""
        if (entry := self._entries.pop(item.id, None)) is not None:
            self._leave(entry, is_done=is_pinned)

    def adjust(
        self, item: WorkItem, seen: BackendStatus, action: Action | Outcome
    ) -> Action | Outcome:
        """What is to be done about *item* instead of *action*, which is what its own state asks
        for."""
        entry = self._entries.get(item.id)
        if action is Action.PIN and is_retry(item, seen) and not seen.replicas:
            self.record_arrival(item.requestor)
            has_room = entry is not None and entry.in_progress
            if not has_room and not self.may_send(item.requestor, is_retry=True):
                return Outcome(None, self._rules.backoffs.status_backoff(item.status_checks), seen)
            self.reserve(item, is_retry=True)
        # What is believed to be queued may be held by some; only who was asked now names peers.
        is_there = seen.status in (TrackerStatus.QUEUED, TrackerStatus.PINNING) and seen.peers
        if (
            isinstance(action, Outcome)
            and is_there
            and item.is_held
            and item.last_request is not None
        ):
            if seen.replicas:
                self.remove(item, is_pinned=True)  # it hangs at some
                return action
            if entry is None:  # sent before we were started, or by another process
                entry = self._add(item, max(0, item.attempts - 1), item.requested_at, is_sent=True)
            # What is queued behind others' goes where its own are many, and nowhere else.
            has_begun = seen.status is TrackerStatus.PINNING or entry.window.held > self._share
            if entry.is_to_withdraw and has_begun and self._is_limiting and self._is_hanging(entry):
                self.remove(item, is_pinned=False)
                return Action.WITHDRAW
        return action

    def needs_fresh_status(self, item: WorkItem) -> bool:
        """Whether the backend is to find out now what it has of it."""
        entry = self._entries.get(item.id)
        return entry is not None and entry.is_to_withdraw

    def record_answer(self, in_progress: Mapping[str, bool] | None) -> list[int]:
        """The backend has these CIDs in hand now, or some of its nodes have (False); None: it does
        not say, and nothing is limited.

        The numbers of contents that are in the way as of now, and are to be checked soon."""
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
                # Most nodes have it. One that is slow, or whose store is down, is in nobody's way.
                self._leave(self._entries.pop(entry.number), is_done=True)
            elif is_there is None and not 0 <= age < (
                _SENT_DELAY if entry.is_sent else _RESERVED_FOR
            ):
                # What was to go may have been taken back by another process.
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
        """Whether it has had its attempt timeout; that it waits is no fault of its own while others
        of its requestor come to their turn."""
        is_late = entry.in_progress and self._clock() - entry.at > entry.seconds
        return is_late and self._is_stuck(entry.window)

    def _is_stuck(self, window: _Window) -> bool:
        since = self._clock() - window.moved_at
        return not 0 <= since <= self._rules.backoffs.first_attempt_timeout + _MAX_POLL_GAP

    def _credit(self, window: _Window) -> int:
        return 0 if self._is_stuck(window) else window.credit

    def _workers_taken(self) -> Iterator[int]:
        """How many of the workers each requestor takes, or would if there were as many."""
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
        if not window.held:  # it may stand still from here on
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
            # Only as much as it makes use of: a few at a time do not save up for a flood.
            most = min(_MAX_CREDIT, 2 * window.used)
            window.credit = max(0, min(most, self._credit(window) + change))
            window.moved_at = now
        entry.in_progress = entry.is_to_withdraw = False
        window.held -= 1
        window.retries -= entry.is_retry
        if not window.held:
            del self._busy[id(window)]
