"""Paths inside of blocks of data: keys of maps, indexes of lists, and the first link on the way."""

import pytest

from content_gateway.ipld.data_path import link_on_path
from content_gateway.model.cid import Cid
from tests.cases import case
from tests.ipld.dags import Dag, as_json, block, cbor, link, pb, raw

LEAF = raw(b"leaf")
AS_JSON = {"/": str(LEAF[0])}


def value(to: object) -> object:
    return {"a": {"b": [1, to, {"c": to}]}, "": to, "text": "x", "/": 5}


BLOCKS = [
    cbor(value(link(LEAF)), LEAF),
    as_json(value(AS_JSON), LEAF),
]

PATHS = [
    ("a/b/1", 3),
    ("a/b/1/further/on", 3),
    ("a/b/2/c", 4),
    ("/x", 1),
]
ENDS_WITHIN = ["a", "a/b", "a/b/2", "a/b/0", "text"]
NOWHERE = ["c", "a/c", "a/b/3", "a/b/-1", "a/b/01", "a/b/x", "text/0", "a/b/0/0", "a/b/1.0"]


@pytest.mark.parametrize("dag", BLOCKS, ids=["dag-cbor", "dag-json"])
def test_a_path_leads_to_the_first_link(dag: Dag) -> None:
    cid, blocks = dag
    for path, used in PATHS:
        with case(path):
            assert link_on_path(cid, blocks[cid], path.split("/")) == (LEAF[0], used)
    for path in ENDS_WITHIN:
        with case(path):
            segments = path.split("/")
            assert link_on_path(cid, blocks[cid], segments) == (None, len(segments))
    for path in NOWHERE:
        with case(path), pytest.raises(LookupError):
            link_on_path(cid, blocks[cid], path.split("/"))


@pytest.mark.parametrize("dag", [cbor(link(LEAF), LEAF), as_json(AS_JSON, LEAF)])
def test_a_block_that_is_a_link_leads_there_at_once(dag: Dag) -> None:
    cid, blocks = dag
    assert link_on_path(cid, blocks[cid], ["x"]) == (LEAF[0], 0)


def test_what_cannot_be_read_is_said() -> None:
    """Malformed blocks, links that are none, and blocks that are no data."""
    deep = b"\x81" * 5_000 + b"\x00"
    wrong = [
        (0x71, b"\xa1"),
        (0x71, b"\xd8\x2b\x00"),
        (0x71, deep),
        (0x71, b"\xd8\x2a\x42\x00\x01"),
        (0x0129, b"{"),
        (0x0129, b'{"a":1,"a":2}'),
        (0x0129, b'{"/":"no CID"}'),
        (0x0129, b"[" * 100_000),
        (0x0129, b"\xff"),
    ]
    for codec, data in wrong:
        with case(codec, data[:20]), pytest.raises(ValueError, match=r"."):
            link_on_path(block(codec, data), data, ["a"])
    cid: Cid = pb(LEAF)[0]
    with pytest.raises(ValueError, match="codec"):
        link_on_path(cid, b"", ["a"])
