"""The content path: `/ipfs/CID/...` or `/ipns/NAME/...`, as records and DNS spell it.

Knows the two namespaces (specs.ipfs.tech, "Content paths") and how a path is cleaned, which is
how boxo's `path.NewPath` does it. What an IPNS path leads to is the resolver's business."""

from dataclasses import dataclass
from posixpath import normpath
from typing import Final

from content_gateway.errors import CallerError
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName

MAX_PATH: Final = 8 * 1024
"""Characters below a CID; whoever writes a record decides what we repeat in every answer."""


@dataclass(frozen=True, slots=True)
class IpfsPath:
    """Content by its CID, or what lies below it: *path* is empty, or "/" and the segments."""

    cid: Cid
    path: str = ""

    def __str__(self) -> str:
        return f"/ipfs/{self.cid}{self.path}"


@dataclass(frozen=True, slots=True)
class IpnsPath:
    """What an IPNS name points at, or what lies below that: *path* as in IpfsPath."""

    name: IpnsName
    path: str = ""

    def __str__(self) -> str:
        return f"/ipns/{self.name}{self.path}"


ContentPath = IpfsPath | IpnsPath


def parse_content_path(text: str) -> ContentPath | None:
    """The path that *text* spells, dots and doubled slashes resolved; None for any other text,
    and for one with more than MAX_PATH below its root."""
    if not text.startswith("/"):
        return None
    # normpath keeps two leading slashes, which mean something to POSIX and nothing here.
    namespace, _, rest = normpath("/" + text.lstrip("/"))[1:].partition("/")
    root, slash, below = rest.partition("/")
    path = slash + below + "/" if below and text.endswith("/") else slash + below
    if len(path) > MAX_PATH:
        return None
    try:
        if namespace == "ipfs":
            return IpfsPath(Cid.parse(root), path)
        if namespace == "ipns":
            return IpnsPath(IpnsName.parse(root), path)
    except CallerError:
        pass
    return None
