"""The IPNS resolver: follows names that point at names until one points at a CID.

The first caller of a name waits for the answer, for a moment only. Later callers get the last
verified answer at once, and stale entries are refreshed in the background. A chain is as fresh as
its least fresh entry, since each is checked on every walk. Single names are left to
link_cache.py."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, Protocol

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.errors import (
    InvalidIpnsName,
    TaskNotFound,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ipns.cache_entry import NEVER, CacheEntry
from content_gateway.ipns.link_cache import LinkCache
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import MAX_PATH, IpfsPath
from content_gateway.model.ipns_name import IpnsName

MAX_DEPTH: Final = 32  # names on the way, as many as boxo follows (namesys.DefaultDepthLimit)
_TASK_LIFETIME: Final = timedelta(hours=1)
_CLOCK_SKEW: Final = timedelta(seconds=30)  # between the processes that give out and read ids


@dataclass(frozen=True, slots=True)
class Task:
    """A resolution that was requested at *begun* (UTC).

    Its id holds all of it: any process can report on it, and none stores tasks (ADR 7)."""

    name: IpnsName
    begun: datetime

    @property
    def id(self) -> str:
        """Milliseconds since 1970 in hex, a hyphen, the canonical name."""
        return f"{milliseconds(self.begun):x}-{self.name}"

    @classmethod
    def parse(cls, text: str, now: datetime) -> "Task":
        """The task with this id; raises TaskNotFound for an id that is not ours, or expired."""
        begun, separator, name = text.partition("-")
        try:
            if not separator or len(begun) > 12 or begun.strip("0123456789abcdef"):
                raise ValueError(text)
            task = cls(IpnsName.parse(name), at_milliseconds(int(begun, 16)))
        except (ValueError, OverflowError, InvalidIpnsName) as wrong:
            raise TaskNotFound("There is no such task.") from wrong
        if not -_CLOCK_SKEW <= now - task.begun < _TASK_LIFETIME or task.id != text:
            raise TaskNotFound("There is no such task, or it was started more than an hour ago.")
        return task


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How a task is going. *found* is the last verified path that is still valid, in every state.

    *failure* says what went wrong; it is set in the state "failed" only."""

    task: Task
    state: Literal["pending", "resolved", "failed"]
    found: IpfsPath | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """The record of an IPNS name, valid now: its bytes, for how long they may be cached from when a
    source had them last, and how long ago that was."""

    data: bytes
    lifetime: timedelta
    age: timedelta


@dataclass(frozen=True, slots=True)
class _ResolutionChain:
    """The entries from a name on, and the path at their end, or why it was not reached."""

    entries: list[CacheEntry]
    found: IpfsPath | None = None
    failure: str | None = None


