"""Kubo as a pin backend, before a real daemon: its words, its trap, its progress, its patience.

An offline daemon says at once what it does not have; one that belongs to a swarm asks the others
for it, and waits."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.codecs.multiformats import BASE32, SHA2_256
from content_gateway.errors import PinFailed, UpstreamTimeout, UpstreamUnavailable
from content_gateway.model.cid import CODECS, DAG_CBOR, DAG_PB, RAW, Cid
from content_gateway.model.content_state import TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import ABSENT, pin, pinset, refused, status, status_of
from tests.ipld.dags import Dag, pb, raw
from tests.waiting import eventually
from tests.world.kubo import Kubo as Node
from tests.world.kubo import Swarm, running_kubo, running_kubos
from tests.world.peers import ask


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A daemon that is offline."""
    async with running_kubo(tmp_path / "kubo") as node:
        yield node


@pytest.fixture
async def lonely(tmp_path: Path) -> AsyncIterator[Node]:
    """A daemon that is online, and the only one of its swarm: it waits for what it has not."""
    async with running_kubo(tmp_path / "kubo", Swarm()) as node:
        yield node


@pytest.fixture
def kubo(outbound: HttpClient, node: Node) -> Kubo:
    return Kubo(outbound, node.url)


async def call(node: Node, command: str, form: aiohttp.FormData | None = None) -> str:
    """The text of an answer, whatever its status."""
    return (await ask("POST", f"{node.url}/api/v0/{command}", data=form))[1]


async def put(node: Node, dag: Dag) -> Cid:
    """The root of *dag*, whose blocks are then in the node's repository, unpinned."""
    for cid, data in dag[1].items():
        assert Cid.parse(await node.add_block(data, CODECS[cid.codec])) == cid
    return dag[0]


async def add_file(node: Node, content: bytes, chunk: int) -> Cid:
    """A UnixFS file in raw leaves of *chunk* bytes, unpinned."""
    form = aiohttp.FormData()
    form.add_field("file", content, filename="file")
    options = f"cid-version=1&raw-leaves=true&pin=false&chunker=size-{chunk}"
    return Cid.parse(
        json.loads((await call(node, f"add?{options}", form)).splitlines()[-1])["Hash"]
    )


async def lose(node: Node, cid: Cid, directory: Path) -> None:
    """The block *cid* goes from the repository in *directory*, as with a broken disk."""
    await node.stop()
    (file,) = directory.rglob(f"{BASE32.encode(cid.multihash).upper()}.data")
    file.unlink()
    await node.start()


async def is_idle(node: Node) -> bool:
    """Whether the daemon runs no `pin/add`."""
    commands = json.loads(await call(node, "diag/cmds?verbose=true")) or []
    return not any(one["Active"] and one["Command"] == "pin/add" for one in commands)


async def test_a_pin_is_seen_and_listed_and_released_twice(kubo: Kubo, node: Node) -> None:
    """The whole life of a pin, in the daemon's own words."""
    own = await pinset(kubo)  # a new repository has pins of its own, all of version 0
    cid = Cid.parse(await node.add_directory({"a": b"1", "b/c": b"2"}))
    assert await status(kubo, cid) is TrackerStatus.ABSENT
    assert (await pin(kubo, cid)).status is TrackerStatus.PINNED
    assert await node.is_pinned(str(cid))
    seen = await status_of(kubo, cid)
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.PINNED, 1, 1)
    assert [peer.name for peer in seen.peers] == [json.loads(await call(node, "id"))["ID"]]
    assert (own, await pinset(kubo)) == (set(), {cid})
    await kubo.unpin(cid)
    assert await status(kubo, cid) is TrackerStatus.ABSENT
    await kubo.unpin(cid)
    assert await pinset(kubo) == set()


async def test_a_pin_whose_content_is_gone_is_not_dropped(
    kubo: Kubo, node: Node, tmp_path: Path
) -> None:
    """Asked to pin once more, the daemon would drop the pin and lose it: so it is not asked."""
    leaf = raw(b"leaf")
    cid = await put(node, pb(leaf))
    await pin(kubo, cid)
    await lose(node, leaf[0], tmp_path)
    assert (await pin(kubo, cid)).status is TrackerStatus.PINNED
    assert await node.is_pinned(str(cid))

    assert "could not find" in await call(node, f"pin/add?arg={cid}")
    assert not await node.is_pinned(str(cid)), "the trap is real"


