"""The block store: what was put is there, whole, also next time; what has rotted is not."""

import threading
from pathlib import Path

import pytest

from content_gateway.content.cid import DAG_PB, RAW, Cid
from content_gateway.content.multiformats import HASHES, digest_of
from content_gateway.ipfs.embedded.blockstore import Blockstore, is_block_of
from tests.ipfs.dags import raw

CID = raw(b"hello")[0]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_put_is_there(tmp_path: Path, blocks: Blockstore) -> None:
    """A block comes back, also from a store opened anew on the same folder."""
    assert blocks.get(CID) is None
    blocks.put(CID, b"hello")
    assert blocks.get(CID) == b"hello"
    again = Blockstore(tmp_path)
    again.open()
    assert again.get(CID) == b"hello"


def test_one_block_is_one_file(tmp_path: Path, blocks: Blockstore) -> None:
    """Blocks are kept by their hash: put twice, or under another codec, they are one file."""
    blocks.put(CID, b"hello")
    blocks.put(CID, b"hello")
    blocks.put(Cid(DAG_PB, CID.hash_code, CID.digest), b"hello")
    assert len(files(tmp_path)) == 1
    assert blocks.get(Cid(DAG_PB, CID.hash_code, CID.digest)) == b"hello"


@pytest.mark.parametrize("rotten", [b"", b"hellp", b"hello\0"])
def test_rot_is_noticed(tmp_path: Path, blocks: Blockstore, rotten: bytes) -> None:
    """A block whose bytes have changed on disk counts as missing, and may be put again."""
    blocks.put(CID, b"hello")
    (file,) = files(tmp_path)
    file.write_bytes(rotten)
    assert blocks.get(CID) is None
    blocks.put(CID, b"hello")
    assert blocks.get(CID) == b"hello"


def test_a_mark_is_kept(tmp_path: Path, blocks: Blockstore) -> None:
    """That a DAG is complete is remembered, for that CID alone."""
    assert not blocks.is_marked(CID)
    blocks.mark(CID, 3, 500)
    assert blocks.is_marked(CID)
    assert not blocks.is_marked(Cid(DAG_PB, CID.hash_code, CID.digest))
    again = Blockstore(tmp_path)
    again.open()
    assert again.is_marked(CID)


@pytest.mark.parametrize("code", sorted(HASHES))
def test_every_hash_makes_a_file_name(blocks: Blockstore, code: int) -> None:
    """Long and short digests all find their place, blake3 (which we cannot compute) excepted."""
    digest = digest_of(code, b"content")
    if digest is None:
        assert HASHES[code][0] == "blake3"
        return
    cid = Cid(RAW, code, digest)
    blocks.put(cid, b"content")
    assert blocks.get(cid) == b"content"
    assert not is_block_of(cid, b"contend")


@pytest.mark.parametrize("content", [b"", b"x", bytes(128)])
def test_identity_blocks_are_kept_like_others(blocks: Blockstore, content: bytes) -> None:
    """A CID may hold its content; the shortest and the longest such CID name a file."""
    cid = Cid(RAW, 0, content)
    blocks.put(cid, content)
    assert blocks.get(cid) == content
    blocks.mark(cid, 1, len(content))
    assert blocks.is_marked(cid)


def test_many_writers_of_one_block_agree(tmp_path: Path, blocks: Blockstore) -> None:
    """Two pins that share a block may write it at the same time; no half file is left behind."""
    content = bytes(100_000)
    cid = raw(content)[0]
    writers = [threading.Thread(target=blocks.put, args=(cid, content)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert blocks.get(cid) == content
    assert len(files(tmp_path)) == 1


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path: Path) -> None:
    """The operator's start fails with the system's own reason."""
    (tmp_path / "blocks").write_text("a file, not a folder")
    with pytest.raises(OSError, match="exists"):
        Blockstore(tmp_path).open()
