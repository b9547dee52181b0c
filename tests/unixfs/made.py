"""UnixFS as its makers write it, by hand: files in trees of parts, directories, shards, links.

Nothing here is read by the code that is tested; only the hash of shards is shared, whose vectors
test_hamt.py has."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from content_gateway.codecs.multiformats import varint
from content_gateway.ipld.hamt import murmur3
from content_gateway.model.cid import DAG_PB, RAW, Cid

Dag = tuple[Cid, dict[Cid, bytes]]

DIRECTORY, FILE, SYMLINK, SHARD = 1, 2, 4, 5
FANOUT = 256


def raw(data: bytes) -> Dag:
    """A file that is one raw block."""
    cid = Cid(RAW, 0x12, sha256(data).digest())
    return cid, {cid: data}


def node(unixfs: bytes, links: Sequence[tuple[bytes, Dag]]) -> Dag:
    """A dag-pb node with that UnixFS data; what it links to comes along."""
    block, blocks = b"", dict[Cid, bytes]()
    for name, (cid, below) in links:
        block += _field(2, _field(1, bytes(cid)) + _field(2, name) + b"\x18\x05")
        blocks |= below
    block += _field(1, unixfs)
    cid = Cid(DAG_PB, 0x12, sha256(block).digest())
    return cid, {**blocks, cid: block}


def unixfs(
    kind: int, *, data: bytes = b"", size: int | None = None, parts: Sequence[int] = ()
) -> bytes:
    """The UnixFS data of a node."""
    message = b"\x08" + varint(kind)
    if data:
        message += _field(2, data)
    if size is not None:
        message += b"\x18" + varint(size)
    return message + b"".join(b"\x20" + varint(part) for part in parts)


def file(content: bytes, *, chunk: int = 1000, width: int = 4, inline: bytes = b"") -> Dag:
    """A file of *content* behind *inline* bytes of its root, in raw chunks, *width* to a node."""
    level = [
        (len(content[at : at + chunk]), raw(content[at : at + chunk]))
        for at in range(0, len(content), chunk)
    ]
    while True:
        groups = [level[at : at + width] for at in range(0, len(level), width)] or [[]]
        own = inline if len(groups) == 1 else b""
        level = [
            (len(own) + sum(sizes), node(
                unixfs(FILE, data=own, size=len(own) + sum(sizes), parts=sizes),
                [(b"", part) for _, part in group],
            ))
            for group in groups
            for sizes in [[size for size, _ in group]]
        ]  # fmt: skip
        if len(level) == 1:
            return level[0][1]


def symlink(target: bytes) -> Dag:
    """A symbolic link."""
    return node(unixfs(SYMLINK, data=target), [])


def directory(entries: Mapping[str, Dag]) -> Dag:
    """A directory, its names in order."""
    links = sorted((name.encode(), dag) for name, dag in entries.items())
    return node(unixfs(DIRECTORY), links)


def sharded(entries: Mapping[str, Dag], *, fanout: int = FANOUT, level: int = 0) -> Dag:
    """The same directory in shards."""
    bits, digits = fanout.bit_length() - 1, len(f"{fanout - 1:X}")
    slots: dict[int, dict[str, Dag]] = {}
    for name, dag in entries.items():
        slot = murmur3(name.encode()) >> (64 - bits * (level + 1)) & (fanout - 1)
        slots.setdefault(slot, {})[name] = dag
    links: list[tuple[bytes, Dag]] = []
    for slot, inside in sorted(slots.items()):
        prefix = f"{slot:0{digits}X}"
        if len(inside) == 1:
            ((name, dag),) = inside.items()
            links.append((f"{prefix}{name}".encode(), dag))
        else:
            links.append((prefix.encode(), sharded(inside, fanout=fanout, level=level + 1)))
    return node(shard_data(fanout), links)


def shard_data(fanout: int, function: int = 0x22) -> bytes:
    """The UnixFS data of a shard."""
    return unixfs(SHARD) + b"\x28" + varint(function) + b"\x30" + varint(fanout)


def _field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value
