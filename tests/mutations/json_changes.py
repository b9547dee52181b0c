"""Ways to spoil JSON: members that are missing, doubled, renamed or of the wrong type.

Also texts that say the same in another spelling, which must change nothing. Works on the tree and
writes it again; what the members mean is left to whoever picks them."""

import copy
import json
from random import Random
from typing import Any, Final

from tests.mutations.changes import Changed, spoil_bytes

_DEPTHS: Final = (3, 50, 400, 900, 940, 960, 970, 980, 990, 1000, 2000, 20_000)


def odd_value(rng: Random, value: Any = None) -> Any:
    """A value of the wrong type, or absurd."""
    text = value if isinstance(value, str) else "0x"
    return rng.choice(
        (
            lambda: None,
            lambda: rng.choice((True, False)),
            lambda: rng.choice((0, 1, -1, 3, 2**64, 1e308, -0.0, 10**400)),
            lambda: rng.choice(("", "0x", "0x0", "0", "null", "\x00", "é", "0xzz")),
            lambda: [],
            lambda: {},
            lambda: [value],
            lambda: {"data": value},
            lambda: {"data": {"data": value}},
            lambda: {"result": value, "code": 3, "data": "0x", "message": text[:40]},
            lambda: odd_hex(rng, text),
            lambda: odd_hex(rng, text),
            lambda: odd_hex(rng, text),
        )
    )()


def odd_hex(rng: Random, text: str) -> str:
    """Hexadecimal that is almost right: only letter case does not matter."""
    digits = text.removeprefix("0x")
    at = rng.randrange(len(digits) + 1)
    even = at & ~1
    return rng.choice(
        (
            lambda: "0x" + digits.upper(),
            lambda: "0X" + digits,
            lambda: digits,
            lambda: "0x0x" + digits,
            lambda: "0x" + digits[:-1],
            lambda: "0x0" + digits,
            lambda: "0x" + digits[:at] + rng.choice("gG-_.\u0660\u00b2\uff11") + digits[at:],
            lambda: "0x" + digits[:even] + rng.choice((" ", "\n", "\t", "  ")) + digits[even:],
            lambda: " 0x" + digits,
            lambda: "0x" + digits + rng.choice((" ", "\n", "\x00")),
            lambda: "-0x" + digits,
            lambda: "0b" + digits,
            lambda: "0x" + digits * 2,
            lambda: "0x" + digits * 200,
        )
    )()


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in *tree*, which is a dict or a list."""
    found: list[tuple[Any, Any]] = []
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        found.append((tree, key))
        if isinstance(tree[key], dict | list):
            found += _places(tree[key])
    return found


def spoil_json(rng: Random, body: bytes) -> Changed:
    """One change of the tree in *body*, written again."""
    tree = json.loads(body)
    places = _places(tree)
    if not places:
        return spoil_bytes(rng, body)
    container, key = rng.choice(places)
    digits = [place for place in places if str(place[0][place[1]])[:2] == "0x"]
    if digits and rng.random() < 0.3:
        container, key = rng.choice(digits)
        container[key] = odd_hex(rng, container[key])
        return f"json: {key} is odd hexadecimal", _written(tree)
    kind = rng.randrange(12)
    if kind < 5:
        container[key] = odd_value(rng, container[key])
        return f"json: {key} is odd", _written(tree)
    if kind == 5:
        del container[key]
        return f"json: {key} is missing", _written(tree)
    if kind == 6 and isinstance(container, dict):
        new = rng.choice(("Result", "result ", "error", "data", "x", "", "RESULT", "result"))
        container[new] = container.pop(key)
        return f"json: {key} is called {new!r}", _written(tree)
    if kind == 7:
        other, place = rng.choice(places)
        one, two = copy.deepcopy(container[key]), copy.deepcopy(other[place])
        container[key] = two
        other[place] = one
        return f"json: {key} <-> {place}", _written(tree)
    if kind == 8:
        return f"json: {key} is nested deeply", _nested(rng, tree, container, key)
    if kind == 9 and isinstance(container, dict):
        return f"json: {key} stands twice", _doubled(rng, container, key, tree)
    if kind == 10 and isinstance(tree, dict):
        new = rng.choice(("error", "result", "data", "code", "message", "x"))
        tree[new] = odd_value(rng, container[key])
        return f"json: a new {new}", _written(tree)
    number = rng.choice(("1" * 5000, "1e999", "-Infinity", "NaN", "1.0", "01", "0x1"))
    return f"json: {key} = {number[:9]}", _with_raw(tree, container, key, number)


def respell_json(rng: Random, body: bytes) -> Changed:
    """The same JSON in another spelling: nobody may notice."""
    tree = json.loads(body)
    return rng.choice(
        (
            lambda: ("blanks", b" \n" + json.dumps(tree, indent=3).encode() + b"\r\n\t "),
            lambda: ("compact", json.dumps(tree, separators=(",", ":")).encode()),
            lambda: ("other order", json.dumps(dict(reversed(tree.items()))).encode()),
            lambda: ("escapes", _escaped(body)),
            lambda: ("a member more", json.dumps({**tree, "cost": [1, {"gas": None}]}).encode()),
        )
    )()


def _escaped(body: bytes) -> bytes:
    """Every x written as an escape, in names and values alike."""
    return body.replace(b"x", b"\\u0078")


def _written(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _with_raw(tree: Any, container: Any, key: Any, raw: str) -> bytes:
    """*tree* with *raw* JSON in one place."""
    container[key] = "@@@"
    return _written(tree).replace(b'"@@@"', raw.encode(), 1)


def _nested(rng: Random, tree: Any, container: Any, key: Any) -> bytes:
    depth = rng.choice(_DEPTHS)
    start, end = rng.choice((("[", "]"), ('{"data":', "}"), ('{"message":', "}")))
    inner = json.dumps(container[key])
    return _with_raw(tree, container, key, start * depth + inner + end * rng.choice((depth, 0)))


def _doubled(rng: Random, container: dict[str, Any], key: str, tree: Any) -> bytes:
    """The member stands there again, behind the first one, with another value."""
    again = f"{json.dumps(container[key])}, {json.dumps(key)}: {json.dumps(odd_value(rng))}"
    return _with_raw(tree, container, key, again)
