"""API keys: issue, verify, rotate, revoke; and the requestor behind a key.

Knows the form of our keys (prefix, 32 base62 letters, CRC32) and that only their SHA-256 is
kept: 190 random bits need no slow hash. Where hashes are kept is the KeyStore's business, and
how a key arrives and what a refusal looks like is the API's."""

import hashlib
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from content_gateway.errors import KeyRefused
from content_gateway.model.allowance import UNLIMITED, Allowance

SCOPES: Final = ("resolve", "pin")
PREFIX: Final = "cg_"
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LETTERS: Final = 32
_CHECK_LETTERS: Final = 6
_KEY_LENGTH: Final = len(PREFIX) + _RANDOM_LETTERS + _CHECK_LETTERS
_SHOWN_LETTERS: Final = 8
MAX_OPEN_KEY: Final = 256
_ALL_SCOPES: Final = frozenset(SCOPES)


class Requestor(msgspec.Struct, frozen=True):
    """Who asks: *id* is what pins are kept under, and survives the rotation of a key; *name* is
    what operators know the key by, *allowance* what it may use.

    A Struct, as it is made for a request: six times cheaper to make than a frozen dataclass."""

    id: str
    scopes: frozenset[str]
    name: str = ""
    allowance: Allowance = UNLIMITED


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An issued key as it is kept; *prefix* is all that is left of its letters.

    *type* names a table of the settings with limits, *limits* are the key's own, by name.
    *replaced_hash* is that of the secret before the last rotation, which lets in until
    *replaced_until*. *used_at* is the minute of the last use that was written, None for none."""

    id: str
    name: str
    prefix: str
    secret_hash: bytes
    scopes: frozenset[str]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    type: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    replaced_hash: bytes | None = None
    replaced_until: datetime | None = None
    used_at: datetime | None = None

    def refusal(self, now: datetime, secret_hash: bytes | None = None) -> str | None:
        """Why the key, or that of its secrets, lets nobody in at *now*; None if it does let in."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        if secret_hash is not None and secret_hash == self.replaced_hash:
            until = self.replaced_until
            return "replaced" if until is None or until <= now else None
        return None


