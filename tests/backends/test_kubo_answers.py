"""Kubo's answers, parsed from bytes alone: lines, lists and reasons."""

from hashlib import sha256

import pytest

from content_gateway.backends.kubo import answers
from content_gateway.errors import (
    InvalidUpstreamResponse,
)
from content_gateway.model.cid import DAG_PB, Cid
from tests.backends.backends import V0
from tests.ipld.dags import raw

LIST = b'{"Keys":{"bafkqablimvwgy3y":{"Type":"recursive","Name":""}}}'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_list_is_read_however_it_is_cut(size: int) -> None:
    pins = [str(raw(bytes([number]))[0]) for number in range(9)]
    keys = ",".join(f'"{pin}":{{"Type":"recursive","Name":""}}' for pin in pins)
    body = f'{{"Keys":{{{keys}}}}}\n'.encode()
    reader = answers.PinsetReader()
    got = [cid for at in range(0, len(body), size) for cid in reader.feed(body[at : at + size])]
    reader.end()
    assert [str(cid) for cid in got] == pins


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("pin: context canceled", "Kubo gave up before all of it was there."),
        (
            "pin: potentially insecure hash functions not allowed",
            "hash function that Kubo does not accept.",
        ),
        ("pin: unexpected EOF", "cannot be read with the codec its CID says."),
        ("pin: strange\n\x1b[31mwords", "Kubo could not pin it: strange  [31mwords."),
        ("x" * 10_000, "Kubo could not pin it: " + "x" * 300 + "."),
        ("", "Kubo could not pin it: it gave no reason."),
    ],
)
def test_reasons_are_one_short_printable_sentence(message: str, reason: str) -> None:
    """Kubo's own text is kept where we have none, cut to 300 characters and without control
    characters."""
    detail = answers.refusal(message).detail
    assert detail.endswith(reason)
    assert detail.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        b'{"Progress":-1}',
        b'{"Progress":true}',
        b'{"Bytes":"1"}',
        b'{"Pins":[]}',
        b'{"Pins":null}',
        b'{"Pins":["bafkqablimvwgy3y","bafkqaaa"]}',
        b'{"Pins":"bafkqablimvwgy3y"}',
        b"[]",
        b"1",
    ],
)
def test_a_line_that_is_neither_progress_nor_yes_is_garbage(line: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        answers.read_line(line, Cid.parse("bafkqablimvwgy3y"))


def test_a_yes_may_spell_the_cid_in_version_0() -> None:
    """Identities are compared, not texts."""
    said = sha256(b"").digest()
    cid = Cid(DAG_PB, 0x12, said)
    assert answers.read_line(b'{"Pins":["%s"]}' % str(cid).upper().encode(), cid) is None
    assert answers.read_line(b'{"Pins":["%s"]}' % V0.encode(), Cid.parse(V0)) is None


@pytest.mark.parametrize("end", [b"", b"}"])
def test_an_entry_that_is_too_long_is_refused(end: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        answers.PinsetReader().feed(LIST[:20] + b" " * answers.MAX_ENTRY_BYTES + end)
