"""What a domain points at: the answers to a resolve request, as values.

Knows the fields of the interface specification's section 2.3, not their JSON."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from content_gateway.content.cid import Cid
from content_gateway.content.content_path import IpfsPath
from content_gateway.content.ipns_name import IpnsName


@dataclass(frozen=True, slots=True)
class IpfsContent:
    """Content fixed by its CID."""

    cid: Cid


@dataclass(frozen=True, slots=True)
class IpnsContent:
    """Content behind a mutable name."""

    name: IpnsName


@dataclass(frozen=True, slots=True)
class OtherContent:
    """Content of a network this service does not serve, `codec` naming it (`swarm`, `onion`)."""

    codec: str
    text: str


ContentRecord = IpfsContent | IpnsContent | OtherContent


def parse_link(text: str) -> IpfsContent | IpnsContent | None:
    """The content that `ipfs://CID` or `ipns://NAME` links to, or the path `/ipfs/CID` or
    `/ipns/NAME`; None for any other text.

    Raises InvalidCid or InvalidIpnsName where the scheme is right and the rest is not."""
    for prefix in ("ipfs://", "/ipfs/"):
        if text.startswith(prefix):
            return IpfsContent(Cid.parse(text.removeprefix(prefix)))
    if text.startswith(("ipns://", "/ipns/")):
        return IpnsContent(IpnsName.parse(text))
    return None


@dataclass(frozen=True, slots=True)
class Records:
    """What one name service holds for one name; at least one of the two is set.

    *wallet* is an EIP-55 address. *wallet_is_owner* says that no address record was set and
    the wallet that owns the name stands in for it."""

    wallet: str | None = None
    content: ContentRecord | None = None
    wallet_is_owner: bool = False


@dataclass(frozen=True, slots=True)
class Learned:
    """Records and the moment (UTC) at which a name service gave them."""

    records: Records
    at: datetime


@dataclass(frozen=True, slots=True)
class KnownLink:
    """Where an IPNS name pointed when we last looked, at the moment *at* (UTC).

    *path* is a content path. A key's link is the *record* (bytes) that proves it; a DNSLink
    domain has none, and a *ttl* instead."""

    path: str
    at: datetime
    record: bytes | None = None
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old a cached answer is, and by how much it has outlived its freshness (or, where that is
    negative, will be fresh for)."""

    age: timedelta
    overdue: timedelta


class Resolution(msgspec.Struct, frozen=True):
    """The answer to one resolve request; a Struct, as one is made for each.

    *ipns_cache* is where IPNS content led when it was last verified, None if it never was.
    *stale* is set when the answer has outlived its freshness and serves all the same, because a
    new one is on its way or cannot be had; and when a fresh look was demanded and not had."""

    records: Records
    ipns_cache: IpfsPath | None = None
    stale: Staleness | None = None

    def but_stale(self, stale: Staleness) -> "Resolution":
        """The same answer, marked as *stale*."""
        return Resolution(self.records, self.ipns_cache, stale)