class KeyStore(Protocol):
    """Where issued keys are kept. Every method raises StorageUnavailable."""

    async def find(self, secret_hash: bytes) -> KeyRecord | None:
        """The key with that hash, or that had it before its last rotation."""

    async def all(self) -> Sequence[KeyRecord]:
        """Every key, oldest first."""

    async def insert(self, record: KeyRecord) -> bool:
        """Keep a new key; False if a key that is not revoked has the name."""

    async def replace_secret(
        self, name: str, secret_hash: bytes, prefix: str, at: datetime, until: datetime | None
    ) -> bool:
        """Give a key that lets in at *at* a new secret; False if there is no such key.

        The old one goes on *until* then, and the one before ends; None: the old one ends too."""

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke the key with that id; False if there is none, or it is revoked already."""


class KeyActivity(Protocol):
    """Who wants to know what keys are used for. Called often: both only take note."""

    def used(self, requestor: str) -> None:
        """The key with that id was used just now."""

    def refused(self, requestor: str, code: str) -> None:
        """The key with that id was refused, for the reason *code*."""


class _NobodyAsks:
    def used(self, requestor: str) -> None:
        pass

    def refused(self, requestor: str, code: str) -> None:
        pass


class IssuedKeys:
    """The keys an operator has issued. A verified key is remembered for a second."""

    REMEMBERED_SECONDS = 1.0
    MAX_REMEMBERED = 10_000

    def __init__(
        self,
        store: KeyStore,
        *,
        allowance_of: Callable[[KeyRecord], Allowance] = lambda _: UNLIMITED,
        activity: KeyActivity | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._allowance_of = allowance_of
        self._activity = activity or _NobodyAsks()
        self._clock = clock
        self._today = today
        self._remembered: dict[bytes, tuple[Requestor, float]] = {}
        self._latest = (today(), clock())

    def remembered(self, key: str) -> Requestor | None:
        """The requestor behind *key*, None if it has to be identified. For every request: no
        coroutine is made for most of them."""
        remembered = self._remembered.get(hashed(key))
        if remembered is not None and self._clock() < remembered[1]:
            return remembered[0]
        return None

    async def identify(self, key: str) -> Requestor:
        """The requestor behind *key*. Raises KeyRefused, whose reason is for the log."""
        if (known := self.remembered(key)) is not None:
            return known
        if not is_well_formed(key):
            raise KeyRefused("malformed")
        secret_hash, now = hashed(key), self._clock()
        record = await self._store.find(secret_hash)
        if record is None:
            raise KeyRefused("unknown")
        if refusal := record.refusal(self._now(), secret_hash):
            self._activity.refused(record.id, f"key-{refusal}")
            raise KeyRefused(refusal)
        self._activity.used(record.id)  # once a second is enough, as to the minute it is known
        requestor = Requestor(record.id, record.scopes, record.name, self._allowance_of(record))
        if len(self._remembered) >= self.MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[secret_hash] = (requestor, now + self.REMEMBERED_SECONDS)
        return requestor

    async def create(
        self,
        name: str,
        scopes: Iterable[str],
        lifetime: timedelta | None,
        *,
        type: str | None = None,  # noqa: A002 - the field's own name
        limits: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[str, KeyRecord] | None:
        """A new key, shown this once, and its record; None if a key that is not revoked has the
        name."""
        key, now = mint(), self._today()
        record = KeyRecord(
            id=f"key_{secrets.token_hex(8)}",
            name=name,
            prefix=_shown(key),
            secret_hash=hashed(key),
            scopes=frozenset(scopes),
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
            type=type,
            limits=limits,
        )
        return (key, record) if await self._store.insert(record) else None

    async def rotate(self, name: str, grace: timedelta | None = None) -> str | None:
        """A new key in place of the old one, which goes on for *grace*; the pins stay.

        The one before, which may be in its own grace, ends now. None if there is no such key, or it
        is revoked or expired."""
        key, now = mint(), self._now()
        until = None if grace is None else now + grace
        replaced = await self._store.replace_secret(name, hashed(key), _shown(key), now, until)
        return key if replaced else None

    async def revoke(self, key_id: str) -> bool:
        """Stop the key with that id for good; its pins stay. False if there is none, or it is
        revoked. No pin of it is kept from now on, even one that is being added."""
        return await self._store.revoke(key_id, self._today())

    def _now(self) -> datetime:
        """Now, but never earlier than before: an expired key stays so if the clock is set back."""
        (latest, at), ticks = self._latest, self._clock()
        now = max(self._today(), latest + timedelta(seconds=max(0.0, ticks - at)))
        self._latest = (now, ticks)
        return now

    async def describe(self, key: str) -> KeyRecord | None:
        """What is stored of *key*; raises StorageUnavailable."""
        return await self._store.find(hashed(key))

    async def all(self) -> Sequence[KeyRecord]:
        """Every key that was ever issued, oldest first."""
        return await self._store.all()

    async def named(self, name: str) -> KeyRecord | None:
        """The key of that name that is not revoked, else the one that was revoked last."""
        found = [record for record in await self.all() if record.name == name]
        return max(found, key=_by_life, default=None)

    async def with_id(self, key_id: str) -> KeyRecord | None:
        """The key with that id; None if there is none."""
        return next((record for record in await self.all() if record.id == key_id), None)


class OpenKeys:
    """Any printable key of 1 to 256 characters names a requestor of its own; for loopback only.

    Such a key is a name and no secret: the latest ones are remembered as they are."""

    def __init__(self, allowance: Allowance = UNLIMITED) -> None:
        self._requestor = lru_cache(maxsize=10_000)(partial(_open_requestor, allowance))

    def remembered(self, key: str) -> Requestor:
        """The requestor named by *key*; raises KeyRefused."""
        return self._requestor(key)

    async def identify(self, key: str) -> Requestor:
        """As `remembered`: there is nothing to read."""
        return self._requestor(key)

    async def describe(self, _: str) -> None:
        """None: nothing is stored of such a key."""


def _open_requestor(allowance: Allowance, key: str) -> Requestor:
    if not 1 <= len(key) <= MAX_OPEN_KEY or not (key.isascii() and key.isprintable()):
        raise KeyRefused("malformed")
    digest = hashed(key).hex()
    return Requestor(f"open_{digest}", _ALL_SCOPES, f"open-{digest[:_SHOWN_LETTERS]}", allowance)


def _by_life(record: KeyRecord) -> tuple[bool, datetime]:
    """Of several keys, the greatest is the one that lives, or lived longest."""
    return record.revoked_at is None, record.revoked_at or record.created_at


def mint() -> str:
    """A new random key with its checksum."""
    body = PREFIX + "".join(secrets.choice(_BASE62) for _ in range(_RANDOM_LETTERS))
    return body + _check_letters(body)


def is_well_formed(key: str) -> bool:
    """Whether *key* has the form and checksum of a key we minted: refuses typos cheaply."""
    body = key[:-_CHECK_LETTERS]
    return (
        len(key) == _KEY_LENGTH
        and key.isascii()
        and key.startswith(PREFIX)
        and key[-_CHECK_LETTERS:] == _check_letters(body)
    )


def hashed(key: str) -> bytes:
    """The SHA-256 of *key*: all that is stored of any key, and remembered of an issued one."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _check_letters(body: str) -> str:
    value, letters = zlib.crc32(body.encode()), ""
    for _ in range(_CHECK_LETTERS):
        value, digit = divmod(value, len(_BASE62))
        letters += _BASE62[digit]
    return letters


def _shown(key: str) -> str:
    return key[:_SHOWN_LETTERS]
