"""The IPNS resolver: follows links from name to name until they end at a CID.

A name asked for the first time makes its caller wait, for a moment only; afterwards the last
verified answer is given at once and links that are not fresh are looked up behind it. A chain is
as fresh as its least fresh link, because each is looked at again on every walk. Where a single
name points is known by link_cache.py."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, Protocol

from content_gateway.codecs.timestamps import at_milliseconds, milliseconds
from content_gateway.errors import InvalidIpnsName, TaskNotFound
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
    """A resolution that somebody asked for, at the moment *begun* (UTC).

    Its id says all there is to it, so that any process can tell how it went, and none has to
    remember tasks that nobody asks about."""

    name: IpnsName
    begun: datetime

    @property
    def id(self) -> str:
        """Milliseconds since 1970 in hex, a hyphen, the canonical name."""
        return f"{milliseconds(self.begun):x}-{self.name}"

    @classmethod
    def parse(cls, text: str, now: datetime) -> "Task":
        """The task with this id; raises TaskNotFound for none of ours, or one long over."""
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
    """How a task is going. *found* is the last verified path that still holds, in every state.

    *failure* says what went wrong; it is set exactly in the state "failed"."""

    task: Task
    state: Literal["pending", "resolved", "failed"]
    found: IpfsPath | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _ResolutionChain:
    """A walk along the links: all of them, and the content at their end if it was reached."""

    links: list[CacheEntry]
    found: IpfsPath | None = None
    failure: str | None = None


class IpnsDenylist(Protocol):
    """The operator's denylist; each of these raises Blocked."""

    def check_ipns(self, name: IpnsName) -> None:
        """Refuse an IPNS name."""

    def check_cid(self, cid: Cid) -> None:
        """Refuse content."""


class IpnsResolver:
    """What IPNS names point at in the end.

    Each of its answers raises Blocked when a name on the way, or the CID at its end, is not to be
    served; a blocked name is not even looked up."""

    def __init__(self, links: LinkCache, denylist: IpnsDenylist) -> None:
        self._links = links
        self._denylist = denylist

    async def latest(
        self, name: IpnsName, *, force_refresh: bool = False, requestor: str = ""
    ) -> IpfsPath | None:
        """Where *name* led when it was last verified, None while that is unknown.

        What is looked up takes of the share of *requestor*, the operator where that is empty.

        Starts look-ups of the links that are not fresh, with *force_refresh* of all. Waits for them
        only in the first moments (Policy.first_wait) after the name was asked for the first time,
        or when *force_refresh* has started one."""
        chain = self._walk(name, requestor, force_refresh=force_refresh)
        root = chain.links[0]
        wait = self._links.policy.first_wait
        waits_until = root.asked_at + wait if force_refresh else root.first_wait_ends
        while force_refresh or chain.found is None:
            awaited = [
                link
                for link in (chain.links if force_refresh else chain.links[-1:])
                if link.is_awaited
            ]
            rest = waits_until - self._links.clock()
            if not awaited or rest <= 0:
                break
            try:
                async with asyncio.timeout(rest):
                    await awaited[0].answered.wait()
            except TimeoutError:
                break
            chain = self._walk(name, requestor)
        return chain.found

    def known(self, name: IpnsName) -> IpfsPath | None:
        """The last verified path behind *name* that still holds; asks nobody."""
        return self._walk(name, ask=False).found

    def begin(self, name: IpnsName, *, requestor: str = "") -> TaskProgress:
        """Start a resolution, unless one was started moments ago, and name it.

        Raises Overloaded when *requestor* has too many under way."""
        self._links.check(name, requestor)
        chain = self._walk(name, requestor, force_refresh=True)
        return TaskProgress(Task(name, self._links.today()), "pending", chain.found)

    def progress(self, task_id: str, *, requestor: str = "") -> TaskProgress:
        """How the task is going; raises TaskNotFound."""
        task = Task.parse(task_id, self._links.today())
        chain = self._walk(task.name, requestor)
        if any(self._is_pending(link, task) for link in chain.links):
            return TaskProgress(task, "pending", chain.found)
        failures = [link.failure for link in chain.links if link.failure is not None]
        if chain.found is None or failures:
            return TaskProgress(task, "failed", chain.found, chain.failure or failures[0])
        return TaskProgress(task, "resolved", chain.found)

    async def close(self) -> None:
        """End every look-up."""
        await self._links.close()

    def _walk(
        self, name: IpnsName, requestor: str = "", *, force_refresh: bool = False, ask: bool = True
    ) -> _ResolutionChain:
        now = self._links.today()
        links: list[CacheEntry] = []
        below = ""  # what of the content is meant: each link puts its own path before it
        for _ in range(MAX_DEPTH):
            self._denylist.check_ipns(name)
            if ask:
                link = self._links.entry(name, force_refresh=force_refresh, requestor=requestor)
            else:
                link = self._links.known(name)
            links.append(link)
            if link.target is None:
                return _ResolutionChain(
                    links, failure=link.failure or "It points at no CID or IPNS name."
                )
            if link.usable_until <= now:
                return _ResolutionChain(links, failure="The last record has expired.")
            if isinstance(link.target, IpfsPath):
                self._denylist.check_cid(link.target.cid)
                if len(_joined(link.target.path, below)) > MAX_PATH:
                    return _ResolutionChain(
                        links, failure="The path that it points at is too long."
                    )
                return _ResolutionChain(links, _below(link.target, below))
            name, below = link.target.name, _joined(link.target.path, below)
        return _ResolutionChain(
            links, failure=f"The name leads through more than {MAX_DEPTH} names."
        )

    def _is_pending(self, link: CacheEntry, task: Task) -> bool:
        """True while the look that *task* wants of *link* has brought nothing yet."""
        return link.finished_at < task.begun and (link.is_awaited or link.finished_at == NEVER)


@lru_cache(maxsize=4_096)  # a warm answer is kept by the identity of the value it was made from
def _below(content: IpfsPath, path: str) -> IpfsPath:
    """What lies at *path* below *content*; without one, *content* itself."""
    return IpfsPath(content.cid, _joined(content.path, path)) if path else content


def _joined(path: str, below: str) -> str:
    """*below* behind *path*; either may be empty."""
    return path.rstrip("/") + below if below else path
