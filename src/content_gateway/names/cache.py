"""The directory's cache: what is known of each name, and how long it may be served.

Evicts the least recently used names, loads what it does not hold from the last known answers in the
database, and stores whole answers there; but in memory only what was asked beside wallet and
content, and the names of addresses (docs/adr/0022). Knows the four ages of an entry (see the theory
of operation in cached_services.py, which looks names up), and that an entry is stale from the time
on at which its name was heard to have changed on a chain."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from sys import getsizeof
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard

import structlog

from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Records, Resolved, Staleness
from content_gateway.model.wallet import CoinType
from content_gateway.names.changes import Changes, nodes_behind

# A normalised domain, and the coin whose address is wanted.
PlainQuestion: TypeAlias = tuple[str, CoinType]
MAX_WIDE_BYTES: Final = 32 * 1024 * 1024  # of records beside wallet and content, of all names
_KEY_BYTES: Final = 200  # of the objects around the text of a key


class WideQuestion(NamedTuple):
    """A domain, a coin, and what is wanted *more* than wallet and content."""

    domain: str
    coin: CoinType
    more: tuple[RecordKey, ...]


class PrimaryQuestion(NamedTuple):
    """An address, in its text form: which name it has on the chain of *coin*."""

    address: str
    coin: CoinType
    is_primary: Literal[True] = True


Question: TypeAlias = PlainQuestion | WideQuestion | PrimaryQuestion

log = structlog.get_logger(__name__)


# Look-ups that changes of one name may cause: so many at once, and then one in so many seconds, as
# callers may demand (LookupPolicy.between_refreshes). Whoever emits events gets no more.
_CHANGES_AT_ONCE: Final = 8
_BETWEEN_CHANGES: Final = 5.0
_BEHIND_SECONDS: Final = 1.0  # until a node is asked again that was behind the change
_FARTHEST_BEHIND: Final = 60.0  # a node behind by more does not follow the chain
_LONGEST_LOOKUP: Final = 60.0  # of an answer that another process may have stored


class LastKnown(Protocol):
    """Answers that outlive this process."""

    async def load(self, domain: str, coin: CoinType) -> Resolved | None:
        """The stored answer; None if there is none, or it cannot be read now."""

    def store(self, domain: str, coin: CoinType, resolved: Resolved | None) -> None:
        """Store *resolved*, a whole answer, in the background; None: the name does not exist."""


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Seconds that answers may be served, from when they were stored, and the cache's size.

    *absent* is how long absence, and an answer of which a record failed, are fresh."""

    fresh: float = 300.0
    while_revalidating: float = 600.0
    if_error: float = 3600.0
    absent: float = 30.0
    max_entries: int = 100_000


@dataclass(slots=True)
class CachedName:
    """What is known of one question: its records, None for known absence.

    *unread* says why the service does not read addresses of that coin. *stored_at*, *asked_at*,
    *ask_again_at*, and the times of changes are monotonic, *resolved* is the time in UTC. It holds
    all that was heard of its name up to *as_of*; *changed_at* is what was heard later."""

    records: Records | None
    resolved: datetime
    stored_at: float
    asked_at: float
    ask_again_at: float
    unread: str = ""
    as_of: float = float("-inf")
    changed_at: float | None = None
    changes_seen: int = 0  # Changes.count when it was last compared with them
    changes_paced: float = float("-inf")  # until when look-ups for changes are used up
    nodes: tuple[bytes, ...] = ()


