"""Files, directories, shards and links, as their makers write them, and as nobody should."""

from collections.abc import Callable
from random import Random

import pytest

from content_gateway.errors import Blocked, ContentMalformed, ContentUnavailable, PathNotFound
from content_gateway.ipld.hamt import murmur3
from content_gateway.model.cid import DAG_CBOR, DAG_PB, RAW, Cid
from content_gateway.unixfs.reader import MAX_LEVELS, UnixFs
from tests.cases import case
from tests.chance import SEED
from tests.unixfs import made
from tests.unixfs.blocks import Blocks, read
from tests.unixfs.made import Dag

CONTENT = Random(2).randbytes(50_000)


def opened(dag: Dag) -> tuple[UnixFs, Blocks]:
    blocks = Blocks(dag[1])
    return UnixFs(blocks), blocks


async def test_any_part_of_any_file_is_read() -> None:
    """However it is cut into parts, and from wherever to wherever it is read."""
    random = Random(SEED)
    for _ in range(150):
        size = random.choice([0, 1, 7, 1000, 1001, 12_345])
        content = random.randbytes(size)
        inline = random.randbytes(random.choice([0, 0, 1, 50]))
        chunk, width = random.choice([1, 3, 100, 1000]), random.choice([2, 3, 10, 174])
        if size // chunk > 2000:
            chunk = 1000
        dag = made.file(content, chunk=chunk, width=width, inline=inline)
        whole = inline + content
        files, _ = opened(dag)
        entry = await files.find(dag[0], [], "me")
        assert entry.size == len(whole)
        start = random.randint(0, len(whole))
        stop = random.randint(start, len(whole))
        with case(size, chunk, width, len(inline), start, stop):
            assert await read(files, entry) == whole
            assert await read(files, entry, start, stop) == whole[start:stop]


async def test_only_what_is_wanted_is_fetched() -> None:
    """Of a file of fifty blocks, those on the way to ten bytes; and a few of what is ahead."""
    dag = made.file(CONTENT, chunk=1000, width=5)
    files, blocks = opened(dag)
    entry = await files.find(dag[0], [], "me")
    blocks.asked.clear()
    assert await read(files, entry, 33_333, 33_343) == CONTENT[33_333:33_343]
    assert len(blocks.asked) == 4  # the root again, two nodes, a leaf


async def test_a_slow_reader_costs_few_blocks() -> None:
    """What is ahead is fetched, and no more than a mebibyte of it, in eight blocks at most."""
    dag = made.file(CONTENT, chunk=100, width=500)
    files, blocks = opened(dag)
    entry = await files.find(dag[0], [], "me")
    pieces = files.read(entry, 0, entry.size, "me")
    assert await anext(pieces) == CONTENT[:100]
    assert len(blocks.asked) <= 2 + 8
    await pieces.aclose()
    assert blocks.at_once == 0
    large = made.file(bytes(4 * 2**20), chunk=2**20)
    files, blocks = opened(large)
    pieces = files.read(await files.find(large[0], [], "me"), 0, 4 * 2**20, "me")
    await anext(pieces)
    assert blocks.most_at_once <= 2
    await pieces.aclose()


@pytest.mark.parametrize("make", [made.directory, made.sharded])
async def test_a_name_is_found_in_a_directory(make: Callable[[dict[str, Dag]], Dag]) -> None:
    """In one block or in shards of any depth, and nothing else is; names are bytes of UTF-8."""
    names = [*(f"file-{number}.txt" for number in range(1500)), "été", "a" * 255, "00", "F"]
    dag = make({name: made.raw(name.encode()) for name in names})
    files, _ = opened(dag)
    root = await files.find(dag[0], [], "me")
    assert root.is_directory
    for name in names[::7] + names[-4:]:
        entry = await files.child(root, name, "me")
        assert entry is not None
        assert await read(files, entry) == name.encode()
    for name in ("file-1500.txt", "", "0", "..", ".", "\udcff", "a" * 256, "01"):
        assert await files.child(root, name, "me") is None


async def test_shards_of_every_fanout_are_read() -> None:
    for fanout in (8, 16, 256, 1024):
        dag = made.sharded({str(n): made.raw(b"%d" % n) for n in range(300)}, fanout=fanout)
        files, _ = opened(dag)
        for number in (0, 7, 299):
            entry = await files.find(dag[0], [str(number)], "me")
            assert await read(files, entry) == b"%d" % number


async def test_a_path_goes_from_directory_to_directory() -> None:
    """The CIDs on the way are told; what is missing is told by its name."""
    inner = made.directory({"b.txt": made.raw(b"b"), "link": made.symlink(b"../x")})
    dag = made.directory({"a": made.sharded({"inner": inner}), "x": made.raw(b"x")})
    files, _ = opened(dag)
    entry = await files.find(dag[0], ["a", "inner", "b.txt"], "me")
    assert len(entry.roots) == 4
    assert (entry.roots[0], entry.roots[-1]) == (dag[0], made.raw(b"b")[0])
    link = await files.find(dag[0], ["a", "inner", "link"], "me")
    assert link.is_symlink
    assert await read(files, link) == b"../x"
    for path in (["b"], ["x", "y"], ["a", "inner", "link", "x"], ["a", ""], ["a"] * 200):
        with case(path[:5]), pytest.raises(PathNotFound):
            await files.find(dag[0], path, "me")


async def test_a_missing_block_is_no_missing_file() -> None:
    part = made.raw(CONTENT[:1000])[0]
    cid, held = made.file(CONTENT, chunk=1000)
    files, blocks = opened((cid, {key: data for key, data in held.items() if key != part}))
    with pytest.raises(ContentUnavailable):
        await read(files, await files.find(cid, [], "me"))
    assert blocks.at_once == 0


