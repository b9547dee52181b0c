"""The wantlist: only linked blocks belong to a DAG, in whatever order they arrive."""

import random

import pytest

from content_gateway.backends.embedded.wantlist import MAX_UNSOLICITED_BYTES, DagLimits, Wantlist
from content_gateway.ipld.block import MAX_BLOCK_BYTES
from content_gateway.model.cid import DAG_CBOR, RAW, Cid
from tests.backends.stores import sections
from tests.ipld.dags import Dag, block, cbor, file, link, pb, raw

DAG = file(60, 30, width=6)


def test_in_order_each_block_is_taken_in_at_once() -> None:
    """Depth first, every block is linked from one before it."""
    wantlist = Wantlist(DAG[0], DagLimits())
    for section in sections(DAG):
        assert not wantlist.is_complete
        assert wantlist.accept([section]) == [section]
    assert wantlist.is_complete


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_all_blocks_are_taken_in_in_the_end(seed: int) -> None:
    """What comes too early waits, within a bound; nothing comes twice."""
    wantlist, shuffled = Wantlist(DAG[0], DagLimits()), sections(DAG)
    random.Random(seed).shuffle(shuffled)
    accepted = [each for section in shuffled for each in wantlist.accept([section])]
    assert sorted(accepted) == sorted(shuffled)
    assert wantlist.is_complete


def test_what_is_not_linked_is_not_taken_in() -> None:
    """Not before the root, not after it, and not twice what is."""
    wantlist = Wantlist(DAG[0], DagLimits())
    unrelated = (raw(b"unrelated")[0].multihash, b"unrelated")
    root = sections(DAG)[0]
    assert wantlist.accept([unrelated]) == []
    assert wantlist.accept([root, unrelated, root]) == [root]


def test_unsolicited_blocks_are_bounded() -> None:
    """The oldest are forgotten; they can be asked for later."""
    big = [raw(bytes([number]) * (MAX_BLOCK_BYTES // 2)) for number in range(12)]
    root = pb(*big)
    wantlist = Wantlist(root[0], DagLimits())
    for cid, blocks in big:
        assert wantlist.accept([(cid.multihash, blocks[cid])]) == []
    accepted = wantlist.accept([(root[0].multihash, root[1][root[0]])])
    fit = MAX_UNSOLICITED_BYTES // (MAX_BLOCK_BYTES // 2)
    assert 1 + fit - 1 <= len(accepted) <= 1 + fit
    missing = wantlist.missing(wantlist.unread(100))
    assert len(missing) + len(accepted) == 13


def test_a_codec_comes_from_the_link_and_nowhere_else() -> None:
    """Bytes linked to as raw and as dag-cbor are walked as both, and counted once."""
    leaf = raw(b"leaf")
    inner = cbor([link(leaf)], leaf)
    data = inner[1][inner[0]]
    as_raw: Dag = (Cid(RAW, 0x12, inner[0].digest), {})
    root = pb(as_raw, inner)
    wantlist = Wantlist(root[0], DagLimits())
    wantlist.accept([(root[0].multihash, root[1][root[0]])])
    assert inner[0].codec == DAG_CBOR
    assert wantlist.accept([(inner[0].multihash, data)]) == [(inner[0].multihash, data)]
    assert set(wantlist.missing(wantlist.unread(10))) == {leaf[0].multihash}


def test_the_same_bytes_under_another_codec_later_are_wanted_again() -> None:
    """First a leaf, then a node: its links are found when it is looked up."""
    leaf = raw(b"leaf")
    inner = cbor([link(leaf)], leaf)
    as_raw: Dag = (Cid(RAW, 0x12, inner[0].digest), {})
    late = pb(inner)
    root = pb(as_raw, late)
    wantlist = Wantlist(root[0], DagLimits())
    section = (inner[0].multihash, inner[1][inner[0]])
    wantlist.accept([(root[0].multihash, root[1][root[0]]), section])
    wantlist.accept([(late[0].multihash, late[1][late[0]])])
    wanted = wantlist.missing(wantlist.unread(10))
    assert wanted == {inner[0].multihash: inner[0]}
    wantlist.accept([section])
    assert set(wantlist.missing(wantlist.unread(10))) == {leaf[0].multihash}


def test_the_number_of_links_is_bounded_before_they_are_fetched() -> None:
    inside = b"\x12\x26\x0a\x24\x01\x55\x12\x20"
    node = b"".join(inside + number.to_bytes(32, "big") for number in range(101))
    cid = block(0x70, node)
    wantlist = Wantlist(cid, DagLimits(blocks=101))
    with pytest.raises(ValueError, match="more than 101 blocks"):
        wantlist.accept([(cid.multihash, node)])


def test_identity_links_are_followed_inside() -> None:
    """A link inside a CID is a link of the block around it, and counts as one more."""
    leaf = raw(b"x")
    node = next(iter(pb(leaf)[1].values()))
    root = pb((Cid(0x70, 0, node), {}))
    wantlist = Wantlist(root[0], DagLimits(blocks=2))
    wantlist.accept([(root[0].multihash, root[1][root[0]])])
    assert set(wantlist.missing(wantlist.unread(9))) == {leaf[0].multihash}
    with pytest.raises(ValueError, match="more than 1 links"):
        Wantlist(root[0], DagLimits(blocks=1)).accept([(root[0].multihash, root[1][root[0]])])


def test_a_long_chain_may_come_backwards() -> None:
    """However deep, children before their parents are taken in once the root is there."""
    dag = raw(b"end")
    for _ in range(3_000):
        dag = pb(dag)
    wantlist = Wantlist(dag[0], DagLimits(depth=5_000))
    backwards = sections(dag)[::-1]
    accepted = [each for section in backwards for each in wantlist.accept([section])]
    assert len(accepted) == 3_001
    assert wantlist.is_complete
