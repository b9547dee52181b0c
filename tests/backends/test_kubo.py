"""Kubo as a pin backend, before a miniature node: what is believed of status checks and unpins."""

import pytest

from content_gateway.backends.kubo.kubo import CHECKS_AT_ONCE, Kubo
from content_gateway.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    PinDeferred,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, Peer, TrackerStatus
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import ABSENT, OUTAGES, V0, pin, pinset, status_of
from tests.fakes.kubo import NAME
from tests.fakes.kubo import Kubo as Node
from tests.fakes.miniature import Mood
from tests.ipld.dags import raw


async def test_a_status_check_tells_pinned_from_absent(kubo: Kubo, node: Node) -> None:
    """One of one replica on the node that names itself, or Kubo's own word that there is no pin."""
    present, gone = raw(b"here")[0], raw(b"gone")[0]
    node.pin(present)
    held = BackendStatus(TrackerStatus.PINNED, 1, 1, (Peer(NAME, "pinned"),))
    assert (await kubo.status([]), node.requests) == ({}, [])
    assert await kubo.status([present, gone]) == {present: held, gone: ABSENT}
    assert kubo.batch_age == 0


async def test_the_node_is_asked_for_its_name_once(kubo: Kubo, node: Node) -> None:
    """However many status checks show a pin, and not before one does."""
    cids = [raw(bytes([number]))[0] for number in range(20)]
    await kubo.status(cids)
    assert node.asked("id") == 0
    for cid in cids:
        node.pin(cid)
    await kubo.status(cids)
    await kubo.status(cids)
    assert node.asked("id") == 1


@pytest.mark.parametrize("refusal", [(403, b"Kubo RPC Access Denied"), (200, b'{"ID": 5}')])
async def test_a_node_that_keeps_its_name_is_called_kubo(
    kubo: Kubo, node: Node, refusal: tuple[int, bytes]
) -> None:
    """That it says no name, or garbage for one, does not spoil what it says of a content."""
    cid = raw(b"here")[0]
    node.pin(cid)
    node.refuses["id"] = refusal
    assert (await status_of(kubo, cid)).peers == (Peer("kubo", "pinned"),)


async def test_every_cid_is_asked_for_alone_and_a_few_at_a_time(kubo: Kubo, node: Node) -> None:
    """`pin/ls` with several fails as a whole when one is not pinned."""
    node.delay = 0.01
    cids = [raw(bytes([number]))[0] for number in range(50)]
    for cid in cids[::2]:
        node.pin(cid)
    seen = await kubo.status([*cids, *cids])
    assert [seen[cid].status is TrackerStatus.PINNED for cid in cids] == [True, False] * 25
    assert node.asked("pin/ls") == 50
    assert node.most_at_once <= CHECKS_AT_ONCE


async def test_what_kubo_calls_by_another_name_is_the_same_content(kubo: Kubo, node: Node) -> None:
    """An answer that spells the CID in version 0, or in another base, is about that CID."""
    cid = Cid.parse(V0)
    for spelling in (V0, str(cid).upper()):
        node.refuses["pin/ls"] = (200, b'{"Keys":{"%s":{"Type":"recursive"}}}' % spelling.encode())
        assert (await status_of(kubo, cid)).status is TrackerStatus.PINNED


@pytest.mark.parametrize("mood", OUTAGES)
async def test_an_outage_is_not_absence(kubo: Kubo, node: Node, mood: Mood) -> None:
    """Whatever a server says that is not Kubo's own word raises, and no content is blamed."""
    node.misbehave(mood)
    present, there = raw(b"here")[0], raw(b"there")[0]
    for call in (kubo.status([present, there]), pinset(kubo)):
        with pytest.raises((UpstreamUnavailable, InvalidUpstreamResponse)):
            await call
    for write in (pin(kubo, present), kubo.unpin(present)):
        with pytest.raises(UpstreamUnavailable):
            await write