async def test_pins_of_other_kinds_are_not_ours(kubo: Kubo, node: Node) -> None:
    """Direct, indirect and version 0: absent for us, and left alone when we released."""
    leaf = raw(b"leaf")
    above = await put(node, pb(leaf))
    direct = await put(node, raw(b"direct"))
    await pin(kubo, above)
    await call(node, f"pin/add?arg={direct}&recursive=false")
    form = aiohttp.FormData()
    form.add_field("file", b"version 0", filename="file")
    v0 = json.loads(await call(node, "add?cid-version=0&pin=true", form))["Hash"]
    for cid in (leaf[0], direct, Cid.parse(v0)):
        assert await status(kubo, cid) is TrackerStatus.ABSENT
        await kubo.unpin(cid)
    assert await pinset(kubo) == {above}
    kept = await call(node, "pin/ls?type=all")
    assert all(text in kept for text in (str(leaf[0]), str(direct), v0))


async def test_both_versions_of_one_dag_are_two_pins(kubo: Kubo, node: Node) -> None:
    """Ours is in version 1, whatever was pinned in version 0 before."""
    form = aiohttp.FormData()
    form.add_field("file", b"version 0", filename="file")
    v0 = json.loads(await call(node, "add?cid-version=0&pin=true", form))["Hash"]
    cid = Cid.parse(v0)
    await pin(kubo, cid)
    assert await pinset(kubo) == {cid}
    await kubo.unpin(cid)
    assert await status(kubo, cid) is TrackerStatus.ABSENT
    assert await node.is_pinned(v0)


async def test_missing_and_broken_content_is_refused_with_a_reason(kubo: Kubo, node: Node) -> None:
    """In words for people, whatever is missing or wrong; and the daemon is none the worse."""
    leaf = raw(b"no node of any kind")
    digest = leaf[0].digest
    assert "is offline and does not have all of it" in await refused(kubo, leaf[0])
    whole = pb(leaf)
    root = await put(node, (whole[0], {whole[0]: whole[1][whole[0]]}))
    assert "is offline and does not have all of it" in await refused(kubo, root)
    await put(node, leaf)
    assert "not the dag-pb node" in await refused(kubo, Cid(DAG_PB, SHA2_256, digest))
    assert "after end of cbor" in await refused(kubo, Cid(DAG_CBOR, SHA2_256, digest))
    assert (await pin(kubo, root)).status is TrackerStatus.PINNED


async def test_the_words_of_every_codec_are_understood(kubo: Kubo, node: Node) -> None:
    """Whatever decoder chokes on a block, the content has failed, and not the daemon."""
    digest = (await put(node, raw(b"garbage"))).digest
    for codec in CODECS.keys() - {RAW}:
        cid = Cid(codec, SHA2_256, digest)
        assert await status(kubo, cid) is TrackerStatus.ABSENT
        assert (await refused(kubo, cid)).startswith("Kubo could not pin it: ")


@pytest.mark.timeout(600)  # two daemons on a busy machine
async def test_progress_of_thousands_of_blocks(outbound: HttpClient, tmp_path: Path) -> None:
    """Fetched from another daemon: numbers that grow, up to all of them."""
    async with running_kubos(tmp_path, 2) as (node, other):
        leaves, size = 2_000, 64
        content = b"".join(b"%064d" % number for number in range(leaves))
        cid = await add_file(other, content, size)
        told: list[tuple[int, int]] = []

        def progress(blocks: int, size: int) -> None:
            told.append((blocks, size))

        kubo = Kubo(outbound, node.url)
        assert (await kubo.pin(cid, ABSENT, progress)).status is TrackerStatus.PINNED
        assert told == sorted(told)
        assert told[-1][0] > leaves
        assert told[-1][1] > leaves * size
        await other.stop()
        await node.collect_garbage()
        assert (await kubo.pin(cid, ABSENT, progress)).status is TrackerStatus.PINNED
        assert await call(node, f"cat?arg={cid}&offline=true") == content.decode()


async def test_what_nobody_has_is_given_up_in_time(outbound: HttpClient, lonely: Node) -> None:
    """An online daemon would wait for ever; meanwhile status checks are answered."""
    cid = raw(b"nobody's")[0]
    kubo = Kubo(outbound, lonely.url, pin_seconds=2)
    told = asyncio.Event()
    attempt = asyncio.create_task(kubo.pin(cid, ABSENT, lambda blocks, size: told.set()))
    await told.wait()
    assert await status(kubo, cid) is TrackerStatus.ABSENT
    with pytest.raises(PinFailed, match="not found in time: 0 blocks"):
        await attempt
    await eventually(lambda: is_idle(lonely), what="the daemon has given up too")


