"""The links of blocks: all of them found, in every codec, and broken blocks refused."""

from time import thread_time
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.demo.publisher import directory
from content_gateway.ipld.links import links
from content_gateway.model.cid import CBOR, DAG_CBOR, DAG_JSON, DAG_PB, JSON, RAW, Cid
from tests.ipld.dags import Dag, as_json, block, cbor, link, pb, raw

A, B, C = raw(b"a"), raw(b"b"), raw(b"c")


def links_of(dag: Dag) -> list[Cid]:
    cid, blocks = dag
    return links(cid, blocks[cid])


def test_a_directory_links_to_its_files() -> None:
    """A UnixFS directory, as the demonstration's publisher writes it."""
    root, blocks = directory({"index.html": b"<p>", "style.css": b"p {}"})
    assert set(links(root, blocks[root])) == set(blocks) - {root}


def test_dag_pb_links_come_in_order() -> None:
    """Repeated links are links; data and names are not."""
    assert links_of(pb(B, A, B)) == [B[0], A[0], B[0]]
    assert links_of(pb()) == []
    assert links(block(DAG_PB, b""), b"") == []


def test_a_link_to_a_version_0_cid_is_one() -> None:
    """Old directories link to the bare multihash."""
    inner = b"\x0a\x22" + A[0].multihash
    node = b"\x12" + bytes([len(inner)]) + inner
    assert links(block(DAG_PB, node), node) == [Cid(DAG_PB, 0x12, A[0].digest)]


def test_dag_cbor_links_are_found_at_any_depth() -> None:
    """In maps, in lists, in maps in lists; bytes that look like a CID are not links."""
    value = {
        "a": link(A),
        "list": [1, "x", None, 1.5, True, [link(B), {"c": link(C)}]],
        "bytes": b"\0" + bytes(A[0]),
    }
    assert set(links_of(cbor(value))) == {A[0], B[0], C[0]}
    assert links_of(cbor(link(A))) == [A[0]]
    assert links_of(cbor({})) == []


def test_dag_json_links_are_found_at_any_depth() -> None:
    """`{"/": "cid"}` is a link, `{"/": {"bytes": ...}}` is bytes."""
    value = {
        "a": {"/": str(A[0])},
        "list": [1, None, [{"/": str(B[0])}, {"c": {"/": str(C[0])}}]],
        "bytes": {"/": {"bytes": "AAAA"}},
        "text": str(A[0]),
    }
    assert links_of(as_json(value)) == [A[0], B[0], C[0]]
    assert links_of(as_json({"/": str(A[0])})) == [A[0]]


@pytest.mark.parametrize("codec", [RAW, JSON, CBOR])
def test_other_blocks_have_no_links(codec: int) -> None:
    """Whatever stands in raw, json and cbor blocks, nothing follows from it."""
    for data in (b"", b"\xff", b'{"/": "x"}', bytes(A[0])):
        assert links(block(codec, data), data) == []


@pytest.mark.parametrize("codec", [0x78, 0x85])
def test_codecs_that_are_not_walked_are_refused(codec: int) -> None:
    """git-raw and dag-jose have links that the embedded store does not follow: it says so."""
    with pytest.raises(ValueError, match="cannot walk"):
        links(block(codec, b""), b"")


