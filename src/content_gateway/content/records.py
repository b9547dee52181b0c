"""What a domain points at: the answers to a resolve request, as values.

Knows the fields of the interface specification's section 2.3, not their JSON."""

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from content_gateway.content.cid import Cid
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


@dataclass(frozen=True, slots=True)
class Records:
    """What one name service holds for one name; at least one of the two is set.

    *wallet* is an EIP-55 address. *wallet_is_owner* says that no address record was set and
    the wallet that owns the name stands in for it."""

    wallet: str | None = None
    content: ContentRecord | None = None
    wallet_is_owner: bool = False


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old a last known answer is, and by how much it has outlived its freshness."""

    age: timedelta
    overdue: timedelta


class Resolution(msgspec.Struct, frozen=True):
    """The answer to one resolve request; a Struct, as one is made for each.

    *ipns_cache* is the last verified CID behind IPNS content, None if none was ever verified.
    *stale* is set only when the name service is down and the last known answer serves."""

    records: Records
    ipns_cache: Cid | None = None
    stale: Staleness | None = None
