"""What a cluster has lost of what it held is found out by the next resync, told, and repaired.

The pinset is as it was each time: it says what is wanted, not what is held."""

from collections.abc import Sequence
from typing import Any

import pytest

from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from tests.fakes.cluster_parts import MiniPeer
from tests.ledgers import Clock
from tests.pins.fed import Fed
from tests.pins.promises import raw

CIDS = [raw(b"replicated %d" % number) for number in range(30)]


@pytest.fixture
def make(database: LedgerDatabase, clock: Clock) -> Any:
    return lambda batch_age=2.0, **options: Fed(database, clock, batch_age, **options)


async def pinned(fed: Fed, cids: Sequence[Cid] = CIDS) -> None:
    """Promise *cids*, and return a while after they are final."""
    await fed.promise(cids)
    await fed.until_final()
    fed.clock.now += 3600.0


async def replicas(fed: Fed, cid: Cid) -> tuple[ContentState, int, int]:
    """What a requestor reads."""
    status = await fed.status(cid)
    return status.state, status.replicas, status.wanted


async def until_two_hold(fed: Fed, cids: Sequence[Cid]) -> None:
    """Within a minute of the clock two peers that run hold each of *cids*, and a requestor reads
    so."""

    async def are_two(cid: Cid) -> bool:
        held = [peer for peer in fed.cluster.peers if peer.is_up and str(cid) in peer.pinned]
        return len(held) == 2 and await replicas(fed, cid) == (ContentState.PINNED, 2, 2)

    begun = fed.clock.now
    while not all([await are_two(cid) for cid in cids]):
        assert fed.clock.now < begun + 60.0
        if not await fed.reconciler.round():
            fed.clock.now += 0.25


def held_by(peer: MiniPeer) -> list[Cid]:
    """What the cluster wants *peer* to hold, which is not everything."""
    held = [cid for cid in CIDS if peer.id in peer.state[str(cid)].allocations]
    assert 0 < len(held) < len(CIDS)
    return held


async def test_content_that_every_node_lost_is_told_and_fetched_again(make: Any) -> None:
    """Three of three, and no node has it: the resync finds it, and the peers are asked again."""
    fed = make()
    await pinned(fed)
    for peer in fed.cluster.peers:
        for cid in CIDS[:5]:
            fed.cluster.lose(peer, str(cid))
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 3, 3)
    before = fed.questions
    report = await fed.resync()
    assert (report.missing, report.under_replicated) == (0, 5)
    assert fed.questions - before == 3  # who is there, what is not well, and the pinset
    await fed.reconciler.round()
    state, held, wanted = await replicas(fed, CIDS[0])
    assert state is not ContentState.PINNED
    assert (held, wanted) == (0, 3)
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 3, 3)
    assert fed.wire.rest.counts["recover"] == 5
    assert fed.wire.rest.counts["pin"] == len(CIDS)
    assert (await fed.resync()).under_replicated == 0


async def test_content_that_nobody_has_any_more_is_no_longer_called_pinned(make: Any) -> None:
    """It has failed, with the reason, and none of three; it is tried again."""
    fed = make()
    await pinned(fed)
    fed.cluster.forget(CIDS[0])
    for peer in fed.cluster.peers:
        fed.cluster.lose(peer, str(CIDS[0]))
    await fed.resync()
    for _ in range(100):
        await fed.reconciler.round()
        fed.clock.now += 1.0
    assert await replicas(fed, CIDS[0]) == (ContentState.FAILED, 0, 3)
    assert (await fed.status(CIDS[0])).error
    assert await replicas(fed, CIDS[1]) == (ContentState.PINNED, 3, 3)


async def test_what_one_node_lost_is_two_of_three_until_it_is_back(make: Any) -> None:
    """The others hold it meanwhile, and a requestor reads how many do."""
    fed = make()
    fed.cluster.queue_seconds = 5.0
    await pinned(fed)
    fed.cluster.lose(fed.cluster.peers[1], str(CIDS[0]))
    assert (await fed.resync()).under_replicated == 1
    await fed.reconciler.round()
    assert (await replicas(fed, CIDS[0]))[1:] == (2, 3)
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 3, 3)


async def test_where_every_peer_is_wanted_the_live_ones_are(make: Any) -> None:
    """There is nobody else to hold it: once a dead peer counts no more, two of two are all."""
    fed = make()
    await pinned(fed)
    fed.cluster.kill(fed.cluster.peers[2])
    fed.clock.now += 1.0
    assert (await fed.resync()).under_replicated == len(CIDS)
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 2, 3)
    assert (await fed.status(CIDS[0])).error
    fed.clock.now += 100.0
    assert (await fed.resync()).under_replicated == 0
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 2, 2)
    assert (await fed.status(CIDS[0])).error is None
    fed.cluster.start(fed.cluster.peers[2])
    fed.clock.now += 100.0
    await fed.resync()
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 3, 3)


