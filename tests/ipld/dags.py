"""Content for tests of the embedded store: blocks of every codec, written by hand."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from random import Random
from typing import Any

import cbor2

from content_gateway.ipld.links import links
from content_gateway.model.cid import DAG_CBOR, DAG_JSON, DAG_PB, RAW, Cid

Dag = tuple[Cid, dict[Cid, bytes]]


def block(codec: int, data: bytes) -> Cid:
    """The CID of *data*."""
    return Cid(codec, 0x12, sha256(data).digest())


def raw(data: bytes) -> Dag:
    """A block without links."""
    cid = block(RAW, data)
    return cid, {cid: data}


def cbor(value: Any, *parts: Dag) -> Dag:
    """A dag-cbor block of *value*; the *parts* it links to come along."""
    data = cbor2.dumps(value, canonical=True)
    return _with_parts(DAG_CBOR, data, parts)


def link(part: Dag) -> Any:
    """A link in dag-cbor: tag 42 around the binary CID behind a zero byte."""
    return cbor2.CBORTag(42, b"\0" + bytes(part[0]))


def as_json(value: Any, *parts: Dag) -> Dag:
    """A dag-json block of *value*; links are `{"/": "cid"}`."""
    return _with_parts(DAG_JSON, json.dumps(value).encode(), parts)


def pb(*parts: Dag, data: bytes = b"\x08\x01") -> Dag:
    """A dag-pb node that links to *parts* under the names 0, 1, 2 ..."""
    node = b""
    for index, (cid, _) in enumerate(parts):
        name = str(index).encode()
        inner = b"\x0a" + _sized(bytes(cid)) + b"\x12" + _sized(name) + b"\x18\x05"
        node += b"\x12" + _sized(inner)
    return _with_parts(DAG_PB, node + b"\x0a" + _sized(data), parts)


def chain(length: int) -> Dag:
    """A list of *length* nodes, each linking to the next."""
    part = raw(b"the end")
    for index in range(length - 1):
        part = pb(part, data=str(index).encode())
    return part


def file(leaves: int, size: int, *, seed: int = 0, width: int = 174) -> Dag:
    """A file of *leaves* raw blocks of *size* random bytes, in a tree as Kubo makes it."""
    random = Random(seed)
    blocks: dict[Cid, bytes] = {}
    level = []
    for _ in range(leaves):
        data = random.randbytes(size)
        level.append(block(RAW, data))
        blocks[level[-1]] = data
    while True:
        groups = [level[at : at + width] for at in range(0, len(level), width)]
        nodes = [pb(*((cid, {}) for cid in group), data=b"\x08\x02") for group in groups]
        for _, node in nodes:
            blocks |= node
        level = [cid for cid, _ in nodes]
        if len(level) == 1:
            return level[0], blocks


def in_order(dag: Dag) -> Iterator[tuple[Cid, bytes]]:
    """The blocks of *dag*, depth first, each once."""
    root, blocks = dag
    ahead, seen = [root], set[Cid]()
    while ahead:
        cid = ahead.pop()
        if cid not in seen:
            seen.add(cid)
            if cid.hash_code != 0:  # not inside of a CID
                yield cid, blocks[cid]
            ahead += reversed(links(cid, blocks.get(cid, cid.digest)))


def _with_parts(codec: int, data: bytes, parts: Sequence[Dag]) -> Dag:
    cid = block(codec, data)
    blocks = {cid: data}
    for _, inner in parts:
        blocks |= inner
    return cid, blocks


def _sized(value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([len(value)]) + value
