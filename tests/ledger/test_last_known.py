"""Last known answers: what was stored is loaded, in this process or in another."""

from datetime import timedelta
from pathlib import Path

import pytest

from content_gateway.ipns.record import verify
from content_gateway.ledger.last_known import StoreLimits
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import (
    ContentRecord,
    IpfsContent,
    IpnsContent,
    OtherContent,
    Records,
    Resolved,
    StoredEntry,
)
from content_gateway.model.wallet import ETHEREUM, CoinType
from tests.clock import NOW, Clock
from tests.ipns.signing import RsaSigner, Signer, data
from tests.ledger.answers import ALICE, AT, BOB, WALLET, opened, wait_for_rows

BITCOIN = CoinType(0)
SIGNER = Signer()
CONTENTS: list[ContentRecord | None] = [
    None,
    IpfsContent(Cid.parse("bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4")),
    IpfsContent(Cid.parse("QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR")),
    IpfsContent(Cid.from_bytes(bytes.fromhex("0155000568656c6c6f"))),
    IpnsContent(IpnsName.parse("app.uniswap.org")),
    IpnsContent(SIGNER.name),
    IpnsContent(RsaSigner().name),
    OtherContent("swarm", "d1" * 32),
    OtherContent("onion3", "a" * 56),
    OtherContent("unreadable", "00ff"),
    OtherContent("unreadable", ""),
    OtherContent("odd", "//with:colons://and slashes"),
]


@pytest.mark.parametrize("content", CONTENTS, ids=[type(content).__name__ for content in CONTENTS])
@pytest.mark.parametrize("wallet", [None, WALLET])
@pytest.mark.parametrize("is_owner", [False, True])
async def test_every_answer_comes_back_as_it_was(
    tmp_path: Path, content: ContentRecord | None, wallet: str | None, is_owner: bool
) -> None:
    """Any content, any wallet, and whether the wallet is the owner's; before and after writing."""
    resolved = Resolved(Records(wallet, content, is_owner), AT)
    async with opened(tmp_path) as known:
        known.store("site.eth", ETHEREUM, resolved)
        assert await known.load("site.eth", ETHEREUM) == resolved
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == resolved


async def test_each_coin_has_its_own_answer(tmp_path: Path) -> None:
    """The largest coin type included."""
    coins = [ETHEREUM, BITCOIN, CoinType(0xFFFFFFFF)]
    async with opened(tmp_path) as known:
        for coin in coins:
            known.store("site.eth", coin, Resolved(Records(f"address of {coin}"), AT))
    async with opened(tmp_path) as known:
        for coin in coins:
            assert await known.load("site.eth", coin) == Resolved(Records(f"address of {coin}"), AT)
        assert await known.load("site.eth", CoinType(2)) is None
        known.store("site.eth", BITCOIN, None)
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", BITCOIN) is None
        assert await known.load("site.eth", ETHEREUM) is not None


@pytest.mark.parametrize("name", ["nobody.eth", "", "' OR 1=1 --", "\U0001f984.eth", "a\0b.eth"])
async def test_what_was_never_stored_is_not_known(tmp_path: Path, name: str) -> None:
    """Whatever the name looks like; and once stored it is known under that name alone."""
    async with opened(tmp_path) as known:
        known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
        assert await known.load(name, ETHEREUM) is None
        known.store(name, ETHEREUM, Resolved(BOB, AT))
    async with opened(tmp_path) as known:
        assert await known.load(name, ETHEREUM) == Resolved(BOB, AT)
        assert await known.load("site.eth", ETHEREUM) == Resolved(ALICE, AT)


async def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    """At once, and for good, whether it was written already or not."""
    async with opened(tmp_path) as known:
        known.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
        known.store("site.eth", ETHEREUM, None)
        known.store("other.eth", ETHEREUM, Resolved(ALICE, AT))
        known.store_ipns(SIGNER.name, StoredEntry("/ipfs/x", AT))
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) is None
        known.store("other.eth", ETHEREUM, None)
        known.store_ipns(SIGNER.name, None)
        assert await known.load("other.eth", ETHEREUM) is None
        assert await known.load_ipns(SIGNER.name) is None
    async with opened(tmp_path) as known:
        assert await known.load("other.eth", ETHEREUM) is None
        assert await known.load_ipns(SIGNER.name) is None


async def test_it_is_written_while_the_service_runs(tmp_path: Path) -> None:
    """Not only at the end: a crash loses a second's worth."""
    async with opened(tmp_path) as known:
        for number in range(1200):
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
        await wait_for_rows(tmp_path, 1200)
        known.store("late.eth", ETHEREUM, Resolved(BOB, AT))
        await wait_for_rows(tmp_path, 1201)


async def test_whatever_waits_is_written_at_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path, StoreLimits(flush_seconds=3600)) as known:
        for number in range(1700):
            known.store(f"{number}.eth", ETHEREUM, Resolved(ALICE, AT))
            known.store_ipns(IpnsName.parse(f"{number}.example"), StoredEntry("/ipfs/x", AT))
    await wait_for_rows(tmp_path, 1700)
    await wait_for_rows(tmp_path, 1700, table="ipns")


# -- which of two answers is the last -------------------------------------------------------


