"""CARs of paths, and of bytes of files: enough to check the answer offline, and no more.

Each CAR is decoded, every block hashed, and the file read again from these blocks alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from aiohttp import ClientError

from content_gateway.errors import PathNotFound
from content_gateway.model.cid import Cid
from content_gateway.unixfs.reader import UnixFs
from tests.cases import case
from tests.chance import SEED
from tests.contract import Answer
from tests.fakes.origin import Origin
from tests.http.test_trustless import CAR, CAR_TYPE, CAR_WITH_DUPS, RAW, get, hold, read_car
from tests.ipld import dags
from tests.service import Service, running_service
from tests.unixfs import made
from tests.unixfs.blocks import Blocks, read
from tests.waiting import eventually

CONTENT = Random(7).randbytes(9_999)
FILE = made.file(CONTENT, chunk=100, width=5)
SAME = made.file(b"same" * 100, chunk=4, width=10)
NAMES = {f"{number}.txt": made.raw(b"%d" % number) for number in range(300)}
SHARDED = made.sharded(NAMES | {"file": FILE}, fanout=16)
DATA = dags.cbor({"list": [dags.link(FILE)], "text": "x"}, FILE)
ROOT = made.directory({"dir": made.directory({"file ä?": FILE, "same": SAME}), "names": SHARDED,
                       "data": DATA})  # fmt: skip
DIRECTORY = made.directory({"file ä?": FILE, "same": SAME})[0]
PATH = f"{ROOT[0]}/dir/file%20%C3%A4%3F"


@pytest.fixture
async def service(tmp_path: Path, origin: Origin) -> AsyncIterator[Service]:
    origin.blocks |= ROOT[1]
    async with running_service(
        tmp_path, embedded__gateways=[origin.url], embedded__serve=True
    ) as service:
        await hold(service, ROOT[0])
        yield service


@asynccontextmanager
async def denying(listed: Path, data: Path, origin: Origin) -> AsyncIterator[Service]:
    """A service that holds ROOT, with the denylist in *listed*."""
    origin.blocks |= ROOT[1]
    async with running_service(
        data,
        embedded__gateways=[origin.url],
        embedded__serve=True,
        denylist__content_file=listed,
    ) as service:
        await hold(service, ROOT[0])
        yield service


async def car(service: Service, path: str, query: str = "") -> tuple[Answer, list[Cid]]:
    """The answer, and the CIDs in its CAR, each of whose blocks was hashed."""
    answer = await get(service, f"{path}?format=car{query}")
    assert answer.status == 200, answer.body
    blocks = read_car(answer.body)[1]
    assert all(sha256(data).digest() == cid.digest for cid, data in blocks)
    return answer, [cid for cid, _ in blocks]


async def offline(answer: Answer, segments: Sequence[str], start: int, stop: int) -> bytes:
    """The bytes of the file at that path, by the blocks of the CAR alone."""
    files = UnixFs(Blocks(dict(read_car(answer.body)[1])))
    entry = await files.find(ROOT[0], segments, "me")
    return await read(files, entry, start, stop)


async def test_a_car_of_a_path_begins_with_its_blocks(service: Service) -> None:
    """Then what the scope says of the DAG at its end, which the header names."""
    for scope, below in (("all", FILE[1]), ("entity", FILE[1]), ("block", {FILE[0]: b""})):
        with case(scope):
            answer, cids = await car(service, PATH, f"&dag-scope={scope}")
            assert cids[:3] == [ROOT[0], DIRECTORY, FILE[0]]
            assert set(cids[2:]) == set(below)
            assert len(cids) == 2 + len(below)
            expected = {
                "content-type": CAR_TYPE,
                "content-disposition": f'attachment; filename="{FILE[0]}.car"',
                "cache-control": "public, max-age=29030400, immutable",
                "etag": f'"{FILE[0]}.car.{scope}"',
                "accept-ranges": "none",
                "x-content-type-options": "nosniff",
                "x-ipfs-path": f"/ipfs/{PATH}",
                "x-ipfs-roots": f"{ROOT[0]},{DIRECTORY},{FILE[0]}",
            }
            assert {name: answer.headers.get(name) for name in expected} == expected
            assert read_car(answer.body)[0]["roots"][0].value == b"\0" + bytes(FILE[0])
    assert await offline((await car(service, PATH))[0], ["dir", "file ä?"], 0, 9_999) == CONTENT


async def test_a_directory_is_its_names_or_all_below(service: Service) -> None:
    """Sharded, too: `entity` is every shard, and no file."""
    shards = {cid for cid in SHARDED[1] if cid.codec == 0x70} - set(FILE[1])
    for path, scope, below in (
        ("names", "entity", shards),
        ("names", "all", set(SHARDED[1])),
        ("names", "block", {SHARDED[0]}),
        ("dir", "entity", {DIRECTORY}),
    ):
        with case(path, scope):
            _, cids = await car(service, f"{ROOT[0]}/{path}/", f"&dag-scope={scope}")
            assert cids[0] == ROOT[0]
            assert set(cids[1:]) == below
            assert len(cids) == 1 + len(below)


async def test_paths_lead_through_shards_and_data(service: Service) -> None:
    """Only the shards on the way come; a path that ends in a map ends at its block."""
    answer, cids = await car(service, f"{ROOT[0]}/names/file")
    assert cids[:2] == [ROOT[0], SHARDED[0]]
    assert len(cids) <= 5 + len(FILE[1])
    assert await offline(answer, ["names", "file"], 0, 9_999) == CONTENT
    _, cids = await car(service, f"{ROOT[0]}/data/list/0", "&dag-scope=block")
    assert cids == [ROOT[0], DATA[0], FILE[0]]
    _, cids = await car(service, f"{ROOT[0]}/data/text", "&dag-scope=entity")
    assert cids == [ROOT[0], DATA[0]]


async def test_bytes_of_a_file_bring_the_blocks_they_need(service: Service) -> None:
    """The first and the last of them, as drawn; with those of the path before them."""
    random = Random(SEED)
    for _ in range(20):
        first = random.randint(0, 9_998)
        last = random.randint(first, 9_998)
        from_end = random.random() < 0.3
        text = f"{first - 9_999}:{last - 9_999}" if from_end else f"{first}:{last}"
        with case(text):
            answer, cids = await car(service, PATH, f"&entity-bytes={text}")
            assert answer.headers["etag"] == f'"{FILE[0]}.car.entity.{text}"'
            segments = ["dir", "file ä?"]
            read = await offline(answer, segments, first, last + 1)
            assert read == CONTENT[first : last + 1]
            leaves = last // 100 - first // 100 + 1
            assert len([cid for cid in cids if cid.codec == 0x55]) == leaves
            _, alone = await car(service, str(FILE[0]), f"&entity-bytes={text}")
            assert [ROOT[0], DIRECTORY, *alone] == cids


async def test_bytes_that_are_none_bring_the_root_or_an_error(service: Service) -> None:
    """None between: the root alone. All outside: 400. Of what is no file the bytes are ignored."""
    _, cids = await car(service, PATH, "&entity-bytes=9000:-9000")
    assert cids == [ROOT[0], DIRECTORY, FILE[0]]
    for text in ("9999:*", "-20000:-10000"):
        answer = await get(service, f"{PATH}?format=car&entity-bytes={text}")
        assert (answer.status, answer.json["code"]) == (400, "invalid-query")
        head = await service.ask("HEAD", f"/ipfs/{PATH}?format=car&entity-bytes={text}", key=None)
        assert head.status == 400
    for path in (f"{ROOT[0]}/dir", f"{ROOT[0]}/data"):
        _, cids = await car(service, path, "&entity-bytes=5:10")
        assert len(cids) == 2


async def test_blocks_come_again_where_that_is_asked_for(service: Service) -> None:
    """By Accept or by the query; a reader then needs to remember none."""
    path = f"{ROOT[0]}/dir/same"
    once, cids = await car(service, path)
    assert len(set(cids)) == len(cids)
    often, repeated = await car(service, path, "&car-dups=y")
    assert list(dict.fromkeys(repeated)) == cids
    assert repeated.count(made.raw(b"same")[0]) == 100
    assert often.headers["content-type"] == CAR_WITH_DUPS
    assert often.headers["etag"] == f'"{SAME[0]}.car.all.dups"'
    answer = await get(service, path, f"{CAR};dups=y")
    assert answer.body == often.body
    assert answer.headers["content-location"] == f"/ipfs/{path}?format=car&car-dups=y"
    assert once.headers["etag"] != often.headers["etag"]


async def test_a_path_has_cars_alone(service: Service) -> None:
    """A raw block is its CID's (ipfs/specs trustless-gateway.md); of two forms the CAR is taken."""
    assert (await get(service, f"{PATH}?format=raw")).status == 406
    assert (await get(service, PATH, RAW)).status == 406
    assert (await get(service, PATH)).status == 400
    answer = await get(service, PATH, f"{RAW}, {CAR};q=0.5")
    assert answer.headers["content-type"] == CAR_TYPE
    assert answer.headers["content-location"] == f"/ipfs/{PATH}?format=car"


