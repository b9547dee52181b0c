"""GET /ipfs/{cid}: what the embedded store holds, for clients that verify it themselves."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import cbor2
import pytest
from aiohttp import ClientError

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.model.cid import DAG_PB, Cid
from tests.cases import case
from tests.contract import Answer
from tests.fakes.origin import Origin
from tests.ipld import dags
from tests.service import Service, running_service
from tests.waiting import eventually

RAW = "application/vnd.ipld.raw"
CAR = "application/vnd.ipld.car"
CAR_TYPE = "application/vnd.ipld.car; version=1; order=dfs; dups=n"
CAR_WITH_DUPS = CAR_TYPE.replace("dups=n", "dups=y")
FILE = dags.file(20, 5_000, width=4)
SHARED = dags.raw(b"twice")
TREE = dags.pb(SHARED, dags.pb(SHARED, dags.raw(b"once"), data=b"inner"))
NOT_HELD = str(dags.raw(b"nobody has it")[0])
PROBE = "bafkqaaa"


@pytest.fixture
async def service(tmp_path: Path, origin: Origin) -> AsyncIterator[Service]:
    for dag in (FILE, TREE):
        origin.blocks |= dag[1]
    async with running_service(
        tmp_path, embedded__gateways=[origin.url], embedded__serve=True
    ) as service:
        for cid, _ in (FILE, TREE):
            await hold(service, cid)
        yield service


async def hold(service: Service, cid: Cid) -> None:
    """Let *service* pin *cid*; return once it has."""

    async def is_pinned() -> bool:
        answer = await service.ask("GET", f"/ipfs/pin/status/{cid}")
        return bool(answer.json["result"]["status"] == "pinned")

    await service.pin(str(cid))
    await eventually(is_pinned)


async def get(service: Service, path: str, accept: str | None = None, **fields: str) -> Answer:
    headers = [(name.replace("_", "-"), value) for name, value in fields.items()]
    headers.append(("Accept", accept or ""))
    method = "GET"
    return await service.ask(method, f"/ipfs/{path}", key=None, headers=headers)


def read_car(data: bytes) -> tuple[Any, list[tuple[Cid, bytes]]]:
    """Header and blocks of a CAR, by a reader of our own for tests."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    size = varint()
    header = cbor2.loads(data[at : at + size])
    at += size
    blocks = []
    while at < len(data):
        size = varint()
        section = data[at : at + size]
        at += size
        cid = Cid.from_bytes(section[:36])
        blocks.append((cid, section[36:]))
    return header, blocks


async def test_a_block_is_served_as_it_is(service: Service) -> None:
    """With the header fields of content that never changes."""
    root, blocks = FILE
    answer = await get(service, f"{root}?format=raw")
    assert (answer.status, answer.body) == (200, blocks[root])
    expected = {
        "content-type": RAW,
        "content-length": str(len(blocks[root])),
        "content-disposition": f'attachment; filename="{root}.bin"',
        "cache-control": "public, max-age=29030400, immutable",
        "etag": f'"{root}.raw"',
        "accept-ranges": "none",
        "x-content-type-options": "nosniff",
        "x-ipfs-path": f"/ipfs/{root}",
        "x-ipfs-roots": str(root),
        "vary": "accept",
    }
    assert {name: answer.headers.get(name) for name in expected} == expected
    for cid, data in blocks.items():
        assert (await get(service, f"{cid}?format=raw")).body == data


async def test_a_car_has_the_whole_dag(service: Service) -> None:
    """The root first, children after their parents in the order of their links, each once."""
    for dag in (FILE, TREE):
        answer = await get(service, f"{dag[0]}?format=car")
        assert answer.headers["content-type"] == CAR_TYPE
        assert answer.headers["etag"] == f'"{dag[0]}.car.all"'
        assert answer.headers["content-disposition"] == f'attachment; filename="{dag[0]}.car"'
        header, blocks = read_car(answer.body)
        assert header["version"] == 1
        assert header["roots"] == [cbor2.CBORTag(42, b"\0" + bytes(dag[0]))]
        assert blocks == list(dags.in_order(dag))


