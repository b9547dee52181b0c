"""A file of settings to begin with: every setting with its default, commented out.

Written from the settings' own descriptions, so that it tells what this version has."""

from collections.abc import Iterator
from inspect import getdoc
from typing import Final

from content_gateway.settings import toml
from content_gateway.settings.groups import Group
from content_gateway.settings.model import Settings, with_unit

_HEAD: Final = """\
# Settings of Content Gateway. Each line that is commented out shows a default.
# Times are seconds, or have a unit (500ms, 30s, 5m, 24h, 90d); so have sizes (16KiB, 64GiB).
# `content-gateway config check --config FILE` tells whether a file is right.
"""


def template() -> str:
    """The file as text; as it is, it changes nothing."""
    return "\n".join([_HEAD, *_lines(Settings)])


def _lines(group: type[Group], path: str = "") -> Iterator[str]:
    """The settings of *group*, and behind them the groups in it: a table ends with the next one."""
    groups: list[tuple[str, type[Group]]] = []
    for name, info in group.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Group):
            groups.append((path + name, info.annotation))
            continue
        yield f"# {info.description}"
        if info.default is None:
            yield f'#{name} = "..."  # not set'
        else:
            yield f"#{name} = {toml.spell(with_unit(info, info.default))}"
        yield ""
    for name, inner in groups:
        yield f"# {' '.join((getdoc(inner) or '').split())}"
        yield f"[{name}]"
        yield ""
        yield from _lines(inner, f"{name}.")