async def test_that_a_path_leads_nowhere_is_proven(service: Service) -> None:
    """A 404 would have to be believed: the CAR has the blocks in which there is nothing."""
    for path, blocks in (
        ("no", [ROOT[0]]),
        ("dir/no", [ROOT[0], DIRECTORY]),
        ("dir/same/no", [ROOT[0], DIRECTORY, SAME[0]]),
        ("data/no", [ROOT[0], DATA[0]]),
        ("dir/file", [ROOT[0], DIRECTORY]),
    ):
        for query in ("", "&entity-bytes=0:5", "&dag-scope=block&car-dups=y"):
            with case(path, query):
                answer, cids = await car(service, f"{ROOT[0]}/{path}", query)
                assert cids == blocks
                files = UnixFs(Blocks(dict(read_car(answer.body)[1])))
                with pytest.raises(PathNotFound):
                    await files.find(ROOT[0], path.split("/"), "me")
    _, cids = await car(service, f"{ROOT[0]}/names/301.txt")
    assert set(cids) < {ROOT[0], *SHARDED[1]}
    long = "/".join("a" * 129)
    answer = await get(service, f"{ROOT[0]}/{long}?format=car")
    assert (answer.status, answer.json["code"]) == (404, "path-not-found")
    missing = dags.raw(b"nobody has it")[0]
    answer = await get(service, f"{missing}/a?format=car")
    assert (answer.status, answer.json["code"]) == (404, "not-held")
    answer = await get(service, f"{missing}/a?format=car", Cache_Control="only-if-cached")
    assert answer.status == 412
    assert (await get(service, "pin/a?format=car")).json["code"] == "invalid-cid"


