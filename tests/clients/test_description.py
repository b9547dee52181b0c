"""The description as generators of clients read it: everything has a name and is explained."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.contract import contract

# What stands below these is data, and a header field becomes no type of a client.
SKIPPED = ("example", "examples", "headers")


def nodes(node: Any, *place: str) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every object of the description below *node*, with the place where it stands."""
    if isinstance(node, dict):
        yield place, node
        for name, below in node.items():
            if name not in SKIPPED:
                yield from nodes(below, *place, name)
    elif isinstance(node, list):
        for number, below in enumerate(node):
            yield from nodes(below, *place, str(number))


def needs_a_name(schema: Mapping[str, Any]) -> bool:
    """Whether generators make a type of it: an object of members, a choice, an enum of several.

    A constant is an enum of one, which all of them name after its member."""
    choices = schema.get("enum", ())
    several = isinstance(choices, list) and len(choices) > 1
    return several or "oneOf" in schema or isinstance(schema.get("properties"), dict)


def test_every_type_has_a_name() -> None:
    """Nested and nameless ones are named by each generator in its own way, or break it."""
    inner = [
        "/".join(place)
        for place, schema in nodes(contract().tree)
        if needs_a_name(schema) and (len(place) != 3 or place[1] != "schemas")
    ]
    assert inner == []


def test_what_is_used_twice_is_described_once() -> None:
    """Parameters that several operations have stand in components."""
    operations = [
        operation for item in contract().tree["paths"].values() for operation in item.values()
    ]
    inline = Counter(
        msgspec.json.encode(parameter, order="deterministic")
        for operation in operations
        for parameter in operation.get("parameters", ())
        if "$ref" not in parameter
    )
    assert inline
    assert [parameter for parameter, times in inline.items() if times > 1] == []


def test_everything_is_explained() -> None:
    """Operations, parameters, answers, header fields, types: the words stand in the clients too."""
    tree = contract().tree
    silent = [
        f"{kind} {name}"
        for kind in ("schemas", "parameters", "headers", "responses", "securitySchemes")
        for name, described in tree["components"][kind].items()
        if not described.get("description")
    ]
    for path, item in tree["paths"].items():
        for method, operation in item.items():
            parts = [operation, *operation.get("parameters", ()), *operation["responses"].values()]
            for answer in operation["responses"].values():
                parts += answer.get("headers", {}).values()
            silent += [
                f"{method} {path}: {part.get('name', 'itself or an answer')}"
                for part in parts
                if "$ref" not in part and not part.get("description")
            ]
    assert silent == []


def test_what_the_protocol_refuses_is_described_everywhere() -> None:
    """Before any operation is found: no valid HTTP, another version of it, a host that is not ours,
    a head that is too large or too slow, too many connections."""
    refused = {"400", "408", "414", "421", "431", "503", "505"}
    lacking = {
        operation["operationId"]: sorted(refused - set(operation["responses"]))
        for item in contract().tree["paths"].values()
        for operation in item.values()
        if not refused <= set(operation["responses"])
    }
    assert lacking == {}
