"""The content of a name: the path of what it shows, and how long that is known to be so.

Knows which records have content that can be served, and that it is as fresh as the name, and for
IPNS content as each name on the way. Records come from the directory, IPNS from its port; files are
left to unixfs/."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from content_gateway.errors import PathNotFound, UpstreamTimeout
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    Failed,
    IpfsContent,
    IpnsContent,
    OtherContent,
    Resolution,
)
from content_gateway.names.directory import Directory


class IpnsFreshness(Protocol):
    """How fresh what IPNS names point at is."""

    async def fresh_for(self, name: IpnsName) -> timedelta | None:
        """How much longer all that *name* leads through is fresh; None where some of it is not."""


@dataclass(frozen=True, slots=True)
class NameContent:
    """What a name shows: content at *path*, known to be so *fresh_for* so long; None: it is stale,
    or nobody says for how long. *is_stale* where an answer has outlived its freshness. *names* are
    the name, and the IPNS name that it leads to, if it does."""

    path: IpfsPath
    fresh_for: timedelta | None
    is_stale: bool
    names: tuple[DomainName | IpnsName, ...]

    @property
    def segments(self) -> list[str]:
        """The names on the way from the CID to what is shown."""
        return [segment for segment in self.path.path.split("/") if segment]


class ContentNames:
    """What the names of *directory* show."""

    def __init__(self, directory: Directory, ipns: IpnsFreshness) -> None:
        self._directory = directory
        self._ipns = ipns

    def is_fresh(self, name: DomainName) -> bool:
        """Whether *name* can be answered without asking any name service."""
        return self._directory.fresh_for(name) is not None

    def knows(self, name: DomainName) -> bool:
        """Whether an answer for *name* is in memory, however old, or in a local zone."""
        return self._directory.knows(name)

    async def find(
        self, name: DomainName, *, force_refresh: bool = False, requestor: str = ""
    ) -> NameContent:
        """The content of *name*.

        Raises as `Directory.resolve` does, the error of a content record that failed, PathNotFound
        where there is none that can be served, and UpstreamTimeout while it is not known where an
        IPNS name leads."""
        resolution = await self._directory.resolve(
            name, force_refresh=force_refresh, requestor=requestor
        )
        path = path_of(resolution)
        content = resolution.records.content
        names = (name, content.name) if isinstance(content, IpnsContent) else (name,)
        fresh_for = None
        if resolution.stale is None:
            fresh_for = self._directory.fresh_for(name)
            if fresh_for is not None and isinstance(content, IpnsContent):
                of_ipns = await self._ipns.fresh_for(content.name)
                fresh_for = None if of_ipns is None else min(fresh_for, of_ipns)
        return NameContent(path, fresh_for, resolution.stale is not None, names)


def path_of(resolution: Resolution) -> IpfsPath:
    """The path of the content that *resolution* tells; raises as `ContentNames.find`."""
    match resolution.records.content:
        case IpfsContent(cid):
            return IpfsPath(cid)
        case IpnsContent(name):
            if resolution.ipns_cache is None:
                raise UpstreamTimeout(
                    f"It is not known yet where the IPNS name {name} leads; ask again soon."
                )
            return resolution.ipns_cache
        case OtherContent(codec):
            raise PathNotFound(f"The content of this domain is of {codec}, which is not served.")
        case Failed() as failed:
            raise failed.error()
    raise PathNotFound("This domain has no content: it stands for a wallet.")