async def test_a_later_answer_replaces_an_earlier_one(tmp_path: Path) -> None:
    """In whole: no field of the old one stays."""
    async with opened(tmp_path) as known:
        known.store("site.eth", ETHEREUM, Resolved(Records(WALLET, CONTENTS[1], True), AT))
        await wait_for_rows(tmp_path, 1)
        later = Resolved(Records(None, CONTENTS[4]), AT + timedelta(seconds=1))
        known.store("site.eth", ETHEREUM, later)
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == later


async def test_a_process_that_writes_late_does_not_undo_what_another_stored(
    tmp_path: Path,
) -> None:
    newer, older = Resolved(BOB, AT + timedelta(seconds=2)), Resolved(ALICE, AT)
    newer_link = StoredEntry("/ipfs/new", AT + timedelta(seconds=2))
    async with opened(tmp_path) as slow:
        async with opened(tmp_path) as quick:
            quick.store("site.eth", ETHEREUM, newer)
            quick.store_ipns(SIGNER.name, newer_link)
        slow.store("site.eth", ETHEREUM, older)
        slow.store_ipns(SIGNER.name, StoredEntry("/ipfs/old", AT))
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == newer
        assert await known.load_ipns(SIGNER.name) == newer_link


async def test_a_late_absence_does_not_undo_what_another_stored(tmp_path: Path) -> None:
    """'It is gone' has a time too: a name that was there again later stays."""
    clock = Clock()
    newer = Resolved(BOB, clock.today() + timedelta(seconds=2))
    bounds = StoreLimits(flush_seconds=3600)
    async with opened(tmp_path, bounds, today=clock.today) as slow:
        slow.store("site.eth", ETHEREUM, None)
        slow.store_ipns(SIGNER.name, None)
        clock.pass_(3)
        async with opened(tmp_path, today=clock.today) as quick:
            quick.store("site.eth", ETHEREUM, newer)
            quick.store_ipns(SIGNER.name, StoredEntry("/ipfs/new", newer.at))
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == newer
        assert await known.load_ipns(SIGNER.name) is not None


async def test_a_clock_that_was_wrong_does_not_bar_the_truth(tmp_path: Path) -> None:
    """An answer dated years ahead gives way to one of today."""
    ahead = AT + timedelta(days=3000)
    async with opened(tmp_path, today=lambda: ahead) as known:
        known.store("site.eth", ETHEREUM, Resolved(ALICE, ahead))
        known.store("gone.eth", ETHEREUM, Resolved(ALICE, ahead))
        known.store_ipns(SIGNER.name, StoredEntry("/ipfs/old", ahead))
    async with opened(tmp_path, today=lambda: AT) as known:
        known.store("site.eth", ETHEREUM, Resolved(BOB, AT))
        known.store("gone.eth", ETHEREUM, None)
        known.store_ipns(SIGNER.name, StoredEntry("/ipfs/new", AT))
    async with opened(tmp_path) as known:
        assert await known.load("site.eth", ETHEREUM) == Resolved(BOB, AT)
        assert await known.load("gone.eth", ETHEREUM) is None
        assert await known.load_ipns(SIGNER.name) == StoredEntry("/ipfs/new", AT)


# -- links ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        StoredEntry("/ipfs/bafkqaaa", AT),
        StoredEntry("/ipns/app.uniswap.org", AT, ttl=timedelta(0)),
        StoredEntry("/ipfs/bafkqaaa/a b/\u00e4\0", AT, ttl=timedelta(milliseconds=1)),
        StoredEntry("", AT, ttl=timedelta(seconds=2**32 - 1)),
        StoredEntry("/ipfs/bafkqaaa", AT, record=b""),
        StoredEntry("/ipfs/bafkqaaa", AT, record=bytes(range(256)) * 40),
    ],
    ids=str,
)
async def test_every_link_comes_back_as_it_was(tmp_path: Path, link: StoredEntry) -> None:
    """Of a key with its record, of a domain with its TTL."""
    async with opened(tmp_path) as known:
        known.store_ipns(SIGNER.name, link)
        assert await known.load_ipns(SIGNER.name) == link
    async with opened(tmp_path) as known:
        assert await known.load_ipns(SIGNER.name) == link
        assert await known.load_ipns(IpnsName.parse("app.uniswap.org")) is None


@pytest.mark.parametrize("sequence", [0, 2**31, 2**63 - 1])
async def test_the_largest_sequences_are_kept(tmp_path: Path, sequence: int) -> None:
    """The number stays inside the signed record, and needs no column."""
    record = SIGNER.record(data(Sequence=sequence, TTL=sequence))
    async with opened(tmp_path) as known:
        known.store_ipns(SIGNER.name, StoredEntry("/ipfs/x", AT, record))
    async with opened(tmp_path) as known:
        link = await known.load_ipns(SIGNER.name)
    assert link is not None
    assert link.record is not None
    assert verify(SIGNER.name, link.record, NOW).sequence == sequence


# -- other processes ------------------------------------------------------------------------


async def test_another_process_that_writes_is_heard(tmp_path: Path) -> None:
    """What is not in memory is read from the database as it is now."""
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        assert await here.load("site.eth", ETHEREUM) is None
        there.store("site.eth", ETHEREUM, Resolved(ALICE, AT))
        await wait_for_rows(tmp_path, 1)
        assert await here.load("site.eth", ETHEREUM) == Resolved(ALICE, AT)