async def test_head_and_conditional_requests(service: Service) -> None:
    """The same fields without a body, and nothing for who has it already."""
    for query in ("", "&entity-bytes=5:10", "&dag-scope=block&car-dups=y"):
        path = f"{PATH}?format=car{query}"
        full = await get(service, path)
        head = await service.ask("HEAD", f"/ipfs/{path}", key=None)
        assert (head.status, head.body) == (200, b"")
        for name in full.headers.keys() - {"x-request-id", "date", "transfer-encoding"}:
            assert head.headers[name] == full.headers[name]
        answer = await get(service, path, If_None_Match=full.headers["etag"])
        assert (answer.status, answer.body) == (304, b"")


async def test_a_name_for_the_file_can_be_chosen(service: Service) -> None:
    answer = await get(service, f"{PATH}?format=car&filename=%D1%82.car")
    expected = "attachment; filename=\"_.car\"; filename*=UTF-8''%D1%82.car"
    assert answer.headers["content-disposition"] == expected
    answer = await get(service, f"{ROOT[0]}?format=raw&filename={'x' * 256}")
    assert answer.status == 400


async def test_what_is_blocked_is_served_in_no_car(tmp_path: Path, origin: Origin) -> None:
    """In the path, at its end, and below it; what does not need the block is served."""
    listed = tmp_path / "list.deny"
    listed.write_text("# nothing\n")
    async with denying(listed, tmp_path / "data", origin) as service:
        last = made.raw(CONTENT[-99:])[0]

        async def block(*cids: Cid) -> None:
            new = listed.with_suffix(".new")
            new.write_text("".join(f"/ipfs/{cid}\n" for cid in cids))
            new.replace(listed)

            async def is_blocked() -> bool:
                return (await get(service, f"{cids[-1]}?format=raw")).status == 451

            await eventually(is_blocked)

        for blocked in (ROOT[0], DIRECTORY, FILE[0]):
            await block(blocked)
            for query in ("", "&dag-scope=block", "&entity-bytes=0:5"):
                answer = await get(service, f"{PATH}?format=car{query}")
                assert (answer.status, answer.json["code"]) == (451, "blocked")
        await block(last)
        await car(service, PATH, "&entity-bytes=0:99")
        for query in ("", "&entity-bytes=-1:*"):
            try:
                answer = await get(service, f"{PATH}?format=car{query}")
                assert answer.status == 451
            except ClientError:  # it had begun
                pass


async def test_a_rule_about_a_path_holds_for_its_car_and_block(
    tmp_path: Path, origin: Origin
) -> None:
    """IPIP-383: that path, however it is written, and not what is beside it."""
    listed = tmp_path / "list.deny"
    listed.write_text(f"/ipfs/{PATH}\n/ipfs/{ROOT[0]}/names/*\n")
    async with denying(listed, tmp_path / "data", origin) as service:
        for path in (PATH, PATH.replace("/dir/", "//%64ir/"), f"{ROOT[0]}/names/7.txt"):
            for form in ("car", "raw"):
                with case((path, form)):
                    answer = await get(service, f"{path}?format={form}")
                    assert (answer.status, answer.json["code"]) == (451, "blocked")
        await car(service, f"{ROOT[0]}/dir/same")