TAG_IN_SET = cbor2.dumps(cbor2.CBORTag(258, [link(A)]))


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (DAG_PB, b"\x0a"),
        (DAG_PB, b"\x0a\x05abc"),
        (DAG_PB, b"\x1a\x00"),  # no such field
        (DAG_PB, b"\x08\x01"),  # data is bytes
        (DAG_PB, b"\x0d\x00\x00\x00\x00"),
        (DAG_PB, b"\x12\x00"),  # a link without a hash
        (DAG_PB, b"\x12\x02\x0a\x00"),
        (DAG_PB, b"\x12\x05\x0a\x03\x01\x02\x03"),
        (DAG_PB, b"\x12\x50" + (b"\x0a\x26" + b"\x01\x55\x12\x20" + bytes(34)) * 2),
        (DAG_PB, b"\xff" * 10),
        (DAG_CBOR, b""),
        (DAG_CBOR, b"\xff"),
        (DAG_CBOR, b"\x82\x01"),
        (DAG_CBOR, b"\xd8\x2a\x41\x00"),  # a link to nothing
        (DAG_CBOR, b"\xd8\x2a\x44\x01\x55\x12\x20"),  # no multibase prefix
        (DAG_CBOR, b"\xd8\x2a\x63abc"),  # a link that is text
        (DAG_CBOR, b"\xd9\xff\xff\x00"),  # an unknown tag
        (DAG_CBOR, b"\x81" * 100_000),
        (DAG_CBOR, b"\x9f\xff"),  # no length
        (DAG_CBOR, b"\x7f\x61a\xff"),
        (DAG_CBOR, b"\xf7"),  # undefined
        (DAG_CBOR, b"\xf8\xff"),
        (DAG_CBOR, b"\xa1\x01\x01"),  # a key that is a number
        (DAG_CBOR, b"\x9b" + b"\xff" * 8),
        (DAG_CBOR, b"\x5b" + b"\xff" * 8),
        (DAG_JSON, b""),
        (DAG_JSON, b"{"),
        (DAG_JSON, b"\xff\xff"),
        (DAG_JSON, b'{"/": "garbage"}'),
        (DAG_JSON, b'{"/": ""}'),
        (DAG_JSON, b"[" * 100_000),
        (DAG_JSON, b"9" * 10_000),
    ],
    ids=lambda value: value[:8].hex() if isinstance(value, bytes) else hex(value),
)
def test_a_broken_block_is_a_value_error(codec: int, data: bytes) -> None:
    """A block that cannot be read would leave a hole in the DAG, so it is refused."""
    with pytest.raises(ValueError, match=r".+"):
        links(block(codec, data), data)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        pytest.param(DAG_CBOR, TAG_IN_SET, id="a link in a set"),
        pytest.param(DAG_CBOR, b"\xa1" + cbor2.dumps(link(A)) + b"\x01", id="a link as a key"),
        pytest.param(
            DAG_CBOR, b"\xa2\x61a" + cbor2.dumps(link(A)) + b"\x61a\x01", id="a doubled key"
        ),
        pytest.param(DAG_CBOR, cbor2.dumps(1) + cbor2.dumps(link(A)), id="a link behind the end"),
        # Of a doubled key JSON readers keep one.
        pytest.param(DAG_JSON, b'{"a": {"/": "%b"}, "a": 1}' % str(A[0]).encode(), id="in JSON"),
    ],
)
def test_no_link_is_overlooked(codec: int, data: bytes) -> None:
    """dag-cbor has no sets, no keys but text, no key twice and one value a block. Where a link
    stands in such a place the block is refused, or the link is followed: never overlooked."""
    try:
        found = links(block(codec, data), data)
    except ValueError:
        return
    assert found == [A[0]]


def doubling(levels: int) -> bytes:
    """CBOR of a few bytes a level in which every list holds the one before it twice."""
    lists = [b"\xd8\x1c\x81\x01"]
    for level in range(1, levels):
        again = b"\xd8\x1d\x18" + bytes([level - 1])
        lists.append(b"\xd8\x1c\x82" + again * 2)
    return b"\x98" + bytes([levels]) + b"".join(lists)


def test_a_small_block_cannot_hold_us_up() -> None:
    """CBOR can share values; 200 bytes of it would take days to walk. dag-cbor forbids it."""
    data = doubling(21)
    begun = thread_time()
    with pytest.raises(ValueError, match=r".+"):
        links(block(DAG_CBOR, data), data)
    assert thread_time() - begun < 5


LEAVES = st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.floats() | st.text()
LINKS = st.binary(min_size=32, max_size=32).map(lambda digest: Cid(RAW, 0x12, digest))
TREES = st.recursive(
    LEAVES | st.binary() | LINKS,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=30),
)


@given(TREES)
@settings(max_examples=200, deadline=None)
def test_links_of_any_tree_are_found_in_order(tree: Any) -> None:
    """Whatever a publisher builds of lists, maps and values: every link of it, and no other."""
    expected: list[Cid] = []

    def as_cbor(value: Any) -> Any:
        if isinstance(value, Cid):
            expected.append(value)
            return link((value, {}))
        if isinstance(value, list):
            return [as_cbor(item) for item in value]
        if isinstance(value, dict):
            return {key: as_cbor(item) for key, item in value.items()}
        return value

    data = cbor2.dumps(as_cbor(tree))
    assert links(block(DAG_CBOR, data), data) == expected


@given(st.sampled_from([DAG_PB, DAG_CBOR, DAG_JSON]), st.binary(max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_bytes_have_links_or_are_a_value_error(codec: int, data: bytes) -> None:
    """Whatever a gateway serves under a matching CID, nothing but ValueError is raised."""
    try:
        links(block(codec, data), data)
    except ValueError:
        return


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_bent_block_has_links_or_is_a_value_error(data: st.DataObject) -> None:
    """The same for blocks that were right once."""
    samples = (pb(A, B), cbor({"a": link(A), "b": [link(B)]}), as_json({"/": str(A[0])}))
    cid, blocks = data.draw(st.sampled_from(samples))
    bent = bytearray(blocks[cid])
    for _ in range(data.draw(st.integers(1, 3))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    try:
        links(cid, bytes(bent))
    except ValueError:
        return
