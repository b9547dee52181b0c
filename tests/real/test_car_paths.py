"""CARs of paths and of bytes, read by a real Kubo that has nothing but them.

One Kubo makes the content, the service keeps it, and another one is given each CAR: it must find
the path, and read these bytes, without any other block."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from content_gateway.model.cid import Cid
from tests.cases import case
from tests.chance import SEED
from tests.http.test_trustless import hold
from tests.service import Service, running_service
from tests.world.kubo import Kubo, running_kubo

CONTENT = Random(11).randbytes(3_000_000)
# How Kubo makes files; the first is that of years, with CIDs of version 0.
WAYS: Sequence[Sequence[str]] = [
    ("cid-version=0", "raw-leaves=false"),
    ("chunker=size-10000", "max-file-links=5"),
    ("chunker=size-10000", "trickle=true"),
    ("inline=true", "inline-limit=64"),
    ("hash=blake2b-256",),
]


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Kubo]:
    async with running_kubo(tmp_path / "maker") as kubo:
        yield kubo


@pytest.fixture
async def service(tmp_path: Path, maker: Kubo) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path / "data", embedded__gateways=[maker.gateway_url], embedded__serve=True
    ) as service:
        yield service


async def give(service: Service, reader: Kubo, path: str, query: str = "") -> None:
    """Give *reader* the CAR of *path*."""
    url = f"/ipfs/{quote(path)}?format=car{query}"
    answer = await service.ask("GET", url, key=None)
    assert answer.status == 200, answer.body
    await reader.import_car(answer.body)


async def test_kubo_reads_a_path_and_a_part_of_it(
    tmp_path: Path, maker: Kubo, service: Service
) -> None:
    """Of files in folders, however Kubo made them; what the part does not need is not there."""
    random = Random(SEED)
    for number, way in enumerate(WAYS):
        root = await maker.add_directory({"a/b/large ä": CONTENT, "a/small": b"small"}, *way)
        await hold(service, Cid.parse(root))
        start = random.randrange(1_000_000, 2_000_000)
        length = random.randrange(1, 500_000)
        path = f"{root}/a/b/large ä"
        async with running_kubo(tmp_path / f"reader{number}") as reader:
            with case(way, start, length):
                part = f"&entity-bytes={start}:{start + length - 1}"
                await give(service, reader, path, part)
                read = await reader.cat(path, start, length)
                assert read == CONTENT[start : start + length]
                assert await reader.cat(path) != CONTENT
                await give(service, reader, path, "&dag-scope=entity&car-dups=y")
                assert await reader.cat(path) == CONTENT
                await give(service, reader, f"{root}/a/small")
                assert await reader.cat(f"{root}/a/small") == b"small"


async def test_kubo_finds_a_file_in_a_sharded_folder(
    tmp_path: Path, maker: Kubo, service: Service
) -> None:
    """With the shards on the way to it alone."""
    names = [f"{'long' * 20}-{number}.txt" for number in range(2_500)]
    root = await maker.add_directory({name: name.encode() for name in names})
    await hold(service, Cid.parse(root))
    async with running_kubo(tmp_path / "reader") as reader:
        await give(service, reader, f"{root}/{names[777]}")
        assert await reader.cat(f"{root}/{names[777]}") == names[777].encode()
        assert await reader.cat(f"{root}/{names[778]}") == b""