async def test_a_node_that_is_silent_is_not_asked_to_the_end(
    outbound: HttpClient, node: Node
) -> None:
    """A batch of fifty costs one deadline or two, not seven."""
    node.misbehave("hang")
    kubo = Kubo(outbound, node.url, seconds=0.1)
    with pytest.raises(UpstreamTimeout):
        await kubo.status([raw(bytes([number]))[0] for number in range(50)])
    assert node.asked("pin/ls") <= 2 * CHECKS_AT_ONCE


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"Keys":{"bafkqablimvwgy3y":{"Type":"recursive"}}}'),  # another CID
        (200, b'{"Keys":{"%s":{"Type":"indirect through bafkqablimvwgy3y"}}}'),
        (200, b'{"Keys":{"%s":"recursive"}}'),
        (200, b'{"Keys":{}}'),
        (200, b"{}"),
        (200, b"[]"),
        (500, b'{"Message":"path \'bafkqablimvwgy3y\' is not pinned","Code":0}'),  # another CID
        (500, b'{"Message":"pinner closed","Code":0,"Type":"error"}'),
        (500, b'{"Message":5}'),
        (500, b"is not pinned"),
        (500, b'{"Message":"could not look for %s","Code":0,"Type":"error"}'),
        (502, b'{"Message":"path \'%s\' is not pinned","Code":0,"Type":"error"}'),
        (403, b"Kubo RPC Access Denied"),
    ],
)
async def test_only_kubos_own_word_about_that_cid_is_absence(
    kubo: Kubo, node: Node, status: int, body: bytes
) -> None:
    cid = raw(b"here")[0]
    node.refuses["pin/ls"] = (status, body.replace(b"%s", str(cid).encode()))
    with pytest.raises(UpstreamError):
        await status_of(kubo, cid)


async def test_a_refusal_of_our_login_is_called_so(kubo: Kubo, node: Node) -> None:
    """Whoever runs the service learns which of Kubo's settings keeps us out."""
    node.refuses["pin/ls"] = (403, b"Kubo RPC Access Denied: Please provide a valid token")
    with pytest.raises(UpstreamUnavailable, match=r"API\.Authorizations"):
        await status_of(kubo, raw(b"here")[0])


async def test_one_content_without_an_answer_does_not_hide_the_others(
    kubo: Kubo, node: Node
) -> None:
    """It is UNKNOWN, with the reason; what was said of the others counts."""
    present, broken = raw(b"here")[0], raw(b"broken")[0]
    node.pin(present)
    node.broken[str(broken)] = "could not read the index"
    seen = await kubo.status([broken, present])
    assert seen[present].status is TrackerStatus.PINNED
    assert seen[broken].status is TrackerStatus.UNKNOWN
    assert "could not read the index" in (seen[broken].reason or "")


async def test_a_direct_pin_is_no_pin_of_ours(kubo: Kubo, node: Node) -> None:
    """It keeps one block without what it links to; `pin/rm` would take it, so none is sent."""
    cid = raw(b"somebody's")[0]
    node.pin(cid, "direct")
    assert (await status_of(kubo, cid)).status is TrackerStatus.ABSENT
    await kubo.unpin(cid)
    assert node.pins == {str(cid): "direct"}


async def test_a_pin_that_went_by_itself_is_no_error(kubo: Kubo, node: Node) -> None:
    """Somebody else may unpin between our status check and our request."""
    cid = raw(b"here")[0]
    node.pin(cid)
    node.refuses["pin/rm"] = (500, b'{"Message":"not pinned or pinned indirectly","Code":0}')
    await kubo.unpin(cid)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b'{"Message":"pinner closed","Code":0,"Type":"error"}', PinDeferred),
        (200, b'{"Pins":["bafkqablimvwgy3y"]}', UpstreamUnavailable),
        (200, b"{}", UpstreamUnavailable),
        (502, b"", UpstreamUnavailable),
        (403, b"Kubo RPC Access Denied", UpstreamUnavailable),
    ],
)
async def test_an_unpin_without_kubos_yes_is_not_done(
    kubo: Kubo, node: Node, status: int, body: bytes, error: type[Exception]
) -> None:
    cid = raw(b"here")[0]
    node.pin(cid)
    node.refuses["pin/rm"] = (status, body)
    with pytest.raises(error):
        await kubo.unpin(cid)


async def test_our_own_overload_is_said_as_such(node: Node) -> None:
    """Where we have no connection left for a status check, that is no bug and no fault of the
    node's."""
    node.delay = 0.05
    async with HttpClient(limits=PoolLimits(in_all=1, per_server=1, waiting=0)) as outbound:
        with pytest.raises(Overloaded):
            await Kubo(outbound, node.url).status([raw(b"one")[0], raw(b"two")[0]])
