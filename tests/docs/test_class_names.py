"""One class name, one meaning: whoever reads it need not ask which one it is."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import content_gateway

_SOURCE: Final = Path(content_gateway.__file__).parent
_ENGINES: Final = {"postgres", "sqlite"}


def _room(module: Path) -> tuple[str, ...]:
    """The rooms above *module*; the two engines, which do one thing in two ways, are one."""
    return tuple("engine" if one in _ENGINES else one for one in module.parent.parts)


def test_no_class_name_has_two_meanings() -> None:
    """But for the two database engines: what does the same has the same name in both."""
    rooms = defaultdict[str, list[tuple[str, ...]]](list)
    for path in _SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                rooms[node.name].append(_room(path.relative_to(_SOURCE)))
    assert len(rooms) > 500
    doubled = {name for name, found in rooms.items() if len(found) > 1}
    of_engines = {
        name
        for name in doubled
        if len(rooms[name]) == 2 and len(set(rooms[name])) == 1 and "engine" in rooms[name][0]
    }
    assert doubled == of_engines
