"""Retrieval: bytes count only if they hash to the CID, whoever serves them."""

from time import monotonic

import pytest

from content_gateway.content.cid import RAW, Cid
from content_gateway.content.multiformats import digest_of
from content_gateway.errors import PinFailed, UpstreamUnavailable
from content_gateway.ipfs.embedded.blockstore import MAX_BLOCK_BYTES
from content_gateway.ipfs.embedded.retrieval import Retrieval
from content_gateway.outbound import Outbound
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.ipfs.dags import raw

CID = raw(b"hello")[0]


async def test_a_block_comes_from_the_first_gateway(
    retrieval: Retrieval, origin: Origin, other: Origin
) -> None:
    """It is asked for in the trustless gateway's raw form; nobody else is asked."""
    origin.blocks[CID] = b"hello"
    assert await retrieval.fetch(CID) == b"hello"
    assert origin.requests == [f"/ipfs/{CID}?format=raw"]
    assert other.requests == []


@pytest.mark.parametrize(
    "mood",
    ["dark", "hang", "html", "huge", "garbage", "cut", "404", "429", "500", "503", "redirect"],
)
async def test_the_next_gateway_helps_out(
    retrieval: Retrieval, origin: Origin, other: Origin, mood: Mood
) -> None:
    """However the first gateway fails, the second one's block is taken, and soon."""
    origin.misbehave(mood)
    other.blocks[CID] = b"hello"
    begun = monotonic()
    assert await retrieval.fetch(CID) == b"hello"
    assert monotonic() - begun < 2


async def test_wrong_bytes_are_refused(retrieval: Retrieval, origin: Origin, other: Origin) -> None:
    """A gateway that serves other bytes is not believed; the next one is asked."""
    origin.blocks[CID] = b"hello"
    origin.corrupt.add(CID)
    with pytest.raises(PinFailed, match="wrong bytes"):
        await retrieval.fetch(CID)
    other.blocks[CID] = b"hello"
    assert await retrieval.fetch(CID) == b"hello"


@pytest.mark.parametrize("wrong", [b"", b"hell", b"hello!", b"Hello"])
async def test_nothing_but_the_block_is_the_block(
    retrieval: Retrieval, origin: Origin, wrong: bytes
) -> None:
    """Shorter, longer, empty and similar bytes are all wrong bytes."""
    origin.blocks[CID] = wrong
    with pytest.raises(PinFailed):
        await retrieval.fetch(CID)


async def test_a_block_that_nobody_has_is_a_failed_pin(
    retrieval: Retrieval, origin: Origin, other: Origin
) -> None:
    """Both gateways are well and have nothing: the reason names the block and each gateway."""
    with pytest.raises(PinFailed) as failed:
        await retrieval.fetch(CID)
    assert str(CID) in failed.value.detail
    assert failed.value.detail.count("It answered 404.") == 2
    assert len(origin.requests) == len(other.requests) == 1


async def test_one_gateway_that_answers_makes_it_a_failed_pin(
    retrieval: Retrieval, origin: Origin
) -> None:
    """The first is down, the second has looked: there is an answer, and it is 'no'."""
    origin.go_dark()
    with pytest.raises(PinFailed):
        await retrieval.fetch(CID)


@pytest.mark.parametrize("mood", ["dark", "hang", "429", "500"])
async def test_gateways_that_cannot_be_asked_are_an_outage(
    retrieval: Retrieval, origin: Origin, other: Origin, mood: Mood
) -> None:
    """Nobody has looked, so nothing is known about the block."""
    origin.misbehave(mood)
    other.misbehave(mood)
    with pytest.raises(UpstreamUnavailable):
        await retrieval.fetch(CID)


async def test_without_gateways_nobody_can_be_asked(outbound: Outbound) -> None:
    """That is an outage, too, and says so."""
    with pytest.raises(UpstreamUnavailable):
        await Retrieval(outbound, [], seconds=1).fetch(CID)


async def test_content_inside_its_cid_is_not_asked_for(
    retrieval: Retrieval, origin: Origin
) -> None:
    """An identity CID is its own block."""
    assert await retrieval.fetch(Cid(RAW, 0, b"hello")) == b"hello"
    assert origin.requests == []


async def test_the_largest_block_is_2_mib(retrieval: Retrieval, origin: Origin) -> None:
    """A block of 2 MiB is fetched; one byte more is not."""
    largest, larger = bytes(MAX_BLOCK_BYTES), bytes(MAX_BLOCK_BYTES + 1)
    for content in (largest, larger):
        origin.blocks[raw(content)[0]] = content
    assert await retrieval.fetch(raw(largest)[0]) == largest
    with pytest.raises(PinFailed, match="2097152"):
        await retrieval.fetch(raw(larger)[0])


async def test_a_block_under_any_accepted_hash_is_verified(
    retrieval: Retrieval, origin: Origin
) -> None:
    """sha2-512 and keccak-256 are verified like sha2-256."""
    for code in (0x13, 0x1B):
        cid = Cid(RAW, code, digest_of(code, b"hello") or b"")
        origin.blocks[cid] = b"hello"
        assert await retrieval.fetch(cid) == b"hello"
        origin.corrupt.add(cid)
        with pytest.raises(PinFailed):
            await retrieval.fetch(cid)