@pytest.mark.parametrize(
    ("scope", "number"), [("block", 1), ("entity", len(FILE[1])), ("all", len(FILE[1]))]
)
async def test_a_car_can_hold_a_part(service: Service, scope: str, number: int) -> None:
    """The root alone, a file whole, or all there is; each with an ETag of its own."""
    answer = await get(service, f"{FILE[0]}?format=car&dag-scope={scope}")
    assert len(read_car(answer.body)[1]) == number
    assert answer.headers["etag"] == f'"{FILE[0]}.car.{scope}"'
    if scope == "entity":
        same = await get(service, f"{FILE[0]}?format=car&entity-bytes=0:*")
        assert (same.body, same.headers["etag"]) == (answer.body, answer.headers["etag"])


ACCEPTED = [
    (RAW, RAW),
    (CAR, CAR_TYPE),
    (f"{CAR};version=1;order=dfs;dups=n", CAR_TYPE),
    (f'{CAR}; version="1"; order=unk', CAR_TYPE),
    (f"{CAR};order=foo, {CAR};dups=n;q=0.5", CAR_TYPE),
    (f"{CAR};order=dfs;dups=y, {CAR};dups=n;q=0.5", CAR_WITH_DUPS),
    (f"text/html, {RAW}", RAW),
    (f"{RAW};q=0.5, {CAR}", CAR_TYPE),
    (f"{RAW}, {CAR};q=0.5", RAW),
    (f"{RAW};q=0, {CAR};q=0.1", CAR_TYPE),
    (RAW.upper(), RAW),
]


async def test_accept_chooses_the_form(service: Service) -> None:
    """And the answer names a place where the form is in the path."""
    for accept, media_type in ACCEPTED:
        with case(accept, media_type):
            answer = await get(service, str(FILE[0]), accept)
            assert answer.headers["content-type"] == media_type
            form = {RAW: "raw", CAR_TYPE: "car", CAR_WITH_DUPS: "car&car-dups=y"}[media_type]
            assert answer.headers["content-location"] == f"/ipfs/{FILE[0]}?format={form}"


async def test_the_query_goes_before_accept(service: Service) -> None:
    """A link means the same wherever it is followed."""
    for query, accept, media_type in (
        ("format=raw", CAR, RAW),
        ("format=car", RAW, CAR_TYPE),
        ("format=car&car-dups=y", f"{CAR};dups=n", CAR_WITH_DUPS),
        ("format=car&car-order=dfs", f"{CAR};order=foo", CAR_TYPE),
    ):
        with case(query, accept):
            answer = await get(service, f"{FILE[0]}?{query}", accept)
            assert answer.headers["content-type"] == media_type
            assert "content-location" not in answer.headers
    answer = await get(service, f"{FILE[0]}?format=car", f"{CAR};dups=y")
    assert answer.headers["content-type"] == CAR_WITH_DUPS
    assert answer.headers["content-location"] == f"/ipfs/{FILE[0]}?format=car&car-dups=y"


FORMS_NOT_SERVED = [
    ("", None, 400),
    ("", "*/*", 400),
    ("", "text/html", 406),
    ("", "text/html, */*;q=0.8", 406),
    ("", f"{CAR};version=2", 406),
    ("", f"{CAR};order=bfs", 406),
    ("", f"{CAR};dups=maybe", 406),
    ("", f"{RAW};q=0", 406),
    *[("", f"{RAW};q={weight}", 400) for weight in ("x", "inf", "nan", "-0", "1e0", "2", "")],
    ("?format=json", RAW, 406),
    ("?format=", RAW, 406),
    ("?format=RAW", None, 406),
    ("?format=car&car-version=2", None, 406),
    ("?format=car&car-order=bfs", None, 406),
    ("?format=car&car-dups=maybe", None, 406),
    ("/name?format=raw", None, 406),
    ("/name", RAW, 406),
    ("/name", None, 400),
    ("?format=car&dag-scope=some", None, 400),
    ("?format=car&dag-scope=all,block", None, 400),
    *[
        (f"?format=car&entity-bytes={part}", None, 400)
        for part in ("", "5", "5:4", "-4:-5", "*:5", "0:*:1", "0x1:2", "1.5:2", " 1:2")
    ],
    ("?format=raw&format=raw", None, 400),
    ("?format=raw&key=1", None, 400),
]


