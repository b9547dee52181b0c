"""API keys: minted, remembered for a second, and stopped when their operator says so."""

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.api_keys import IssuedKeys, OpenKeys, hashed, is_well_formed, mint
from content_gateway.errors import KeyRefused, StorageUnavailable
from content_gateway.ledger.sqlite.api_keys import SqliteKeys
from content_gateway.ledger.sqlite.database import LedgerDatabase
from tests.revoked import revoke

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Clock:
    """Both clocks of the keys, which only move when told to."""

    def __init__(self) -> None:
        self.passed = timedelta()
        self.set_by = timedelta()

    def __call__(self) -> float:
        return 1_000.0 + self.passed.total_seconds()

    def today(self) -> datetime:
        return START + self.passed + self.set_by

    def pass_(self, **time: float) -> None:
        self.passed += timedelta(**time)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[LedgerDatabase]:
    async with LedgerDatabase(path) as database:
        yield database


@pytest.fixture
def keys(database: LedgerDatabase, clock: Clock) -> IssuedKeys:
    return IssuedKeys(SqliteKeys(database), clock=clock, today=clock.today)


async def issued(keys: IssuedKeys, name: str = "app", *, lifetime: timedelta | None = None) -> str:
    """A new key with both scopes."""
    created = await keys.create(name, ["resolve", "pin"], lifetime)
    assert created is not None
    return created[0]


async def refusal(keys: IssuedKeys | OpenKeys, key: str) -> str:
    """Why *key* is refused."""
    with pytest.raises(KeyRefused) as refused:
        await keys.identify(key)
    return refused.value.detail


def test_a_key_has_its_form() -> None:
    """`cg_`, 32 random letters and 6 of a checksum; no two keys are alike."""
    minted = {mint() for _ in range(200)}
    assert len(minted) == 200
    for key in minted:
        assert key.startswith("cg_")
        assert len(key) == 3 + 32 + 6
        assert set(key[3:]) <= set(LETTERS)
        assert is_well_formed(key)


@given(st.integers(0, 40), st.sampled_from(LETTERS + "_-. é"))
@settings(max_examples=100, deadline=None)
def test_a_typo_is_noticed(place: int, letter: str) -> None:
    """Any one wrong letter breaks the checksum, so typing errors never reach the database."""
    key = mint()
    mistyped = key[:place] + letter + key[place + 1 :]
    assert is_well_formed(mistyped) is (mistyped == key)


def test_swapped_letters_are_noticed() -> None:
    """The other slip of fingers: two neighbours in the wrong order."""
    key = mint()
    for place in range(len(key) - 1):
        swapped = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
        assert is_well_formed(swapped) is (swapped == key)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_well_formed_or_not(text: str) -> None:
    """Whatever arrives in the header can be judged."""
    assert not is_well_formed(text)
    assert not is_well_formed("cg_" + text)


async def test_a_created_key_lets_its_holder_in(keys: IssuedKeys) -> None:
    """The requestor has an id of its own, which is not the key, and the scopes asked for."""
    created = await keys.create("app", ["resolve"], None)
    assert created is not None
    key, record = created
    requestor = await keys.identify(key)
    assert requestor.id == record.id
    assert requestor.scopes == {"resolve"}
    assert key not in repr(requestor)
    assert record.prefix == key[:8]
    assert key not in repr(record)


async def test_only_the_hash_is_stored(keys: IssuedKeys, path: Path) -> None:
    """Whoever steals the database holds no key: its letters are nowhere in the files."""
    key = await issued(keys)
    rotated = await keys.rotate("app")
    assert rotated is not None
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert hashlib.sha256(rotated.encode()).digest() in stored
    for secret in (key, rotated):
        assert secret[8:].encode() not in stored
        assert secret[8:20].encode() not in stored


async def test_keys_survive_a_restart(path: Path) -> None:
    """A key of yesterday's process works today, with its id, scopes and times."""
    async with LedgerDatabase(path) as database:
        keys = IssuedKeys(SqliteKeys(database))
        created = await keys.create("app", ["pin", "resolve"], timedelta(days=90))
        assert created is not None
    key, record = created
    async with LedgerDatabase(path) as database:
        keys = IssuedKeys(SqliteKeys(database))
        assert (await keys.identify(key)).id == record.id
        (kept,) = await keys.all()
    assert (kept.name, kept.prefix) == ("app", key[:8])
    assert kept.scopes == {"pin", "resolve"}
    assert kept.expires_at is not None
    assert abs(kept.expires_at - kept.created_at - timedelta(days=90)) < timedelta(seconds=1)
    assert kept.revoked_at is None


async def test_a_name_is_taken_once(keys: IssuedKeys, clock: Clock) -> None:
    """Names tell keys apart, so a second key of one name is not made; all are listed in order."""
    first = await issued(keys, "one")
    assert await keys.create("one", ["pin"], None) is None
    clock.pass_(seconds=5)
    await issued(keys, "two")
    assert [record.name for record in await keys.all()] == ["one", "two"]
    assert (await keys.identify(first)).scopes == {"resolve", "pin"}


