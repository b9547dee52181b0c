"""YAML of bounded cost: text that an operator's tools wrote, which may be large or a bomb.

Knows how much a document may hold once its aliases are written out, counted before anything is
made of it. What a document means is left to whoever reads it."""

import time
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 64
# Characters of all scalars and one for each node, of a document with every alias written out.
MAX_WEIGHT: Final = 2 * 1024 * 1024
# What is longer is text, whatever it looks like: numbers are read in quadratic time.
_LONGEST_NUMBER: Final = 256
_EVENTS_A_TURN: Final = 2_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML in which a date stays text, as JSON has it."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """As the base class does; long scalars are text."""
        if kind is yaml.ScalarNode and len(value) > _LONGEST_NUMBER and implicit[0]:
            implicit = (False, True)
        return super().resolve(kind, value, implicit)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str) -> Any:
    """The one document in *text*, None for an empty one.

    Raises ValueError when it is not YAML, or is too deep or too much."""
    try:
        _weigh(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, TypeError) as wrong:
        raise ValueError(f"it is not YAML: {(str(wrong).splitlines() or [''])[0]}") from wrong


def _weigh(text: str) -> None:
    """Raises ValueError where *text* is too deep, or too much with its aliases written out."""
    weight = depth = 0
    begun: list[tuple[str | None, int]] = []  # anchor of each open collection, weight before it
    whole: dict[str, int] = {}  # what each finished anchor weighs
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if not number % _EVENTS_A_TURN:
            time.sleep(0)  # else whoever waits for the interpreter waits for 5 ms each time
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in whole:
                raise ValueError("an alias stands for what is not there, or is not whole")
            weight += whole[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            weight += 1 + len(event.value)
            if event.anchor is not None:
                whole[event.anchor] = 1 + len(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            begun.append((event.anchor, weight))
            weight, depth = weight + 1, depth + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            depth -= 1
            if anchor is not None:
                whole[anchor] = weight - before
        if weight > MAX_WEIGHT or depth > MAX_DEPTH:
            raise ValueError("it is too deep, or too large once its aliases are written out")
