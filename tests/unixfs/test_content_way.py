"""The way of a path: where it ends, and the blocks that prove it."""

from collections.abc import Sequence

import pytest

from content_gateway.errors import Blocked, ContentMalformed, ContentUnavailable, PathNotFound
from content_gateway.ipld.hamt import murmur3
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.unixfs.content_way import ContentWays, WayEnd
from content_gateway.unixfs.reader import MAX_SEGMENTS
from tests.cases import case
from tests.ipld import dags
from tests.unixfs import made
from tests.unixfs.blocks import Blocks
from tests.unixfs.made import Dag

FILE = made.file(b"x" * 5_000)
INNER = made.directory({"file": FILE, "link": made.symlink(b"file")})
ROOT = made.directory({"inner": INNER, "raw": made.raw(b"raw")})


async def way(dag: Dag, path: str, blocks: Blocks | None = None) -> WayEnd:
    segments: Sequence[str] = path.split("/") if path else ()
    return await ContentWays(blocks or Blocks(dag[1])).find(dag[0], segments, "me")


async def test_a_path_ends_somewhere() -> None:
    """Behind directories; what it ends at is not read."""
    for path, roots in (
        ("", [ROOT]),
        ("inner", [ROOT, INNER]),
        ("inner/file", [ROOT, INNER, FILE]),
    ):
        with case(path):
            blocks = Blocks(ROOT[1])
            end = await way(ROOT, path, blocks)
            cids = [dag[0] for dag in roots]
            assert (end.cid, list(end.roots), list(end.blocks)) == (cids[-1], cids, cids[:-1])
            assert blocks.asked == cids[:-1]


async def test_a_path_leads_through_shards() -> None:
    """Those on the way are needed, and no others; of roots there are two."""
    entries = {f"{number}.txt": made.raw(b"%d" % number) for number in range(900)}
    dag = made.sharded(entries, fanout=8)
    end = await way(dag, "685.txt")
    assert list(end.roots) == [dag[0], entries["685.txt"][0]]
    assert end.blocks[0] == dag[0]
    assert 3 <= len(end.blocks) <= 7
    offline = Blocks({cid: dag[1][cid] for cid in end.blocks})
    assert await way(dag, "685.txt", offline) == end


async def test_a_path_leads_through_data() -> None:
    """Maps, lists and links of them, into directories and back; it may end within a block."""
    data = dags.as_json({"list": [1, {"/": str(ROOT[0])}]}, ROOT)
    outer = made.directory({"data": dags.cbor({"to": dags.link(data), "number": 1}, data)})
    cbor = next(cid for cid in outer[1] if cid.codec == 0x71)
    end = await way(outer, "data/to/list/1/inner/file")
    cids = [outer[0], cbor, data[0], ROOT[0], INNER[0]]
    assert (list(end.blocks), list(end.roots)) == (cids, [*cids, FILE[0]])
    for path in ("data/number", "data"):
        with case(path):
            end = await way(outer, path)
            assert (end.cid, list(end.blocks)) == (cbor, [outer[0]])


async def test_a_block_inside_of_a_cid_is_no_block_on_the_way() -> None:
    tiny = made.directory({"leaf": made.raw(b"leaf")})
    inline = Cid(DAG_PB, 0, tiny[1][tiny[0]])
    dag = made.directory({"tiny": (inline, {})})
    end = await way(dag, "tiny/leaf", Blocks(dag[1]))
    assert list(end.blocks) == [dag[0]]
    assert [root.hash_code for root in end.roots] == [0x12, 0, 0x12]


@pytest.mark.parametrize(
    "path", ["no", "inner/no", "raw/no", "inner/link/no", "inner/file/no", "in", "INNER", "\udc80"]
)
async def test_what_is_not_there_is_not_found(path: str) -> None:
    """Also below files and links, which are not followed."""
    with pytest.raises(PathNotFound):
        await way(ROOT, path)


async def test_long_paths_are_refused() -> None:
    blocks = Blocks(ROOT[1])
    with pytest.raises(PathNotFound, match=str(MAX_SEGMENTS)):
        await way(ROOT, "/".join("x" * (MAX_SEGMENTS + 1)), blocks)
    assert not blocks.asked


async def test_what_cannot_be_read_is_malformed() -> None:
    """Nodes that are no directories of UnixFS, and data that is none."""
    for dag in (dags.pb(FILE, data=b"?"), (dags.block(0x71, b"\xa1"), {})):
        cid = dag[0]
        with case(cid.codec), pytest.raises(ContentMalformed, match=str(cid)):
            await way((cid, {**dag[1], cid: dag[1].get(cid, b"\xa1")}), "a")
    assert murmur3(b"a")  # a shard that is none
    with pytest.raises(ContentMalformed):
        await way(made.node(made.shard_data(256, function=1), []), "a")


async def test_what_is_missing_or_blocked_on_the_way_is_said() -> None:
    """As it is by whoever has the blocks."""
    held = {cid: data for cid, data in ROOT[1].items() if cid != INNER[0]}
    with pytest.raises(ContentUnavailable, match=str(INNER[0])):
        await way(ROOT, "inner/file", Blocks(held))
    blocks = Blocks(ROOT[1])
    blocks.blocked.add(INNER[0])
    with pytest.raises(Blocked):
        await way(ROOT, "inner/file", blocks)


async def test_the_size_is_that_of_a_file() -> None:
    ways = ContentWays(Blocks(ROOT[1]))
    sizes = [await ways.size(dag[0], "me") for dag in (FILE, made.raw(b"raw"), ROOT)]
    assert sizes == [5_000, 3, None]
    none = [dags.cbor(1), dags.pb(data=b"?"), made.symlink(b"x"), made.sharded({})]
    for cid, blocks in none:
        assert await ContentWays(Blocks(blocks)).size(cid, "me") is None
    assert await ways.size(Cid(RAW, 0, b"tiny"), "me") == 4
