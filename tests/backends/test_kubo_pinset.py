"""Kubo as a pin backend, before a miniature node: its list of pins, whole or not at all."""

import asyncio

import pytest

from content_gateway.backends.kubo.kubo import Kubo
from content_gateway.errors import (
    UpstreamError,
    UpstreamUnavailable,
)
from tests.backends.backends import V0, pinset
from tests.fakes.kubo import Kubo as Node
from tests.ipld.dags import raw


async def test_the_pinset_is_every_pin_that_can_be_ours(kubo: Kubo, node: Node) -> None:
    """Recursive ones in version 1; neither direct ones nor codecs that we do not accept.

    A version 0 pin is another pin to Kubo: it must not hide that ours is gone."""
    assert await pinset(kubo) == set()
    cids = [raw(bytes([number]))[0] for number in range(100)]
    for cid in cids:
        node.pin(cid)
    node.pin(raw(b"direct")[0], "direct")
    node.pins[V0] = node.pins["k51qzi5uqu5dk3v4rmjber23h16xnr23bsggmqqil9z2gduiis5se8dht36dam"] = (
        "recursive"
    )
    assert await pinset(kubo) == set(cids)


LIST = b'{"Keys":{"bafkqablimvwgy3y":{"Type":"recursive","Name":""}}}'


@pytest.mark.parametrize(
    "body",
    [
        *(LIST[:length] for length in range(len(LIST))),
        LIST + b"}",
        LIST[:-1] + b',"bafkqaaa":{"Type":"recursive"}}',
        LIST.replace(b'"bafk', b'"more":1,"bafk'),
        LIST + LIST,
        LIST + b" more",
        b"{}}",
        b"[]",
        b'{"Message":"pinner closed","Code":0,"Type":"error"}',
        b'{"Keys":{"bafkqablimvwgy3y":{"Type":"recursive"' + b" " * 100_000,
        b"<html>{}</html>",
    ],
)
async def test_half_a_list_never_passes_for_all(kubo: Kubo, node: Node, body: bytes) -> None:
    """Wherever it ends but at its end, and whatever else is no list, raises."""
    node.lists = body
    with pytest.raises(UpstreamError):
        await pinset(kubo)


async def test_pins_of_other_types_are_not_listed(kubo: Kubo, node: Node) -> None:
    node.lists = LIST.replace(b'"Name"', b'"Type":"indirect","Name"')
    assert await pinset(kubo) == set()


async def test_a_list_from_a_node_that_shuts_down_is_not_believed(kubo: Kubo, node: Node) -> None:
    """Its lists may end early and look whole: it must still answer afterwards."""
    node.lists = LIST
    node.broken["bafkqaaa"] = "pinner closed"
    with pytest.raises(UpstreamUnavailable):
        await pinset(kubo)


async def test_whoever_has_read_enough_of_a_pinset_may_stop(kubo: Kubo, node: Node) -> None:
    for number in range(20_000):
        node.pin(raw(b"%d" % number)[0])
    pins = kubo.pinset()
    async for _ in pins:
        break
    before = {task.get_name() for task in asyncio.all_tasks()}
    await pins.aclose()
    after = {task.get_name() for task in asyncio.all_tasks()}
    assert "kubo pinset" in before
    assert "kubo pinset" not in after