class Cache:
    """Entries by question."""

    def __init__(
        self,
        last_known: LastKnown,
        *,
        ages: CachePolicy | None = None,
        changes: Changes | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """*changes* is what is heard of the chains; without it, clocks alone decide."""
        self._last_known = last_known
        self._changes = changes
        self._ages = ages or CachePolicy()
        self._clock = clock
        self._today = today
        self._entries: dict[Question, CachedName] = {}
        # The bytes of the entries with more records, in the order of _entries.
        self._wide: dict[Question, int] = {}
        self._wide_bytes = 0

    def get(self, question: Question) -> CachedName | None:
        """The entry, if it is in memory; it is now the most recently used."""
        entry = self._entries.pop(question, None)
        if entry is not None:
            self._put(question, entry)
            if self._changes is not None and entry.changes_seen != self._changes.count:
                self._compare(question, entry, self._changes)
        return entry

    async def load(self, question: Question) -> CachedName | None:
        """The entry, from memory or else from the database; it is now the most recently used."""
        entry = self.get(question)
        if entry is None:
            loaded = await self._loaded(question) if _is_plain(question) else None
            # What was stored while we read is newer, and may be all there is.
            entry = self.get(question)
            if entry is None and loaded is not None:
                self._put(question, loaded)
                return self.get(question)
        return entry

    async def last(self, question: PlainQuestion) -> Resolved | None:
        """The last answer, however old; None when nothing is known, or the name does not exist.

        That is the last whole answer if there was one, else the partial one."""
        entry = self._entries.get(question)
        if entry is None:
            return await self._last_known.load(*question)
        if entry.records is None:
            return None
        resolved = Resolved(entry.records, entry.resolved)
        if entry.records.is_whole:
            return resolved
        return await self._last_known.load(*question) or resolved

    def store(
        self, question: Question, records: Records | None, asked_at: float, *, unread: str = ""
    ) -> CachedName:
        """The new entry for what was resolved just now; None: the name does not exist.

        A partial answer is not stored in the database, where it would outlive the failure."""
        now, today = self._clock(), self._today()
        entry = CachedName(records, today, now, asked_at, now + self._freshness(records), unread)
        entry.as_of = asked_at
        self._put_in_place(question, entry, self._entries.pop(question, None))
        if _is_plain(question) and (records is None or records.is_whole):
            self._last_known.store(*question, None if records is None else Resolved(records, today))
        return entry

    async def store_partial(
        self, question: Question, records: Records, asked_at: float, hold_back: float
    ) -> CachedName:
        """The entry to serve after *records*, some of which failed, were resolved just now.

        That is the previous one if it is whole and may be served, and the failure is temporary."""
        known = await self.load(question)
        for record, failed in records.all_failures.items():
            tell = log.warning if failed.is_temporary else log.info
            why = {"fault": failed.kind.__name__, "reason": failed.reason}
            tell("a record failed", domain=question[0], coin=question[1], record=record, **why)
        is_temporary = any(failed.is_temporary for failed in records.all_failures.values())
        if known is None or not (is_temporary and _is_whole(known) and self.serves_if_error(known)):
            return self.store(question, records, asked_at)
        self.record_failure(question, asked_at, hold_back)
        return known

    def record_failure(self, question: Question, asked_at: float, hold_back: float) -> None:
        """A look-up, begun at *asked_at*, has failed: none begins for *hold_back* seconds."""
        entry = self._entries.get(question)
        if entry is None:
            return
        entry.asked_at = asked_at
        if entry.records is not None:
            # Nobody may get the old answer past its time because of a pause in asking, and a
            # fresh answer stays one although somebody has demanded a fresher one in vain.
            pause_ends = min(self._clock() + hold_back, entry.stored_at + self._ages.if_error)
            entry.ask_again_at = max(pause_ends, self._fresh_until(entry))

    def serves_while_revalidating(self, entry: CachedName) -> bool:
        """Whether *entry* may be served while a look-up runs in the background (RFC 5861)."""
        # A partial answer may not, nor one that is known to have changed: the caller waits for the
        # new one.
        is_right = _is_whole(entry) and entry.changed_at is None
        return is_right and self._serves(entry, self._ages.while_revalidating)

    def has_changed(self, question: Question, entry: CachedName) -> bool:
        """Whether the name is to be looked up again, for what was heard since *entry* was."""
        is_changed = self.get(question) is entry and entry.changed_at is not None
        return is_changed and self._clock() >= entry.ask_again_at

    def serves_if_error(self, entry: CachedName) -> bool:
        """Whether *entry* may be served when the look-up fails (RFC 5861)."""
        return self._serves(entry, self._ages.if_error)

    def staleness(self, entry: CachedName, *, even_fresh: bool = False) -> Staleness | None:
        """How stale *entry* is; None while it is fresh, unless its age is asked for anyway."""
        now, fresh_until = self._clock(), self._fresh_until(entry)
        if now < fresh_until and not even_fresh:
            return None
        return Staleness(
            timedelta(seconds=now - entry.stored_at), timedelta(seconds=now - fresh_until)
        )

    def _fresh_until(self, entry: CachedName) -> float:
        """The end of its freshness: by its age, or the change that was heard of."""
        by_age = entry.stored_at + self._freshness(entry.records)
        return by_age if entry.changed_at is None else min(by_age, entry.changed_at)

    def fresh_for(self, entry: CachedName) -> timedelta | None:
        """How much longer *entry* is fresh; None where it is stale."""
        left = self._fresh_until(entry) - self._clock()
        return timedelta(seconds=left) if left > 0 else None

    def _freshness(self, records: Records | None) -> float:
        """Seconds for which the answer is fresh."""
        is_whole = records is not None and records.is_whole
        return self._ages.fresh if is_whole else self._ages.absent

    def _serves(self, entry: CachedName, seconds: float) -> bool:
        # Absence is never stretched: a name may have been registered in the meantime.
        serves = max(seconds, self._freshness(entry.records))
        return entry.records is not None and self._clock() < entry.stored_at + serves

    async def _loaded(self, question: PlainQuestion) -> CachedName | None:
        """The entry that a former process, or this one before it forgot, has left behind."""
        resolved = await self._last_known.load(*question)
        if resolved is None:
            return None
        age = (self._today() - resolved.at).total_seconds()
        if not 0 <= age < max(self._ages.if_error, self._ages.fresh):
            return None  # too old, or from a clock that was wrong
        stored_at = self._clock() - age
        entry = CachedName(
            resolved.records, resolved.at, stored_at, stored_at, stored_at + self._ages.fresh
        )
        entry.as_of = stored_at - _LONGEST_LOOKUP
        return entry

    def _put_in_place(
        self, question: Question, entry: CachedName, former: CachedName | None
    ) -> None:
        """Put *entry*, looked up just now, in the place of the *former* one."""
        self._put(question, entry)
        if former is not None:
            entry.nodes, entry.changes_paced = former.nodes, former.changes_paced
        changes = self._changes
        if changes is None or not changes.is_behind(entry.as_of):
            return
        entry.nodes = entry.nodes or nodes_behind(question[0])
        at = changes.last(entry.nodes)
        if at is not None and 0 <= entry.as_of - at < _FARTHEST_BEHIND:
            # It may be from before the change, though it was asked for after that.
            self._change(entry, at, entry.stored_at + _BEHIND_SECONDS)

    def _compare(self, question: Question, entry: CachedName, changes: Changes) -> None:
        """Note in *entry* whether its name was heard to have changed since it was looked up."""
        entry.changes_seen = changes.count
        if not entry.nodes:
            entry.nodes = nodes_behind(question[0])
        at = changes.last(entry.nodes)
        if at is not None and at > entry.as_of and entry.changed_at is None:
            self._change(entry, at, self._clock())

    @staticmethod
    def _change(entry: CachedName, at: float, again_at: float) -> None:
        """*entry* is stale since *at*, and looked up again at *again_at* if its share allows it."""
        paced = entry.changes_paced
        again_at = max(again_at, paced - (_CHANGES_AT_ONCE - 1) * _BETWEEN_CHANGES)
        entry.changed_at = at
        entry.changes_paced = max(paced, again_at) + _BETWEEN_CHANGES
        entry.ask_again_at = min(entry.ask_again_at, again_at)

    def _put(self, question: Question, entry: CachedName) -> None:
        self._entries[question] = entry
        if len(self._entries) > self._ages.max_entries:
            self._forget(next(iter(self._entries)))
        if not _is_plain(question):
            self._wide_bytes -= self._wide.pop(question, 0)
            self._wide[question] = size = _size(question, entry.records)
            self._wide_bytes += size
            while self._wide_bytes > MAX_WIDE_BYTES:
                self._forget(next(iter(self._wide)))

    def _forget(self, question: Question) -> None:
        self._entries.pop(question, None)
        self._wide_bytes -= self._wide.pop(question, 0)


def _is_plain(question: Question) -> TypeGuard[PlainQuestion]:
    """True for what the database has a place for."""
    return len(question) == 2


def _size(question: Question, records: Records | None) -> int:
    """About how many bytes are kept of what was asked for beside wallet and content: its keys, be
    there nothing under them, and its values."""
    keys = question.more if isinstance(question, WideQuestion) else ()
    values = () if records is None else (value for _, value in records.more)
    return sum(_KEY_BYTES + getsizeof(key.text) for key in keys) + sum(
        getsizeof(value) for value in values if isinstance(value, str)
    )


def _is_whole(entry: CachedName) -> bool:
    """True where there are records, and none of them failed."""
    return entry.records is not None and entry.records.is_whole