async def test_each_refusal_has_its_reason(keys: IssuedKeys, clock: Clock) -> None:
    """For the log only: malformed, unknown, revoked, expired."""
    gone, short = await issued(keys, "gone"), await issued(keys, "s", lifetime=timedelta(hours=1))
    assert await revoke(keys, "gone")
    assert await refusal(keys, "cg_garbage") == "malformed"
    assert await refusal(keys, "") == "malformed"
    assert await refusal(keys, "x" * 300) == "malformed"
    assert await refusal(keys, "clé") == "malformed"
    assert await refusal(keys, mint()) == "unknown"
    assert await refusal(keys, gone) == "revoked"
    clock.pass_(hours=1)
    assert await refusal(keys, short) == "expired"


async def test_a_key_that_has_expired_stays_so(keys: IssuedKeys, clock: Clock) -> None:
    """Whoever sets the clock back revives no key, used since or not."""
    used = await issued(keys, "used", lifetime=timedelta(days=1))
    unused = await issued(keys, "unused", lifetime=timedelta(days=1))
    living = await issued(keys, "living", lifetime=timedelta(days=10))
    clock.pass_(days=1)
    assert await refusal(keys, used) == "expired"
    clock.pass_(hours=1)
    clock.set_by = timedelta(days=-2)
    assert await refusal(keys, used) == await refusal(keys, unused) == "expired"
    assert await keys.rotate("used") is None
    assert await keys.identify(living)
    clock.pass_(days=9)
    assert await refusal(keys, living) == "expired"


async def test_a_key_expires_at_its_moment(keys: IssuedKeys, clock: Clock) -> None:
    """Until its expiry a key works; from then on it does not."""
    key = await issued(keys, lifetime=timedelta(days=90))
    clock.pass_(days=90, milliseconds=-1)
    await keys.identify(key)
    clock.pass_(seconds=1)
    assert await refusal(keys, key) == "expired"


async def test_a_revoked_key_works_for_a_second_at_most(keys: IssuedKeys, clock: Clock) -> None:
    """Verified keys are remembered, but not for longer than that."""
    key = await issued(keys)
    await keys.identify(key)
    assert await revoke(keys, "app")
    clock.pass_(seconds=0.9)
    await keys.identify(key)  # being used does not prolong the memory
    clock.pass_(seconds=0.1)
    assert await refusal(keys, key) == "revoked"


async def test_revoking_is_for_good(keys: IssuedKeys) -> None:
    """A second revocation, or one of a key that is not there, says that nothing was done."""
    await issued(keys)
    assert await revoke(keys, "app")
    assert not await revoke(keys, "app")
    assert not await revoke(keys, "nobody")
    (record,) = await keys.all()
    assert record.revoked_at is not None


async def test_rotation_keeps_the_requestor(keys: IssuedKeys, clock: Clock) -> None:
    """The new key works at once, for the same requestor; the old one stops within a second."""
    old = await issued(keys)
    before = await keys.identify(old)
    new = await keys.rotate("app")
    assert new is not None
    assert new != old
    assert await keys.identify(new) == before
    clock.pass_(seconds=1)
    assert await refusal(keys, old) == "unknown"
    assert await keys.identify(new) == before
    (record,) = await keys.all()
    assert record.prefix == new[:8]


async def test_in_its_grace_the_old_secret_names_the_same_requestor(
    keys: IssuedKeys, clock: Clock
) -> None:
    """Both secrets let in until the grace is over; then the new one alone does."""
    old = await issued(keys)
    before = await keys.identify(old)
    new = await keys.rotate("app", timedelta(hours=24))
    assert new is not None
    clock.pass_(hours=23, minutes=59)
    assert await keys.identify(old) == await keys.identify(new) == before
    assert await keys.describe(old) == await keys.describe(new)
    clock.pass_(minutes=1)
    assert await refusal(keys, old) == "replaced"
    assert await keys.identify(new) == before


async def test_a_second_rotation_ends_the_older_secret(keys: IssuedKeys, clock: Clock) -> None:
    """One old secret at a time; without a grace no old one is left."""
    first = await issued(keys)
    second = await keys.rotate("app", timedelta(hours=24))
    third = await keys.rotate("app", timedelta(hours=24))
    assert second is not None
    assert third is not None
    assert await refusal(keys, first) == "unknown"
    assert await keys.identify(second) == await keys.identify(third)
    fourth = await keys.rotate("app")
    clock.pass_(seconds=1)
    assert fourth is not None
    assert await refusal(keys, second) == await refusal(keys, third) == "unknown"
    assert await keys.identify(fourth)


async def test_revocation_ends_both_secrets(keys: IssuedKeys, clock: Clock) -> None:
    old = await issued(keys)
    new = await keys.rotate("app", timedelta(hours=24))
    assert new is not None
    await keys.identify(old)
    assert await revoke(keys, "app")
    clock.pass_(seconds=1)
    assert await refusal(keys, old) == await refusal(keys, new) == "revoked"


