"""Ways to spoil bytes: bit by bit, word by word, and as text.

Each change takes dice and data and returns what it did and what became of the data. Knows nothing
of what the data means; JSON is spoilt in json_changes.py, IPNS records in record_changes.py."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

Changed = tuple[str, bytes]
Change = Callable[[Random, bytes], Changed]

WORD: Final = 32
# Offsets, lengths and counts that hurt, and small numbers that are almost right.
NUMBERS: Final = (
    *range(0, 9),
    *(n * WORD + d for n in range(1, 9) for d in (-1, 0, 1)),
    *(63 * WORD, 64, 65, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63),
    *(2**64 - 1, 2**64, 2**128, 2**160, 2**255, 2**256 - WORD, 2**256 - 1),
)


def flip(rng: Random, data: bytes) -> Changed:
    """One bit, or a few."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(changed))
        changed[at] ^= 1 << rng.randrange(8)
    return "flip", bytes(changed)


def overwrite(rng: Random, data: bytes) -> Changed:
    """One byte, or several in a row."""
    at = rng.randrange(len(data))
    new = rng.randbytes(rng.choice((1, 1, 2, 4, 20, 32)))
    return f"overwrite at {at}", data[:at] + new + data[at + len(new) :]


def zero(rng: Random, data: bytes) -> Changed:
    """Several bytes in a row, with one value."""
    at = rng.randrange(len(data))
    length = rng.choice((1, 4, 12, 20, 32, 64, 512))
    new = bytes([rng.choice((0, 0, 0, 0xFF, 0x30))]) * len(data[at : at + length])
    return f"blank {len(new)} at {at}", data[:at] + new + data[at + length :]


def cut(rng: Random, data: bytes) -> Changed:
    """The end is missing."""
    at = rng.choice((0, 1, len(data) - 1, rng.randrange(len(data)), rng.randrange(len(data))))
    return f"cut at {at}", data[: max(0, at)]


def drop(rng: Random, data: bytes) -> Changed:
    """A part in the middle is missing."""
    at, length = rng.randrange(len(data)), rng.choice((1, 2, 3, 4, 31, 32, 33, 64))
    return f"drop {length} at {at}", data[:at] + data[at + length :]


def insert(rng: Random, data: bytes) -> Changed:
    """A part that was not there before."""
    at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 3, 31, 32, 33, 1000))
    new = rng.choice((bytes(length), rng.randbytes(length), b" " * length, b"0" * length))
    return f"insert {length} at {at}", data[:at] + new + data[at:]


def double(rng: Random, data: bytes) -> Changed:
    """A part stands there twice."""
    start = rng.randrange(len(data))
    part = data[start : start + rng.choice((1, 4, 32, 64, len(data)))]
    at = rng.choice((start, len(data), rng.randrange(len(data) + 1)))
    return f"double {len(part)} at {at}", data[:at] + part + data[at:]


def swap(rng: Random, data: bytes) -> Changed:
    """Two parts change places."""
    one, two = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    middle = rng.randrange(one, two + 1)
    return (
        f"swap {one}:{middle}:{two}",
        data[:one] + data[middle:two] + data[one:middle] + data[two:],
    )


def replace(rng: Random, data: bytes) -> Changed:
    """Something else altogether, of much the same length or none."""
    length = rng.choice((0, 0, 1, 4, 32, 68, len(data)))
    return f"replace by {length}", rng.choice((bytes(length), rng.randbytes(length)))


BYTES: Final[Sequence[Change]] = (
    *(flip, flip, flip, overwrite, overwrite, zero, cut, drop, insert, double, swap, replace),
)


def spoil_bytes(rng: Random, data: bytes) -> Changed:
    """Any of these; empty data can only be replaced."""
    return rng.choice(BYTES)(rng, data) if data else replace(rng, b"\0")


# -- ABI words ------------------------------------------------------------------------------


def spoil_words(rng: Random, data: bytes, *, head: int = 0) -> Changed:
    """ABI data, word by word; *head* bytes (a selector) come before the first word."""
    start, body = data[:head], data[head:]
    words = [body[at : at + WORD] for at in range(0, len(body), WORD)]
    if not words:
        return spoil_bytes(rng, data)
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    kind = rng.randrange(13)
    did = f"word {at}"
    if kind < 5:
        number = rng.choice(NUMBERS)
        words[at], did = number.to_bytes(WORD, "big"), f"{did} = {number:#x}"
    elif kind < 7:
        step = rng.choice((1, -1, WORD, -WORD, 2, 20, 2**160, -(2**8)))
        number = (int.from_bytes(words[at], "big") + step) % 2**256
        words[at], did = number.to_bytes(WORD, "big"), f"{did} += {step}"
    elif kind == 7:
        words[at], words[other], did = words[other], words[at], f"{did} <-> {other}"
    elif kind == 8:
        words[at], did = words[other], f"{did} = word {other}"
    elif kind == 9:
        words.insert(at, words[other])
        did += f": insert word {other}"
    elif kind == 10:
        del words[at]
        did += ": drop"
    elif kind == 11:
        del words[at:]
        did += ": cut here"
    elif head:
        return spoil_bytes(rng, start)[0] + " of the selector", spoil_bytes(rng, start)[1] + body
    else:
        words[at], did = rng.randbytes(WORD), f"{did} = random"
    return did, start + b"".join(words)


def spoil_abi(rng: Random, data: bytes) -> Changed:
    """ABI data of either kind, with or without a selector, once or a few times."""
    did: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.7:
            what, data = spoil_words(rng, data, head=len(data) % WORD if len(data) > 4 else 0)
        else:
            what, data = spoil_bytes(rng, data)
        did.append(what)
    return "abi: " + ", ".join(did), data


# -- text -----------------------------------------------------------------------------------

_PAGE: Final = b"<!doctype html><title>Welcome</title><p>Please accept our terms."


def respell(rng: Random, body: bytes) -> Changed:
    """The same text in another encoding, wrapped, or with something around it."""
    text = body.decode("utf-8", "replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "cp500"))
    return rng.choice(
        (
            lambda: (encoding, text.encode(encoding, "replace")),
            lambda: (encoding, text.encode(encoding, "replace")),
            lambda: ("empty", b""),
            lambda: ("page", _PAGE),
            lambda: ("twice", body + body),
            lambda: ("two lines", body + b"\n" + body),
            lambda: ("trailing comma", body + b","),
            lambda: ("trailing NUL", body + b"\0"),
            lambda: ("list", b"[" + body + b"]"),
            lambda: ("list of two", b"[" + body + b"," + body + b"]"),
            lambda: ("string", b'"' + body.replace(b'"', b'\\"') + b'"'),
            lambda: ("jsonp", b"callback(" + body + b")"),
            lambda: ("prefix", b")]}',\n" + body),
            lambda: ("comment", b"/* ok */" + body),
            lambda: ("upper case", body.upper()),
            lambda: ("single quotes", body.replace(b'"', b"'")),
            lambda: ("blank", b" " * 300_000 + body),
            lambda: ("long", body[:-1] + b" " * 300_000 + body[-1:]),
            lambda: ("null", rng.choice((b"null", b"true", b"0", b'""', b"[]", b"{}", b"NaN"))),
        )
    )()
