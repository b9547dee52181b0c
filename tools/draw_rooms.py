"""The rooms of the code and who imports whom, as a Mermaid flow chart.

Reads the imports as import-linter does (grimp). An arrow that follows from others is left out: a
room may import all that can be reached from it."""

import grimp

ROOT = "content_gateway"


def rooms() -> str:
    """One box a room, arrows from who imports to what is imported."""
    imports = _imports()
    lines = [
        f"    {one} --> {other}"
        for one in sorted(imports)
        for other in sorted(imports[one])
        if not any(other in _reached(imports, between) for between in imports[one])
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _imports() -> dict[str, set[str]]:
    graph = grimp.build_graph(ROOT)
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = _room(module), _room(imported)
            if one != other:
                found.setdefault(one, set()).add(other)
    return found


def _room(module: str) -> str:
    return module.split(".")[1]


def _reached(imports: dict[str, set[str]], room: str) -> set[str]:
    """All rooms behind *room*, which have no way back (the import contracts see to that)."""
    return {other for one in imports.get(room, ()) for other in (one, *_reached(imports, one))}
