"""A row of the table of faults: what is done to the service, what must hold, and what was measured.

Knows neither how a fault is made (`rows/`) nor how its figure is shown (`page.py`)."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from tests.faults.ground import Ground

Size = Literal["full", "short"]
Scene = Callable[[Ground, Size], Coroutine[Any, Any, "Figure"]]


@dataclass(frozen=True)
class Figure:
    """What was measured, in words, and whether it is what must hold."""

    text: str
    holds: bool


@dataclass(frozen=True)
class Row:
    """One fault. A scene that takes longer than *deadline* seconds has failed.

    *name* chooses it on the command line. Where it is *apart* from the ledger one figure stands for
    both databases."""

    name: str
    fault: str
    must: str
    scene: Scene
    deadline: float
    apart: bool = False