async def test_a_cancelled_pin_ends_the_fetch_and_keeps_the_blocks(
    outbound: HttpClient, lonely: Node
) -> None:
    """The daemon stops when we hang up; the next attempt needs only what was missing."""
    here, missing = raw(b"here"), raw(b"missing")
    dag = pb(here, missing)
    await put(lonely, (dag[0], {cid: dag[1][cid] for cid in (dag[0], here[0])}))
    kubo = Kubo(outbound, lonely.url)
    some = asyncio.Event()

    def progress(blocks: int, size: int) -> None:
        if blocks == 2:
            some.set()

    attempt = asyncio.create_task(kubo.pin(dag[0], ABSENT, progress))
    await some.wait()
    assert not await is_idle(lonely)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await eventually(lambda: is_idle(lonely), what="the daemon has stopped fetching")
    assert await status(kubo, dag[0]) is TrackerStatus.ABSENT
    assert await lonely.has_block(str(here[0]))
    await put(lonely, missing)
    assert (await pin(kubo, dag[0])).status is TrackerStatus.PINNED


async def test_an_error_behind_the_first_lines_is_a_failure(
    outbound: HttpClient, lonely: Node
) -> None:
    """Kubo says it in a trailer that nobody here can read: a clean end alone is no yes."""
    data = b"no protobuf"
    broken = Cid(DAG_PB, SHA2_256, raw(data)[0].digest)
    dag = pb((broken, {}))
    await put(lonely, dag)
    kubo = Kubo(outbound, lonely.url)
    told = asyncio.Event()
    attempt = asyncio.create_task(kubo.pin(dag[0], ABSENT, lambda blocks, size: told.set()))
    await told.wait()
    await put(lonely, (broken, {broken: data}))
    with pytest.raises(PinFailed, match=r"gave up after 1 block \(\d+ bytes\) and gave no reason"):
        await attempt
    assert await status(kubo, dag[0]) is TrackerStatus.ABSENT


async def test_a_daemon_that_ends_in_the_middle_is_an_outage(
    outbound: HttpClient, lonely: Node
) -> None:
    """The content is not to blame; status checks and lists say outage too until it is back."""
    cid = raw(b"nobody's")[0]
    kubo = Kubo(outbound, lonely.url, seconds=5)
    told = asyncio.Event()
    attempt = asyncio.create_task(kubo.pin(cid, ABSENT, lambda blocks, size: told.set()))
    await told.wait()
    await lonely.stop()
    for question in (attempt, kubo.status([cid]), kubo.unpin(cid), pinset(kubo)):
        with pytest.raises((UpstreamUnavailable, UpstreamTimeout)):
            await question
    await lonely.start()
    assert await status(kubo, cid) is TrackerStatus.ABSENT


async def test_a_long_pinset_is_listed_whole(kubo: Kubo, node: Node) -> None:
    """As many as were pinned, whatever the pieces they come in."""
    cids = [Cid(RAW, 0x00, b"%04d" % number) for number in range(2_000)]  # nothing to fetch
    for at in range(0, len(cids), 200):
        await call(node, "pin/add?" + "&".join(f"arg={cid}" for cid in cids[at : at + 200]))
    assert await pinset(kubo) == set(cids)


async def test_blocks_that_a_node_lost_are_found_and_brought_in_again(
    kubo: Kubo, node: Node, tmp_path: Path
) -> None:
    """Its index says "pinned", whatever became of a leaf or of a lone root; `refs` does not. When
    somebody has them again they are fetched, and the pins were there all the time."""
    leaf, alone = raw(b"a leaf that is lost"), raw(b"a lone block that is lost")
    cids = [await put(node, pb(leaf, raw(b"a leaf that stays"))), await put(node, alone)]
    for cid in cids:
        await pin(kubo, cid)
    assert {entry.replicas async for entry in kubo.pinset()} == {1}
    for lost in (leaf, alone):
        await lose(node, lost[0], tmp_path)
    entries = {entry.cid: entry.replicas async for entry in kubo.pinset()}
    assert [entries[cid] for cid in cids] == [0, 0]
    seen = await kubo.status(cids, {})
    assert {status.status for status in seen.values()} == {TrackerStatus.LOST}
    for cid in cids:
        assert "could not fetch it" in await refused(kubo, cid)
        assert await node.is_pinned(str(cid))
    for lost in (leaf, alone):
        await put(node, lost)
    for cid in cids:
        assert (await pin(kubo, cid, seen[cid])).status is TrackerStatus.PINNED
    assert {one.status for one in (await kubo.status(cids, {})).values()} == {TrackerStatus.PINNED}