async def test_a_form_that_is_not_served_is_refused(service: Service) -> None:
    """There is no page to look at, and nothing is guessed."""
    for query, accept, status in FORMS_NOT_SERVED:
        with case(query, accept, status):
            answer = await get(service, f"{FILE[0]}{query}", accept)
            assert answer.status == status
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "query", ["car-version=1&car-order=dfs&car-dups=n", "download=true", "car-order=unk"]
)
async def test_parameters_that_change_nothing_are_taken(service: Service, query: str) -> None:
    """Clients of other gateways send them."""
    assert (await get(service, f"{FILE[0]}?format=car&{query}")).status == 200


async def test_who_has_it_already_gets_nothing(service: Service) -> None:
    """By the validator of that form, and by no other."""
    root = FILE[0]
    for form in ("raw", "car"):
        etag = (await get(service, f"{root}?format={form}")).headers["etag"]
        for sent in (etag, f"W/{etag}", f'"x", {etag}', "*"):
            answer = await get(service, f"{root}?format={form}", If_None_Match=sent)
            assert (answer.status, answer.body) == (304, b""), sent
            assert answer.headers["etag"] == etag
        other = "car" if form == "raw" else "raw"
        answer = await get(service, f"{root}?format={other}", If_None_Match=etag)
        assert answer.status == 200


async def test_a_range_is_not_offered(service: Service) -> None:
    """The whole comes, which a client that asked for a part has to expect."""
    answer = await get(service, f"{FILE[0]}?format=raw", Range="bytes=0-3")
    assert (answer.status, answer.body) == (200, FILE[1][FILE[0]])


async def test_what_is_not_held_is_404(service: Service, origin: Origin) -> None:
    """Also where a gateway would have it: nothing is fetched for a reader."""
    cid, data = dags.raw(b"elsewhere")
    origin.blocks |= data
    asked = len(origin.requests)
    for held in (NOT_HELD, str(cid)):
        for form in ("raw", "car"):
            answer = await get(service, f"{held}?format={form}")
            assert (answer.status, answer.json["code"]) == (404, "not-held")
    answer = await get(service, f"{cid}?format=raw", Cache_Control="max-age=0, only-if-cached")
    assert (answer.status, answer.json["code"]) == (412, "not-held")
    assert len(origin.requests) == asked
    assert (await get(service, "garbage?format=raw")).json["code"] == "invalid-cid"


async def test_every_spelling_is_the_same_content(service: Service) -> None:
    from multiformats import CID

    root = FILE[0]
    for spelling in (str(CID.decode(str(root)).set(base="base36")), str(root).upper()):
        answer = await get(service, f"{spelling}?format=raw")
        assert answer.body == FILE[1][root]
        assert answer.headers["etag"] == f'"{root}.raw"'


async def test_clients_can_probe_for_a_gateway(service: Service) -> None:
    """`bafkqaaa` is the empty identity CID (ipfs/specs trustless-gateway.md, probe paths)."""
    answer = await get(service, f"{PROBE}?format=raw")
    assert (answer.status, answer.body) == (200, b"")
    header, blocks = read_car((await get(service, f"{PROBE}?format=car")).body)
    assert header == {"roots": [cbor2.CBORTag(42, b"\0" + bytes(Cid.parse(PROBE)))], "version": 1}
    assert blocks == []


