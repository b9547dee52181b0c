"""What every pin backend promises, whatever it is made of: one suite of tests over all of them.

Knows the PinBackend port and a Bench: a backend with a world around it that a test can change.
How each backend's world is built is left to the benches (bench_cluster.py, bench_kubo.py,
bench_embedded.py)."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

import pytest

from content_gateway.codecs.multiformats import BASE58BTC, SHA2_256
from content_gateway.errors import PinDeferred, PinFailed, UpstreamTimeout, UpstreamUnavailable
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.content_state import BackendStatus, TrackerStatus
from content_gateway.pins.backend import PinBackend
from content_gateway.pins.rules import RESEND_AFTER
from tests.waiting import eventually

MOST_SECONDS = 90.0
UNHEARD_SECONDS = 400.0  # peers of a real cluster may not hear of each other for minutes
OUTAGE = (UpstreamUnavailable, UpstreamTimeout)
_NOT_THERE = (TrackerStatus.ABSENT, TrackerStatus.FAILED)


class Bench(Protocol):
    """A backend under test and the world around it."""

    @property
    def backend(self) -> PinBackend:
        """The adapter under test."""

    @property
    def is_remote(self) -> bool:
        """Whether everything is asked of a server that can go dark.

        False: the backend holds its pins itself, and only content comes from elsewhere; then
        status checks, unpins and the pinset work while the world is dark, and are right."""

    async def provide(self, cid: Cid, data: bytes) -> None:
        """From now on somebody has the block *cid*, whose bytes are *data*; it is not pinned."""

    async def forget(self, cid: Cid) -> None:
        """From now on nobody has that block, but for a backend that has pinned it."""

    async def go_dark(self) -> None:
        """The world cannot be reached; returns once that is so."""

    async def come_back(self) -> None:
        """The world is as it was before it went dark; returns once that is so."""

    async def record_outcomes(self) -> None:
        """Let some time pass: more than a batch age where the clock is the bench's own, a moment
        where it is not. Called again and again until a test sees what it waits for."""

    async def keeps(self, cid: Cid) -> bool:
        """Whether the block *cid* would be there after a garbage collection."""


def no_progress(blocks: int, size: int) -> None:
    """Nobody watches."""


async def status_of(bench: Bench, cid: Cid) -> BackendStatus:
    return (await bench.backend.status([cid]))[cid]


async def ask_for(bench: Bench, cid: Cid, seen: BackendStatus) -> BackendStatus:
    """What is known once the backend was asked for what *seen* shows not to be there."""
    try:
        return await bench.backend.pin(cid, seen, no_progress)
    except PinFailed as failed:
        return BackendStatus(TrackerStatus.FAILED, reason=failed.detail)
    except PinDeferred as deferred:
        return BackendStatus(TrackerStatus.UNKNOWN, reason=deferred.detail)


async def pinned(bench: Bench, cid: Cid) -> None:
    """Return once the backend says that it holds *cid*, asking for it as the reconciler does."""
    await _until(bench, cid, TrackerStatus.PINNED, asking=True)


async def failed(bench: Bench, cid: Cid) -> BackendStatus:
    """Return once the backend cannot pin *cid*, asking for it as the reconciler does."""
    return await _until(bench, cid, TrackerStatus.FAILED, asking=True)


async def absent(bench: Bench, cid: Cid) -> None:
    """Return once the backend says that it does not have *cid*, and still does a while later,
    releasing it once more as the reconciler does."""
    await _until(bench, cid, TrackerStatus.ABSENT, asking=False)
    await bench.record_outcomes()
    await _until(bench, cid, TrackerStatus.ABSENT, asking=False)


async def gone(bench: Bench, cid: Cid) -> None:
    """Return once no node would keep the block *cid*: a cluster releases before its nodes do, and
    what is here is gone at once."""

    async def is_gone() -> bool:
        return not await bench.keeps(cid)

    async def is_gone_by_now() -> bool:
        await asyncio.sleep(0.5)  # each question takes locks that the unpin needs in Kubo
        return await is_gone()

    if bench.is_remote:
        await eventually(is_gone_by_now, seconds=UNHEARD_SECONDS)
    assert await is_gone()


async def _until(bench: Bench, cid: Cid, status: TrackerStatus, *, asking: bool) -> BackendStatus:
    asked_at = time.monotonic()
    end = asked_at + MOST_SECONDS
    while True:
        seen = await status_of(bench, cid)
        # Peers of a real cluster may not hear of each other for minutes.
        is_unheard = (
            seen.status is TrackerStatus.UNTRACKED and time.monotonic() > asked_at + RESEND_AFTER
        )
        if asking and seen.status is not status and (seen.status in _NOT_THERE or is_unheard):
            seen, asked_at = await ask_for(bench, cid, seen), time.monotonic()
        elif not asking and is_unheard:
            await bench.backend.unpin(cid)
            asked_at = time.monotonic()
        if seen.status is status:
            return seen
        assert time.monotonic() < end, f"{seen} and never {status}"
        await bench.record_outcomes()


async def pinset(bench: Bench) -> list[Cid]:
    return sorted([listed.cid async for listed in bench.backend.pinset()], key=bytes)


def raw(data: bytes) -> Cid:
    return Cid(RAW, SHA2_256, sha256(data).digest())


def node(links: Sequence[Cid], name: bytes = b"") -> tuple[Cid, bytes]:
    """A dag-pb directory that links to *links*: its CID and its bytes."""
    data = b""
    for index, link in enumerate(links):
        inner = b"\x0a" + _sized(bytes(link)) + b"\x12" + _sized(name + b"%02d" % index)
        data += b"\x12" + _sized(inner + b"\x18\x05")
    data += b"\x0a\x02\x08\x01"  # UnixFS: a directory
    return Cid(DAG_PB, SHA2_256, sha256(data).digest()), data


def _sized(value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([len(value)]) + value


async def provide(bench: Bench, data: bytes) -> Cid:
    cid = raw(data)
    await bench.provide(cid, data)
    return cid


class Promises:
    """The suite. A test file inherits it and has a fixture `bench`."""

    async def test_what_was_never_pinned_is_absent(self, bench: Bench) -> None:
        """The status of a CID that nobody has pinned is ABSENT, not UNKNOWN."""
        held = await provide(bench, b"somebody has it, nobody pinned it")
        for cid in (held, raw(b"nobody has it")):
            seen = await status_of(bench, cid)
            assert seen.status is TrackerStatus.ABSENT
            assert seen.replicas == 0

    async def test_a_pin_leads_to_a_pinned_content(self, bench: Bench) -> None:
        """After a pin request all blocks are pinned, and they stay when nobody else has them."""
        leaf = await provide(bench, b"a leaf")
        root, data = node([leaf])
        await bench.provide(root, data)
        await pinned(bench, root)
        for cid in (root, leaf):
            await bench.forget(cid)
        assert await bench.keeps(root)
        assert await bench.keeps(leaf)
        seen = await status_of(bench, root)
        assert seen.status is TrackerStatus.PINNED
        assert seen.replicas >= seen.wanted >= 1

    async def test_pinning_what_is_pinned_drops_nothing(self, bench: Bench) -> None:
        """A pin sent once more, after a status check that was wrong, leaves the content where it
        is.

        Even when nobody else has it any more: Kubo itself would drop it (docs/facts/pins.md, trap
        2)."""
        cid = await provide(bench, b"pinned twice")
        await pinned(bench, cid)
        await bench.forget(cid)
        await bench.backend.pin(cid, BackendStatus(TrackerStatus.ABSENT), no_progress)
        await pinned(bench, cid)
        assert await bench.keeps(cid)

    async def test_an_unpin_leads_to_absence_and_twice_is_fine(self, bench: Bench) -> None:
        """What is released is absent in the end; releasing what is not there is no error."""
        cid = await provide(bench, b"for a while only")
        await pinned(bench, cid)
        await bench.backend.unpin(cid)
        await absent(bench, cid)
        await bench.backend.unpin(cid)
        await absent(bench, cid)
        await bench.backend.unpin(raw(b"never pinned"))
        await bench.forget(cid)
        await gone(bench, cid)

    async def test_what_was_released_can_be_pinned_again(self, bench: Bench) -> None:
        cid = await provide(bench, b"again")
        await pinned(bench, cid)
        await bench.backend.unpin(cid)
        await absent(bench, cid)
        await pinned(bench, cid)

    async def test_content_that_nobody_has_fails_and_is_pinned_when_it_appears(
        self, bench: Bench
    ) -> None:
        """It has failed, with a reason for people; once somebody has it, asking again helps."""
        data = b"not yet here"
        seen = await failed(bench, raw(data))
        assert seen.reason
        assert "://" not in seen.reason
        await bench.provide(raw(data), data)
        await pinned(bench, raw(data))

    async def test_content_of_which_a_part_is_missing_is_not_pinned(self, bench: Bench) -> None:
        """A root without its leaf is no content; with the leaf it is."""
        leaf = b"the missing leaf"
        root, data = node([raw(leaf)])
        await bench.provide(root, data)
        await failed(bench, root)
        await bench.provide(raw(leaf), leaf)
        await pinned(bench, root)
        assert await bench.keeps(raw(leaf))

    async def test_an_outage_is_never_absence(self, bench: Bench) -> None:
        """While nothing can be reached no call says that a content is absent: it raises, unless the
        backend holds its pins itself."""
        cid = await provide(bench, b"through the dark")
        other = await provide(bench, b"asked for in the dark")
        await pinned(bench, cid)
        await bench.go_dark()
        if bench.is_remote:
            with pytest.raises(OUTAGE):
                await status_of(bench, cid)
            with pytest.raises(OUTAGE):
                await bench.backend.unpin(cid)
            with pytest.raises(OUTAGE):
                await pinset(bench)
        else:
            assert (await status_of(bench, cid)).status is TrackerStatus.PINNED
            assert await pinset(bench) == [cid]
        with pytest.raises((*OUTAGE, PinDeferred)):
            await bench.backend.pin(other, BackendStatus(TrackerStatus.ABSENT), no_progress)
        await bench.come_back()
        await pinned(bench, cid)
        await pinned(bench, other)

    async def test_a_status_check_at_many_answers_all(self, bench: Bench) -> None:
        """Every CID asked for is in the answer, once, and nothing else is."""
        held = [await provide(bench, b"held %d" % number) for number in range(7)]
        for cid in held:
            await pinned(bench, cid)
        others = [raw(b"not held %d" % number) for number in range(120)]
        asked = [*others[:60], *held, *others[60:], held[0]]
        seen = await bench.backend.status(asked)
        assert set(seen) == set(asked)
        assert {cid for cid in seen if seen[cid].status is TrackerStatus.PINNED} == set(held)
        assert {seen[cid].status for cid in others} == {TrackerStatus.ABSENT}
        assert await bench.backend.status([]) == {}

    async def test_the_pinset_is_exactly_what_is_pinned(self, bench: Bench) -> None:
        """It lists what was pinned and not what was released or never asked for."""
        assert await pinset(bench) == []
        cids = [await provide(bench, b"listed %d" % number) for number in range(5)]
        await provide(bench, b"only provided")
        for cid in cids:
            await pinned(bench, cid)
        await bench.backend.unpin(cids[0])
        await absent(bench, cids[0])
        assert await pinset(bench) == sorted(cids[1:], key=bytes)

    @pytest.mark.parametrize("turns", [1, 2, 3, 5, 9, 20])
    async def test_a_pin_cancelled_in_the_middle_and_repeated_is_pinned(
        self, bench: Bench, turns: int
    ) -> None:
        """Whenever a pin call is cancelled, later calls complete the pin."""
        leaves = [await provide(bench, b"leaf %d" % number) for number in range(3)]
        root, data = node(leaves)
        await bench.provide(root, data)
        seen = await status_of(bench, root)
        call = asyncio.ensure_future(bench.backend.pin(root, seen, no_progress))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        await pinned(bench, root)
        for leaf in leaves:
            await bench.forget(leaf)
        assert all([await bench.keeps(leaf) for leaf in leaves])

    async def test_contents_that_share_blocks_do_not_take_them_along(self, bench: Bench) -> None:
        """What two contents are made of stays while one of them is pinned."""
        shared, own = await provide(bench, b"shared"), await provide(bench, b"own")
        (one, one_data), (two, two_data) = node([shared]), node([shared, own])
        await bench.provide(one, one_data)
        await bench.provide(two, two_data)
        for cid in (one, two, shared):
            await pinned(bench, cid)
        for cid in (shared, own, one, two):
            await bench.forget(cid)
        for cid in (one, shared):
            await bench.backend.unpin(cid)
            await absent(bench, cid)
        assert (await status_of(bench, two)).status is TrackerStatus.PINNED
        assert all([await bench.keeps(cid) for cid in (two, shared, own)])
        await gone(bench, one)

    async def test_both_spellings_of_a_content_are_one(self, bench: Bench) -> None:
        """A CID of version 0 and its version 1 are one pin, and releasing one releases both."""
        cid, data = node([])
        spelled = Cid.parse(BASE58BTC.encode(cid.multihash))
        await bench.provide(cid, data)
        await pinned(bench, spelled)
        assert (await status_of(bench, cid)).status is TrackerStatus.PINNED
        assert await pinset(bench) == [cid]
        await bench.backend.unpin(cid)
        await absent(bench, spelled)
