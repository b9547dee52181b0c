"""The records of a domain: the values of a resolve answer. No I/O.

Knows the fields of spec.yaml, not their JSON. A record is a value, absent, or failed for a reason,
each by itself (ENSIP-23). What follows for the whole answer is decided here."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from content_gateway.errors import (
    AnswerTooLarge,
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.ipns_name import IpnsName


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


def parse_content(text: str) -> IpfsContent | IpnsContent | None:
    """The content of a URI (`ipfs://CID`, `ipns://NAME`) or path (`/ipfs/CID`), or None.

    Raises InvalidCid or InvalidIpnsName if what follows the scheme is invalid."""
    for prefix in ("ipfs://", "/ipfs/"):
        if text.startswith(prefix):
            return IpfsContent(Cid.parse(text.removeprefix(prefix)))
    if text.startswith(("ipns://", "/ipns/")):
        return IpnsContent(IpnsName.parse(text))
    return None


@dataclass(frozen=True, slots=True)
class Failed:
    """A record that could not be read: it is not known whether it is set.

    *kind*: the class of the error. *reason*: its sentence for people."""

    kind: type[UpstreamError]
    reason: str

    @classmethod
    def of(cls, error: UpstreamError) -> "Failed":
        """The record whose reading ended in *error*."""
        # Not the error itself, whose traceback keeps frames alive; nor its own class, whose
        # constructor may need more than a sentence.
        return cls(next(kind for kind in _KINDS if isinstance(error, kind)), error.detail)

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed, so that an older answer is preferred (stale-if-error)."""
        return not issubclass(self.kind, ResolverFailed | AnswerTooLarge)

    def error(self) -> UpstreamError:
        """The error, to be raised."""
        return self.kind(self.reason)


TOO_LARGE: Final = Failed(
    AnswerTooLarge, "The name's resolver gave more than is read of one record."
)


@dataclass(frozen=True, slots=True)
class Records:
    """What one name service holds for one name; at least one record is known.

    *wallet* is the text of an address. *wallet_is_owner* says that no address record was set and
    the wallet that owns the name stands in for it. *more* has the records that were asked for
    beside these two, by their keys; then *resolver* is the contract that gave them, where one did.
    *primary* is the primary name, of an address and not of a name (ENSIP-19)."""

    wallet: str | Failed | None = None
    content: ContentRecord | Failed | None = None
    wallet_is_owner: bool = False
    resolver: str | None = None
    more: tuple[tuple[str, "str | Failed | None"], ...] = ()
    primary: str | None = None

    @classmethod
    def of(
        cls,
        wallet: str | Failed | None,
        content: ContentRecord | Failed | None,
        *,
        by_owner: bool = False,
        beside: "MoreRecords | None" = None,
    ) -> "Records":
        """The records, if at least one is known; the others may be absent or failed.

        Raises NameNotFound if all are absent, and the error of a failed record otherwise."""
        resolver, more = (None, ()) if beside is None else (beside.resolver, beside.values)
        records = cls(wallet, content, by_owner, resolver, more)
        if records.known_wallet is not None or records.known_content is not None:
            return records
        if any(isinstance(value, str) for _, value in more):
            return records
        failures = list(records.all_failures.values())
        if not failures:
            raise NameNotFound("The name has none of these records.")
        # Of two errors, the one after which a retry is most likely to succeed.
        raise min(failures, key=_hopelessness).error()

    @staticmethod
    @lru_cache(maxsize=10_000)
    def content_alone(content: ContentRecord | Failed) -> "Records":
        """The records of a name with this content and no wallet. Always the same object for one
        content, since rendered answers are cached by identity."""
        return Records(None, content)

    @property
    def known_wallet(self) -> str | None:
        """The wallet, None where it is absent or failed."""
        return None if isinstance(self.wallet, Failed) else self.wallet

    @property
    def known_content(self) -> ContentRecord | None:
        """The content, None where it is absent or failed."""
        return None if isinstance(self.content, Failed) else self.content

    @property
    def failures(self) -> dict[str, Failed]:
        """The records that failed, by name (`wallet`, `content`); empty for a whole answer."""
        both = {"wallet": self.wallet, "content": self.content}
        return {name: record for name, record in both.items() if isinstance(record, Failed)}

    @property
    def all_failures(self) -> dict[str, Failed]:
        """As failures, with those of *more* by their keys."""
        more = {key: value for key, value in self.more if isinstance(value, Failed)}
        return self.failures | more

    @property
    def is_whole(self) -> bool:
        """True when nothing failed."""
        if isinstance(self.wallet, Failed) or isinstance(self.content, Failed):
            return False
        return not (self.more and any(isinstance(value, Failed) for _, value in self.more))


@dataclass(frozen=True, slots=True)
class MoreRecords:
    """What was asked for beside wallet and content: *values* by key, and who gave them."""

    values: tuple[tuple[str, str | Failed | None], ...] = ()
    resolver: str | None = None


_KINDS: Final[tuple[type[UpstreamError], ...]] = (
    ResolverFailed,
    AnswerTooLarge,
    InvalidUpstreamResponse,
    UpstreamTimeout,
    UpstreamUnavailable,
    UpstreamError,
)


def _hopelessness(failed: Failed) -> int:
    if issubclass(failed.kind, UpstreamUnavailable | UpstreamTimeout):
        return 0
    return 1 if failed.is_temporary else 2


@dataclass(frozen=True, slots=True)
class Resolved:
    """Records and the time (UTC) at which a name service gave them."""

    records: Records
    at: datetime


@dataclass(frozen=True, slots=True)
class FreshRecords:
    """What is known of a name now: its records, None where there is no such name.

    *fresh_for* is how much longer it is fresh; None: it is stale, or not cached at all."""

    records: Records | None
    fresh_for: timedelta | None


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """The content path that an IPNS name had at the time *at* (UTC).

    A key's entry has the signed *record* (bytes) that proves it; a DNSLink entry has a *ttl*."""

    path: str
    at: datetime
    record: bytes | None = None
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old a cached answer is, and how long ago (or, negative, until) its freshness ended."""

    age: timedelta
    overdue: timedelta


class Resolution(msgspec.Struct, frozen=True):
    """The answer to one resolve request; a Struct, as one is made for each.

    *ipns_cache* is where IPNS content led when it was last verified, None if it never was.
    *stale* is set when the answer has outlived its freshness and serves all the same, because a
    new one is on its way or cannot be had; and when a refresh was demanded and not had."""

    records: Records
    ipns_cache: IpfsPath | None = None
    stale: Staleness | None = None

    def but_stale(self, stale: Staleness) -> "Resolution":
        """The same answer, marked as *stale*."""
        return Resolution(self.records, self.ipns_cache, stale)