async def test_no_clock_set_back_prolongs_a_grace(keys: IssuedKeys, clock: Clock) -> None:
    """Whoever sets the clock back revives no old secret."""
    old = await issued(keys)
    assert await keys.rotate("app", timedelta(hours=1))
    clock.pass_(hours=1)
    assert await refusal(keys, old) == "replaced"
    clock.set_by = timedelta(days=-2)
    assert await refusal(keys, old) == "replaced"


async def test_a_name_is_free_again_after_revocation(keys: IssuedKeys, clock: Clock) -> None:
    """Another key gets the name, is another requestor, and is the one that the name means; once
    none of them lives, the name means the one that was revoked last."""
    ids = []
    for _ in range(3):
        created = await keys.create("app", ["pin"], None)
        assert created is not None
        ids.append(created[1].id)
        found = await keys.named("app")
        assert found is not None
        assert found.id == ids[-1]
        clock.pass_(hours=1)
        assert await revoke(keys, "app")
        clock.pass_(hours=1)
    assert len(set(ids)) == 3
    latest = await keys.named("app")
    assert latest is not None
    assert latest.id == ids[-1]
    first = await keys.with_id(ids[0])
    assert first is not None
    assert first.revoked_at is not None
    clock.set_by = timedelta(days=-10)
    created = await keys.create("app", ["pin"], None)
    assert created is not None
    assert await keys.named("app") == created[1]
    assert await keys.named("nobody") is None
    assert await keys.with_id("app") is None


async def test_an_expired_key_keeps_its_name(keys: IssuedKeys, clock: Clock) -> None:
    """Until it is revoked: nobody gets its name by waiting."""
    await issued(keys, lifetime=timedelta(hours=1))
    clock.pass_(hours=2)
    assert await keys.create("app", ["pin"], None) is None
    assert await revoke(keys, "app")
    assert await keys.create("app", ["pin"], None) is not None


async def test_only_living_keys_are_rotated(keys: IssuedKeys) -> None:
    """A revoked key is not brought back to life, and an unknown name gets none."""
    await issued(keys)
    await revoke(keys, "app")
    assert await keys.rotate("app") is None
    assert await keys.rotate("nobody") is None


async def test_another_process_is_heard(keys: IssuedKeys, path: Path, clock: Clock) -> None:
    """What `content-gateway keys` does beside a running service holds there within a second."""
    async with LedgerDatabase(path) as beside:
        others = IssuedKeys(SqliteKeys(beside), clock=clock, today=clock.today)
        key = await issued(others)
        assert (await keys.identify(key)).scopes == {"resolve", "pin"}
        assert await revoke(others, "app")
    clock.pass_(seconds=1)
    assert await refusal(keys, key) == "revoked"


async def test_when_the_store_is_down_nobody_new_is_let_in(path: Path, clock: Clock) -> None:
    """That is our fault and not the key's: 'unavailable', never 'unknown'. Known keys go on."""
    async with LedgerDatabase(path) as database:
        keys = IssuedKeys(SqliteKeys(database), clock=clock, today=clock.today)
        key = await issued(keys)
        requestor = await keys.identify(key)
    assert await keys.identify(key) == requestor
    with pytest.raises(StorageUnavailable):
        await keys.identify(mint())
    clock.pass_(seconds=1)
    with pytest.raises(StorageUnavailable):
        await keys.identify(key)
    assert await refusal(keys, "cg_garbage") == "malformed"


async def test_forged_keys_are_never_accepted(keys: IssuedKeys) -> None:
    """Well-formed keys that nobody issued are all unknown."""
    await issued(keys)
    for _ in range(5_000):
        assert await refusal(keys, mint()) == "unknown"


@pytest.mark.parametrize("key", ["a", " ", "my key", "~" * 256, '!"#$%&()*+,-./:;<=>?@[]^_`{|}'])
def test_an_open_key_may_be_any_printable_text(key: str) -> None:
    """In `open` mode each key of 1 to 256 printable characters is a requestor with all rights."""
    requestor = OpenKeys().remembered(key)
    assert requestor.scopes == {"resolve", "pin"}
    assert requestor == OpenKeys().remembered(key)
    assert requestor.id == f"open_{hashlib.sha256(key.encode()).hexdigest()}"


@pytest.mark.parametrize(
    "key", ["", "a" * 257, "a" * 300, "clé", "ключ", "a\tb", "a\n", "\x00", "\x7f", "a\x80", "\xa0"]
)
async def test_an_open_key_is_printable_and_bounded(key: str) -> None:
    """Empty, over-long, control and foreign characters are refused there, too."""
    assert await refusal(OpenKeys(), key) == "malformed"


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_is_an_open_key_or_refused(key: str) -> None:
    """Different keys are different requestors, and the id tells nothing of the key."""
    try:
        requestor = OpenKeys().remembered(key)
    except KeyRefused:
        return
    assert requestor.id != OpenKeys().remembered("x" if key != "x" else "y").id
    assert hashed(key).hex() in requestor.id