async def test_head_is_get_without_a_body(service: Service) -> None:
    """The same header fields, for blocks, CARs and what is not there."""
    for path in (f"{FILE[0]}?format=raw", f"{FILE[0]}?format=car", f"{PROBE}?format=raw"):
        full = await get(service, path)
        head = await service.ask("HEAD", f"/ipfs/{path}", key=None)
        assert (head.status, head.body) == (200, b"")
        left_out = {"x-request-id", "date", "transfer-encoding"}
        for name in full.headers.keys() - left_out:
            assert head.headers[name] == full.headers[name]
    etag = full.headers["etag"]
    headers = [("If-None-Match", etag)]
    answer = await service.ask("HEAD", f"/ipfs/{PROBE}?format=raw", key=None, headers=headers)
    assert answer.status == 304


async def test_nothing_is_served_unless_that_was_configured(tmp_path: Path, origin: Origin) -> None:
    origin.blocks |= FILE[1]
    async with running_service(tmp_path / "off", embedded__gateways=[origin.url]) as service:
        await hold(service, FILE[0])
        for path in (f"{FILE[0]}?format=raw", FILE[0], PROBE, "garbage"):
            answer = await get(service, str(path))
            assert (answer.status, answer.json["code"]) == (404, "not-found")
        answer = await service.ask("POST", f"/ipfs/{FILE[0]}", key=None)
        assert answer.status == 404


async def test_one_instance_feeds_another(tmp_path: Path, service: Service) -> None:
    """The second one holds the same blocks, fetched from the first alone."""
    async with running_service(
        tmp_path / "second", embedded__gateways=[service.url], embedded__serve=True
    ) as second:
        await hold(second, FILE[0])
        answer = await get(second, f"{FILE[0]}?format=car")
        assert read_car(answer.body)[1] == list(dags.in_order(FILE))


CODECS = [DAG_PB, 0x78, 0x85]
SCOPES = ["all", "entity"]


async def test_what_cannot_be_walked_is_404(service: Service) -> None:
    """A CID that holds its own bytes, of a codec they are not, is the asker's error."""
    for codec in CODECS:
        for scope in SCOPES:
            with case(codec, scope):
                cid = Cid(codec, IDENTITY, b"abc")
                answer = await get(service, f"{cid}?format=car&dag-scope={scope}")
                assert answer.status in (
                    (404,) if scope == "all" or codec == DAG_PB else (200, 404)
                )


async def test_a_blocked_block_is_not_served_inside_its_parents_car(
    tmp_path: Path, origin: Origin
) -> None:
    """The CAR of a small DAG is 451; that of a large one, which has begun, ends with a reset; and a
    pin of what holds the block says why it fails."""
    large = dags.file(800, 3_000)
    last = list(dags.in_order(large))[-1][0]
    listed = tmp_path / "list.deny"
    listed.write_text("# nothing\n")
    origin.blocks |= FILE[1] | TREE[1] | large[1]
    async with running_service(
        tmp_path / "data",
        embedded__gateways=[origin.url],
        embedded__serve=True,
        denylist__content_file=listed,
    ) as service:
        await hold(service, TREE[0])
        await hold(service, large[0])
        new = listed.with_suffix(".new")
        new.write_text(f"/ipfs/{SHARED[0]}\n/ipfs/{last}\n/ipfs/{list(FILE[1])[7]}\n")
        new.replace(listed)

        async def is_blocked() -> bool:
            return (await get(service, f"{SHARED[0]}?format=raw")).status == 451

        await eventually(is_blocked)
        for held in (SHARED, TREE):
            answer = await get(service, f"{held[0]}?format=car")
            assert (answer.status, answer.json["code"]) == (451, "blocked")
        assert (await get(service, f"{TREE[0]}?format=car&dag-scope=block")).status == 200
        with pytest.raises(ClientError):
            await get(service, f"{large[0]}?format=car")
        await service.pin(str(FILE[0]))

        async def has_failed() -> bool:
            answer = await service.ask("GET", f"/ipfs/pin/status/{FILE[0]}")
            result = answer.json["result"]
            return result["status"] == "failed" and "blocked by the operator" in result["reason"]

        await eventually(has_failed)
