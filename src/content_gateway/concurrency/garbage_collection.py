"""When Python's cycle collector runs while the service does.

A collection stops the event loop, for about a microsecond an object, and our requests leave next to
no cycles. So collections are rare, and small when they come. Knows `gc` and what was measured; when
to call is left to the start of the service and to http/request_turns.py."""

import gc
from typing import Final

# New objects before a collection of generation 0; how many of those before one of generation 1; how
# many of these before a whole one. Python 3.11's own (700, 10, 10) take a sixth of the time of a
# new pin. (10,000, 20, 20) held the loop for 120 ms; these visit 10,000 objects at most, but for
# the rare whole collections. With 1,000 as the first number, the objects of requests under way are
# checked again and again, in three per cent of a new pin's time.
_THRESHOLDS: Final = (5_000, 1, 500)
_MANY_NEW: Final = 5_000


def collect_later() -> None:
    """Collect nothing before `collect_seldom`.

    What a start imports lives as long as the process; visiting it takes a sixth of the start."""
    gc.disable()


def collect_seldom() -> None:
    """Exempt every object that exists now from collections, and make collections rare."""
    gc.freeze()  # what was made at start lives as long as the process
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


def collect_if_many_new() -> None:
    """Collect generations 0 and 1 if generation 0 has more than 5,000 objects.

    Python counts objects made minus objects freed. Where a thousand requests come as a thousand
    others end, that count stays near zero however many objects are new, and the collection that
    comes at last visited 75,000 of them, for 50 ms."""
    if len(gc.get_objects(generation=0)) > _MANY_NEW:
        gc.collect(generation=1)
