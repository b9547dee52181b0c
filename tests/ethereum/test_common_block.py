"""The block that a quorum is asked for, among nodes some of which make theirs up."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.ethereum.quorum import EthereumQuorum, common_block
from content_gateway.net.http_client import HttpClient
from tests.clock import Clock
from tests.ethereum.nodes import LONG, ask
from tests.fakes.ethereum import Ethereum

NOW = 20_000_000
FAR = 2**64 - 1


@pytest.mark.parametrize(
    ("claims", "quorum", "block"),
    [
        ([NOW], 1, NOW),
        ([NOW, NOW - 1, NOW - 2], 1, NOW),
        ([NOW, NOW - 1, NOW - 2], 2, NOW - 1),
        ([NOW, NOW - 1, NOW - 2], 3, NOW - 2),
        ([NOW - 2, NOW, NOW - 1], 2, NOW - 1),
        ([NOW, NOW - 32], 2, NOW - 32),
        ([NOW, NOW, 0], 2, NOW),
        ([NOW, NOW - 1, 0], 2, NOW - 1),
        ([FAR, NOW, NOW - 1], 2, NOW - 1),
        ([FAR, FAR - 1000, NOW, NOW, NOW], 3, NOW),
        ([FAR, NOW, NOW - 1, 0], 2, NOW - 1),
    ],
)
def test_the_block_is_one_that_enough_of_them_have(
    claims: Sequence[int], quorum: int, block: int
) -> None:
    """The K-th highest of those that lie close together: far claims, high or low, do not count."""
    assert common_block(claims, quorum) == block


@pytest.mark.parametrize("claims", [[NOW, NOW - 33], [FAR, NOW], [FAR, NOW, 0], [NOW, 0]])
def test_claims_that_are_all_far_apart_are_of_no_chain(claims: Sequence[int]) -> None:
    """With one honest node it cannot be known which one that is."""
    with pytest.raises(InvalidUpstreamResponse):
        common_block(claims, 2)


@pytest.mark.parametrize("claims", [[], [NOW]])
def test_too_few_claims_are_an_outage(claims: Sequence[int]) -> None:
    """Too few nodes have answered: UpstreamUnavailable, not a disagreement."""
    with pytest.raises(UpstreamUnavailable):
        common_block(claims, 2)


CLAIM = st.one_of(st.integers(0, FAR), st.integers(NOW - 70, NOW + 70))


@given(data=st.data(), quorum=st.integers(1, 5))
def test_fewer_liars_than_the_quorum_move_nothing(data: st.DataObject, quorum: int) -> None:
    """With a quorum of honest nodes there is a block; one of them has it, and it is not old."""
    honest = data.draw(st.lists(st.integers(NOW - 3, NOW), min_size=quorum, max_size=8))
    liars = data.draw(st.lists(CLAIM, max_size=quorum - 1))
    claims = data.draw(st.permutations(honest + liars))
    block = common_block(claims, quorum)
    assert NOW - 3 - 32 <= block <= max(honest)
    assert sum(claim >= block for claim in claims) >= quorum


@pytest.mark.parametrize("claim", [0, NOW - 1000, NOW + 1000, FAR])
async def test_a_liar_about_the_block_is_outvoted(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum], claim: int
) -> None:
    """One node far ahead of the others, or far behind, does not keep them from an answer."""
    for node, block in zip(nodes, [claim, NOW, NOW - 1], strict=True):
        node.block = block
    urls = [node.url for node in nodes]
    quorum = EthereumQuorum(outbound, urls, seconds=LONG, quorum=2, clock=clock)
    assert await ask(quorum) == bytes(32)
    asked = {int(block, 16) for node in nodes for block in node.blocks}
    assert asked == {NOW - 1}


async def test_a_quick_liar_does_not_send_us_back_in_time(
    outbound: HttpClient, clock: Clock, nodes: list[Ethereum]
) -> None:
    """Slower nodes have some time to answer before an older block is taken."""
    nodes[0].block = nodes[1].block - 30
    nodes[2].delay = 0.05
    urls = [node.url for node in nodes]
    quorum = EthereumQuorum(outbound, urls, seconds=LONG, quorum=2, clock=clock)
    assert await ask(quorum) == bytes(32)
    assert nodes[1].blocks == nodes[2].blocks == [hex(nodes[1].block)]
