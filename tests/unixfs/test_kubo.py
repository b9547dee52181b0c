"""What real Kubo makes of files and folders, read block by block from its gateway."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from content_gateway.backends.embedded.gateway_blocks import GatewayBlocks
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.errors import PathNotFound
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import HttpClient
from content_gateway.unixfs.block_reader import BlockReader
from content_gateway.unixfs.reader import UnixFs
from tests.cases import case
from tests.chance import SEED
from tests.unixfs.blocks import read
from tests.world.kubo import Kubo, running_kubo

# Options of `ipfs add` that change the blocks of a file.
WAYS = [
    (),
    ("chunker=size-1000",),
    ("chunker=size-1000", "trickle=true"),
    ("chunker=size-1000", "raw-leaves=false"),
    ("chunker=rabin-512-1024-2048",),
    ("chunker=buzhash",),
    ("inline=true", "inline-limit=64"),
    ("hash=blake2b-256",),
    ("hash=sha2-512", "chunker=size-1000"),
    ("max-file-links=3", "chunker=size-500"),
]


@pytest.fixture
async def kubo(tmp_path: Path) -> AsyncIterator[Kubo]:
    async with running_kubo(tmp_path) as kubo:
        yield kubo


@pytest.fixture
async def files(kubo: Kubo, outbound: HttpClient) -> AsyncIterator[UnixFs]:
    blocks = BlockReader(None, GatewayBlocks(TrustlessGateways(outbound, [kubo.gateway_url])))
    yield UnixFs(blocks)
    await blocks.close()


async def test_files_are_read_as_kubo_made_them(kubo: Kubo, files: UnixFs) -> None:
    """With every chunker, layout, hash and leaf; whole, and any part of them."""
    random = Random(SEED)
    contents = {f"of-{size}": random.randbytes(size) for size in (0, 1, 40, 1000, 1001, 60_000)}
    for way in WAYS:
        root = Cid.parse(await kubo.add_directory(contents, *way))
        for name, content in contents.items():
            with case(way, name):
                entry = await files.find(root, [name], "me")
                assert entry.size == len(content)
                assert await read(files, entry) == content
                start = random.randint(0, len(content))
                stop = random.randint(start, len(content))
                assert await read(files, entry, start, stop) == content[start:stop]


async def test_a_large_file_is_read_from_its_middle(kubo: Kubo, files: UnixFs) -> None:
    """Of 12 MiB in 48 blocks."""
    content = Random(3).randbytes(12 * 2**20)
    root = Cid.parse(await kubo.add_directory({"large": content}))
    entry = await files.find(root, ["large"], "me")
    assert await read(files, entry, 7_000_000, 9_000_001) == content[7_000_000:9_000_001]


async def test_a_sharded_folder_is_read(kubo: Kubo, files: UnixFs) -> None:
    """Kubo spreads a folder over shards where its list of names has more than 256 KiB."""
    names = [f"{'long' * 20}-{number}.txt" for number in range(2_500)]
    root = Cid.parse(await kubo.add_directory({name: name.encode() for name in names}))
    found = await files.find(root, [], "me")
    assert found.node is not None
    assert found.node.fanout
    for name in [*names[::250], names[-1]]:
        entry = await files.find(root, [name], "me")
        assert await read(files, entry) == name.encode()
    with pytest.raises(PathNotFound):
        await files.find(root, ["nobody"], "me")


async def test_a_folder_in_a_folder_is_read(kubo: Kubo, files: UnixFs) -> None:
    root = Cid.parse(await kubo.add_directory({"a/b/c.txt": b"c", "a/d é.txt": b"d"}))
    for path, content in ((["a", "b", "c.txt"], b"c"), (["a", "d é.txt"], b"d")):
        entry = await files.find(root, path, "me")
        assert await read(files, entry) == content
        assert len(entry.roots) == len(path) + 1