class IpnsDenylist(Protocol):
    """What the operator does not serve."""

    def check_ipns(self, name: IpnsName) -> None:
        """Raises Blocked if the IPNS name is listed."""

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if the content is listed."""


class IpnsResolver:
    """What IPNS names resolve to.

    Each method raises Blocked when the denylist has one of the chain's names, or its CID."""

    def __init__(self, cache: LinkCache, denylist: IpnsDenylist) -> None:
        self._cache = cache
        self.lookups = cache.lookups
        self._denylist = denylist

    async def latest(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> IpfsPath | None:
        """The path that *name* last resolved to, None while that is unknown.

        Begins look-ups of stale entries, with *force_refresh* of all, charged to *requestor*, to
        the operator where that is empty. Waits for them for IpnsPolicy.first_wait at most, and only
        after the first request for the name, or where *force_refresh* has begun one."""
        chain = await self._walk(name, requestor, force_refresh=force_refresh)
        root = chain.entries[0]
        wait = self._cache.policy.first_wait
        waits_until = root.asked_at + wait if force_refresh else root.first_wait_ends
        while force_refresh or chain.found is None:
            awaited = [
                entry
                for entry in (chain.entries if force_refresh else chain.entries[-1:])
                if entry.is_awaited
            ]
            rest = waits_until - self._cache.clock()
            if not awaited or rest <= 0 or not await awaited[0].answers_within(rest):
                break
            chain = await self._walk(name, requestor)
        return chain.found

    async def known(self, name: IpnsName) -> IpfsPath | None:
        """The last path that *name* resolved to, if it is still valid; asks no source."""
        return (await self._walk(name, ask=False)).found

    async def fresh_for(self, name: IpnsName) -> timedelta | None:
        """How much longer every entry on the way from *name* is fresh, without asking any source;
        None where one is not, or the end is not known."""
        chain = await self._walk(name, ask=False)
        left = min(entry.fresh_until for entry in chain.entries) - self._cache.clock()
        return timedelta(seconds=left) if chain.found is not None and left > 0 else None

    def is_fresh(self, name: IpnsName) -> bool:
        """Whether *name* is told without a look-up of it."""
        return self._cache.has(name) and self._cache.clock() < self._cache.known(name).fresh_until

    async def record(
        self, name: IpnsName, *, ask: bool = True, requestor: str = ""
    ) -> KeptRecord | None:
        """The best record of the key *name* that was seen and is valid; None where there is none.

        What is stale is looked up again, charged to *requestor*; where no valid record is known the
        caller waits for that, for IpnsPolicy.first_wait at most. Without *ask* no source is asked,
        and None says nothing about them. Raises UpstreamTimeout where the look-up takes longer,
        UpstreamUnavailable where a source failed, and as `begin` does."""
        entry = (await self._walk(name, ask=False)).entries[0]
        if ask:
            # For that name alone: where it leads is looked up by who follows it.
            self._cache.entry(name, requestor=requestor)
            if entry.is_awaited and entry.usable_until <= self._cache.today():
                if not await entry.answers_within(self._cache.policy.first_wait):
                    raise UpstreamTimeout("The record has not come yet.")
                entry = (await self._walk(name, ask=False)).entries[0]
        if entry.usable_until > self._cache.today():
            age = timedelta(seconds=max(0.0, self._cache.clock() - entry.seen_at))
            return None if entry.record is None else KeptRecord(entry.record, entry.ttl, age)
        if ask and not (entry.is_absent and self.is_fresh(name)):
            self._cache.check(name, requestor)
            raise UpstreamUnavailable(entry.failure or "The record could not be looked up.")
        return None

    async def begin(self, name: IpnsName, *, requestor: str = "") -> TaskProgress:
        """Begin a resolution, unless one was begun just before, and return its task.

        Raises Overloaded, or TooManyAtOnce by its own limit, when *requestor* has too many under
        way."""
        self._cache.check(name, requestor)
        chain = await self._walk(name, requestor, force_refresh=True)
        return TaskProgress(Task(name, self._cache.today()), "pending", chain.found)

    async def progress(self, task_id: str, *, requestor: str = "") -> TaskProgress:
        """How the task is going; raises TaskNotFound."""
        task = Task.parse(task_id, self._cache.today())
        chain = await self._walk(task.name, requestor)
        if any(self._is_pending(entry, task) for entry in chain.entries):
            return TaskProgress(task, "pending", chain.found)
        failures = [entry.failure for entry in chain.entries if entry.failure is not None]
        if chain.found is None or failures:
            return TaskProgress(task, "failed", chain.found, chain.failure or failures[0])
        return TaskProgress(task, "resolved", chain.found)

    async def close(self) -> None:
        """Cancel every look-up."""
        await self._cache.close()

    async def _walk(
        self, name: IpnsName, requestor: str = "", *, force_refresh: bool = False, ask: bool = True
    ) -> _ResolutionChain:
        now = self._cache.today()
        entries: list[CacheEntry] = []
        below = ""  # the path within the content: each entry puts its own before it
        for _ in range(MAX_DEPTH):
            self._denylist.check_ipns(name)
            if not self._cache.has(name):
                await self._cache.load(name)
            if ask:
                entry = self._cache.entry(name, force_refresh=force_refresh, requestor=requestor)
            else:
                entry = self._cache.known(name)
            entries.append(entry)
            if entry.target is None:
                return _ResolutionChain(
                    entries, failure=entry.failure or "It points at no CID or IPNS name."
                )
            if entry.usable_until <= now:
                return _ResolutionChain(entries, failure="The last record has expired.")
            if isinstance(entry.target, IpfsPath):
                self._denylist.check_cid(entry.target.cid)
                if len(_joined(entry.target.path, below)) > MAX_PATH:
                    return _ResolutionChain(
                        entries, failure="The path that it points at is too long."
                    )
                return _ResolutionChain(entries, _below(entry.target, below))
            name, below = entry.target.name, _joined(entry.target.path, below)
        return _ResolutionChain(
            entries, failure=f"The name leads through more than {MAX_DEPTH} names."
        )

    def _is_pending(self, entry: CacheEntry, task: Task) -> bool:
        """Whether the look-up of *entry* that *task* waits for has no result yet."""
        return entry.finished_at < task.begun and (entry.is_awaited or entry.finished_at == NEVER)


@lru_cache(maxsize=4_096)  # rendered answers are cached by the identity of this value
def _below(content: IpfsPath, path: str) -> IpfsPath:
    """The path *path* below *content*; *content* itself where that is empty."""
    return IpfsPath(content.cid, _joined(content.path, path)) if path else content


def _joined(path: str, below: str) -> str:
    """*below* behind *path*; either may be empty."""
    return path.rstrip("/") + below if below else path