async def test_the_parts_of_a_file_are_asked_of_the_denylist_first() -> None:
    """All that its root links to, before a byte of it was read; what is below, when it is met."""
    cid, held = made.file(CONTENT, chunk=1000, width=100)
    files, blocks = opened((cid, held))
    blocks.blocked.add(made.raw(CONTENT[-1000:])[0])
    with pytest.raises(Blocked):
        await files.find(cid, [], "me")


def _file(sizes: list[int], parts: list[Dag], size: int | None = None, data: bytes = b"") -> Dag:
    whole = len(data) + sum(sizes) if size is None else size
    unixfs = made.unixfs(made.FILE, data=data, size=whole, parts=sizes)
    return made.node(unixfs, [(b"", part) for part in parts])


LEAF = made.raw(b"leaf")
INNER = _file([4], [LEAF])
CBOR = (Cid(DAG_CBOR, 0x12, bytes(32)), {Cid(DAG_CBOR, 0x12, bytes(32)): b"\xa0"})
LIARS = {
    "a leaf is shorter": _file([5], [LEAF]),
    "a leaf is longer": _file([3], [LEAF]),
    "a node is shorter": _file([5], [INNER]),
    "it has other bytes than it says": _file([4], [LEAF], size=5),
    "fewer sizes than parts": _file([4], [LEAF, LEAF], size=4),
    "more sizes than parts": _file([4, 4], [LEAF], size=8),
    "a directory as a part": _file([4], [made.directory({"a": LEAF})]),
    "a link as a part": _file([4], [made.symlink(b"leaf")]),
    "cbor as a part": _file([4], [CBOR]),
    "no UnixFS": made.node(b"", []),
    "garbage": made.node(b"\xff\xff\xff", []),
    "an unknown type": made.node(b"\x08\x09", []),
    "metadata": made.node(b"\x08\x03", []),
    "a shard with another hash": made.node(made.shard_data(256, 0x12), []),
    "a shard with a fanout of 7": made.node(made.shard_data(7), []),
    "a shard with a fanout of 2^40": made.node(made.shard_data(2**40), []),
    "a shard without end": made.node(made.unixfs(made.SHARD), []),
}


async def test_what_contradicts_itself_is_refused() -> None:
    """And no byte is given out that was not announced."""
    for name, (cid, held) in LIARS.items():
        files, blocks = opened((cid, held))
        with case(name), pytest.raises(ContentMalformed):
            await read(files, await files.find(cid, [], "me"))
        assert blocks.at_once == 0


async def test_hostile_shapes_end() -> None:
    """A file of many levels, of parts of nothing, of the same part again and again."""
    deep = LEAF
    for _ in range(MAX_LEVELS + 1):
        deep = _file([4], [deep])
    files, _ = opened(deep)
    with pytest.raises(ContentMalformed):
        await read(files, await files.find(deep[0], [], "me"))
    empty = _file([0] * 10_000, [LEAF] * 10_000)
    files, blocks = opened(empty)
    assert await read(files, await files.find(empty[0], [], "me")) == b""
    assert len(blocks.asked) == 1
    # Ten million million bytes in a few blocks: as much is read as is asked for.
    bomb = made.raw(bytes(1000))
    size = 1000
    for _ in range(4):
        bomb = _file([size] * 1000, [bomb] * 1000)
        size *= 1000
    files, blocks = opened(bomb)
    entry = await files.find(bomb[0], [], "me")
    assert entry.size == 10**15
    assert await read(files, entry, 10**15 - 10, 10**15) == bytes(10)
    assert len(blocks.asked) <= 12
    wide = made.file(bytes(10), chunk=1, width=10)
    for _ in range(2):
        part = (await opened(wide)[0].find(wide[0], [], "me")).size
        wide = _file([part] * 40_000, [wide] * 40_000)
    files, _ = opened(wide)
    pieces = files.read(await files.find(wide[0], [], "me"), 0, 1000, "me")
    assert await anext(pieces) == b"\0"
    await pieces.aclose()


async def test_shards_that_lead_nowhere_end() -> None:
    """One that links to itself cannot be; one that links to another for ever, of any kind, can."""
    name = "name"
    chain = made.node(made.shard_data(256), [])
    bits = murmur3(name.encode())
    for level in reversed(range(8)):
        slot = bits >> (56 - 8 * level) & 255
        chain = made.node(made.shard_data(256), [(f"{slot:02X}".encode(), chain)])
    files, _ = opened(chain)
    with pytest.raises(ContentMalformed):
        await files.find(chain[0], [name], "me")
    first = f"{bits >> 56:02X}".encode()
    for below in (made.directory({}), LEAF, made.node(made.shard_data(8), [])):
        wrong = made.node(made.shard_data(256), [(first, below)])
        files, _ = opened(wrong)
        with pytest.raises(ContentMalformed):
            await files.find(wrong[0], [name], "me")


async def test_content_of_other_kinds_is_told_apart() -> None:
    """What is neither a file nor a directory is not there to be shown, and nothing is fetched."""
    files, blocks = opened(CBOR)
    with pytest.raises(PathNotFound, match="dag-cbor"):
        await files.find(CBOR[0], [], "me")
    assert blocks.asked == []


async def test_a_block_may_stand_in_its_cid() -> None:
    """Small files do, as some writers make them; nobody is asked for them."""
    inline = Cid(RAW, 0, b"small")
    node = Cid(DAG_PB, 0, b"\x0a\x04\x08\x02\x18\x00")
    dag = made.directory({"raw": (inline, {}), "empty": (node, {})})
    files, blocks = opened(dag)
    assert await read(files, await files.find(dag[0], ["raw"], "me")) == b"small"
    assert (await files.find(dag[0], ["empty"], "me")).size == 0
    assert set(blocks.asked) == {dag[0]}