async def test_for_a_peer_that_is_gone_another_one_is_found(make: Any) -> None:
    """Two of three are wanted: what the dead one held is submitted again, and only that."""
    fed = make(replication_min=2)
    await pinned(fed)
    dead = fed.cluster.peers[0]
    affected = held_by(dead)
    fed.cluster.kill(dead)
    fed.clock.now += 100.0
    assert (await fed.resync()).under_replicated == len(affected)
    await fed.until_final()
    assert {await replicas(fed, cid) for cid in CIDS} == {(ContentState.PINNED, 2, 2)}
    assert fed.wire.rest.counts["pin"] == len(CIDS) + len(affected)
    alive = fed.cluster.peers[1:]
    assert all(str(cid) in peer.pinned for peer in alive for cid in affected)
    assert (await fed.resync()).under_replicated == 0


async def test_a_peer_that_is_gone_and_still_has_room_is_given_up_soon(make: Any) -> None:
    """A cluster goes by two metrics: a peer that counts no more may be chosen for a while, and then
    submitting it again changes nothing. It is tried until it does, now and then."""
    fed = make(90.0, replication_min=2)
    fed.cluster.batch_age = 0.0
    await pinned(fed)
    dead = fed.cluster.peers[0]
    affected = held_by(dead)
    fed.cluster.metric_seconds, fed.cluster.room_seconds = 5.0, 25.0
    fed.cluster.kill(dead)
    fed.clock.now += 6.0
    await fed.resync()
    await fed.reconciler.round()
    assert fed.wire.rest.counts["pin"] == len(CIDS) + len(affected)
    await until_two_hold(fed, affected)
    assert fed.wire.rest.counts["pin"] <= len(CIDS) + 6 * len(affected)
    alive = fed.cluster.peers[1:]
    assert all(str(cid) in peer.pinned for peer in alive for cid in affected)


@pytest.mark.parametrize("was_known", [False, True])
async def test_a_peer_that_hears_of_no_change_is_told_by_us(make: Any, *, was_known: bool) -> None:
    """A CRDT may be stuck for minutes: a change that a peer does not hear of by another one's word,
    or that it knows an older state of, is submitted to that peer itself."""
    fed = make(90.0, replication_min=2)
    fed.cluster.batch_age = 0.0
    dead, _, isolated = fed.cluster.peers
    if was_known:
        await pinned(fed)
        affected = held_by(dead)
        isolated.is_partitioned = True
        fed.cluster.kill(dead)
        fed.clock.now += 100.0
        await fed.resync()
    else:
        affected = CIDS
        isolated.is_partitioned = True
        await fed.promise(CIDS)
    before = fed.wire.rest.counts["pin"]
    await until_two_hold(fed, affected)
    assert fed.wire.rest.counts["pin"] - before <= 2 * len(affected)


async def test_without_another_peer_a_requestor_reads_what_there_is(make: Any) -> None:
    """Three of three are wanted and one is gone: pinned, two of three, with the reason; it is
    tried again, and whole when the peer is back."""
    fed = make(replication_min=3)
    await pinned(fed)
    fed.cluster.kill(fed.cluster.peers[0])
    fed.clock.now += 100.0
    assert (await fed.resync()).under_replicated == len(CIDS)
    for _ in range(20):
        await fed.reconciler.round()
        fed.clock.now += 1.0
    assert {await replicas(fed, cid) for cid in CIDS} == {(ContentState.PINNED, 2, 3)}
    assert (await fed.status(CIDS[0])).error
    fed.cluster.start(fed.cluster.peers[0])
    await fed.resync()
    await fed.until_final()
    assert {await replicas(fed, cid) for cid in CIDS} == {(ContentState.PINNED, 3, 3)}
    assert (await fed.status(CIDS[0])).error is None


async def test_a_node_that_is_down_behind_its_peer_is_missed(make: Any) -> None:
    """The peer answers, and its IPFS does not: what it holds is not known to be there."""
    fed = make()
    await pinned(fed)
    fed.cluster.peers[1].has_ipfs = False
    assert (await fed.resync()).under_replicated == len(CIDS)
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 2, 3)
    fed.cluster.peers[1].has_ipfs = True
    await fed.resync()
    await fed.until_final()
    assert await replicas(fed, CIDS[0]) == (ContentState.PINNED, 3, 3)
