"""Spoilt answers in JSON, at every depth: HTTP, text, JSON, ABI and the records inside.

Knows where in the answer of a node or of a CCIP-Read gateway each of these is; how each is spoilt
is known by changes.py and json_changes.py."""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from eth_abi.abi import decode, encode

from content_gateway.net.http_client import Answer
from tests.mutations.cases import Case
from tests.mutations.changes import respell, spoil_abi, spoil_bytes
from tests.mutations.json_changes import respell_json, spoil_json

# Namespaces, codecs and hash functions, to put into a contenthash.
_HEADS: Final = """
    e30101701220 e3010170 e30101551220 e30101711220 e301017200240801 e5010172002408011220
    e50101721220 e501017000 e501017000036162 e40101fa011b20 90b2ca05 90b2c605 bc03 bd03 e3011220
    e3010155 e301015500 e3010181 e30101a9021220 e3010170a0e40220 e30102 e301 e3 e501 00 ff
    e30181701220 e30101f0001220 e301017092001220 e30101701220a0
"""


def spoil_rpc(case: Case, answer: Answer, others: Sequence[bytes] = ()) -> Answer:
    """*answer* with a mistake; *others* are answers to other questions, which may come instead."""
    what, spoilt = _spoilt(case.rng, answer, others)
    while spoilt == answer:  # what was changed was so before
        what, spoilt = _spoilt(case.rng, answer, others)
    case.note(f"{what}: {spoilt.status} {spoilt.body!r}")
    return spoilt


def _spoilt(rng: Random, answer: Answer, others: Sequence[bytes]) -> tuple[str, Answer]:
    dice = rng.random()
    if dice < 0.05:
        return _http(rng, answer)
    if not answer.body.startswith(b"{"):  # a failed gateway's
        what, body = spoil_bytes(rng, answer.body)
        return what, replace(answer, body=body)
    if dice < 0.10 and others:
        return "another answer", replace(answer, body=rng.choice(others))
    if dice < 0.20:
        what, body = spoil_bytes(rng, answer.body)
    elif dice < 0.26:
        what, body = respell(rng, answer.body)
    elif dice < 0.44:
        what, body = spoil_json(rng, answer.body)
    elif dice < 0.70:
        what, body = _inside(rng, answer.body, spoil_abi)
    else:
        what, body = _inside(rng, answer.body, _spoil_record)
    return what, replace(answer, body=body)


def respelt(case: Case, answer: Answer) -> Answer:
    """*answer* in another spelling that says the same."""
    if case.rng.random() < 0.3:
        what, body = "upper case digits", _digits_upper(answer.body)
    else:
        what, body = respell_json(case.rng, answer.body)
    case.note(f"{what}: {body!r}")
    return replace(answer, body=body)


def _http(rng: Random, answer: Answer) -> tuple[str, Answer]:
    status = rng.choice((200, 204, 301, 400, 403, 404, 429, 500, 502, 503, 504, 599))
    body = rng.choice((answer.body, b"", b"Bad Gateway"))
    return "http", Answer(status, rng.choice(("text/html", "application/json", "")), body)


def _digits_upper(body: bytes) -> bytes:
    tree = json.loads(body)
    if "result" in tree:
        tree["result"] = "0x" + tree["result"][2:].upper()
    return json.dumps(tree).encode()


def _place(tree: Any) -> tuple[Any, str] | None:
    """Where the hexadecimal is: a result, the data of a revert, or that of a gateway."""
    for key in ("result", "data"):
        if isinstance(tree.get(key), str):
            return tree, key
    error = tree.get("error")
    if isinstance(error, dict) and isinstance(error.get("data"), str):
        return error, "data"
    return None


def _inside(rng: Random, body: bytes, spoil: Any) -> tuple[str, bytes]:
    """*spoil* the bytes that are in the answer as hexadecimal."""
    tree = json.loads(body)
    place = _place(tree)
    if place is None:
        return spoil_json(rng, body)
    container, key = place
    what, data = spoil(
        rng, bytes.fromhex(container[key][2:] if len(container[key]) % 2 == 0 else "00")
    )
    container[key] = "0x" + data.hex()
    return what, json.dumps(tree).encode()


def _spoil_record(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A record inside: well-formed ABI all the way, so that the last decoder gets its share."""
    try:
        multicall, resolver = decode(["bytes", "address"], data)
        elements = list(decode(["bytes[]"], multicall)[0])
    except Exception:  # another kind of answer
        return _spoil_texts(rng, data)
    at = rng.randrange(len(elements)) if rng.random() < 0.5 else len(elements) - 1
    what, elements[at] = _spoil_element(rng, elements[at])
    if rng.random() < 0.05:
        elements.append(b"")
        what += ", one element more"
    return f"element {at}: {what}", encode(
        ["bytes", "address"], [encode(["bytes[]"], [elements]), resolver]
    )


def _spoil_texts(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A text among those that Unstoppable Domains keep."""
    try:
        resolver, owner, found = decode(["address", "address", "bytes[]"], data)
    except Exception:  # one record, an address, a revert
        return _spoil_element(rng, data)
    texts = list(found)
    at = rng.choice([n for n, text in enumerate(texts) if text] or [0, len(texts) - 1])
    old = texts[at]
    what, texts[at] = rng.choice(
        (
            lambda: spoil_bytes(rng, old),
            lambda: spoil_bytes(rng, old),
            lambda: ("upper case", old.upper()),
            lambda: ("lower case", old.lower()),
            lambda: ("a scheme", rng.choice((b"ipfs://", b"/ipns/", b"ipns://", b"0x")) + old),
            lambda: ("a path", old + rng.choice((b"/", b"/index.html", b" ", b"\n", b".eth"))),
            lambda: ("zeros", b"0x" + b"0" * 40),
            lambda: ("unset", b""),
        )
    )()
    values = [resolver, owner, texts]
    return f"text {at}: {what}", encode(["address", "address", "bytes[]"], values)


def _spoil_element(rng: Random, element: bytes) -> tuple[str, bytes]:
    try:
        (value,) = decode(["bytes"], element)
    except Exception:
        return _spoil_word(rng, element)
    dice = rng.random()
    if dice < 0.4 and value:
        what, value = spoil_bytes(rng, value)
    elif dice < 0.9:
        head = bytes.fromhex(rng.choice(_HEADS.split()))
        rest = rng.choice(
            (value, value[6:], value[-32:], rng.randbytes(rng.choice((0, 1, 20, 32))))
        )
        what, value = f"head {head.hex()}", head + rest
    else:
        what, value = "long", value + bytes(rng.choice((512, 600, 5000)))
    return what, encode(["bytes"], [value])


def _spoil_word(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A result that is one word, such as an address; or a refusal in its place."""
    dice = rng.random()
    if dice < 0.3:
        return "unset", bytes(32)
    if dice < 0.4:
        return "too long", b"\x01" + data[1:]
    if dice < 0.5:
        return "twice", data + data
    if dice < 0.6:
        return "random", bytes(12) + rng.randbytes(20)
    return spoil_abi(rng, data)
