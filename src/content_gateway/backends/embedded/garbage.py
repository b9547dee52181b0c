"""Garbage collection: deleting blocks that no pin refers to any more, or that are corrupt.

Each function is one bounded step within a transaction of its caller, and returns whether there is
more to do. Any number of processes may take the steps, in any number of sessions. Knows the tables
of the block store; when to collect is left to blockstore.py."""

import sqlite3
from typing import Final

_BLOCKS: Final = 500
_BYTES: Final = 16 * 1024 * 1024
_PAGES: Final = 1_000
_FREE_PAGES: Final = 4_096  # stay in the file, for the next pins


def collect_garbage(connection: sqlite3.Connection) -> bool:
    """Delete some references of a pin that is being unpinned, and blocks left without any.

    The pin's row is deleted with its last block. False when no pin is being unpinned."""
    row = connection.execute("SELECT id FROM pins WHERE unpinning LIMIT 1").fetchone()
    if row is None:
        return False
    pin, taken = row[0], 0
    blocks: list[int] = []
    for block, size in connection.execute(
        "SELECT block, (SELECT length(data) FROM blocks WHERE id = block) "
        "FROM refs WHERE pin = ? LIMIT ?",
        (pin, _BLOCKS),
    ).fetchall():
        blocks.append(block)
        taken += size or 0
        if taken > _BYTES:
            break
    connection.executemany(
        "DELETE FROM refs WHERE block = ? AND pin = ?", [(block, pin) for block in blocks]
    )
    # It may be pinned again before all is gone: its totals must be right then.
    connection.execute(
        "UPDATE pins SET blocks = blocks - ?, size = max(0, size - ?) WHERE id = ?",
        (len(blocks), taken, pin),
    )
    connection.executemany(
        "DELETE FROM blocks WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM refs WHERE block = ?1)",
        [(block,) for block in blocks],
    )
    if not blocks:
        connection.execute("DELETE FROM pins WHERE id = ?", (pin,))
    return True


def shrink_file(connection: sqlite3.Connection) -> bool:
    """Return some free pages to the file system while more than a quarter of the file is free."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if free <= max(_FREE_PAGES, pages // 4):
        return False
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
    return True


def drop_corrupt(connection: sqlite3.Connection, block: int, *, but: int = 0) -> None:
    """Delete a corrupt block; the pins that refer to it, all *but* one, are incomplete then."""
    connection.execute(
        "UPDATE pins SET complete = 0, losses = losses + 1 "
        "WHERE id <> ? AND id IN (SELECT pin FROM refs WHERE block = ?)",
        (but, block),
    )
    connection.execute(
        "UPDATE pins SET blocks = blocks - 1, size = max(0, size - "
        "coalesce((SELECT length(data) FROM blocks WHERE id = ?1), 0)) "
        "WHERE id IN (SELECT pin FROM refs WHERE block = ?1)",
        (block,),
    )
    connection.execute("DELETE FROM refs WHERE block = ?", (block,))
    connection.execute("DELETE FROM blocks WHERE id = ?", (block,))
