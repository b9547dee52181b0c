"""Killed with work under way: by SIGKILL at named points and at random, before a cluster that is
killed too, until the service starts for the last time.

The journal judges; the lives are those of `tests/faults/lives.py`."""

from typing import Final

from tests.chance import SEED
from tests.faults.backends import batching
from tests.faults.failpoints import FAILPOINTS
from tests.faults.ground import Ground
from tests.faults.journal import Journal
from tests.faults.lives import come_to_rest, die_at_points, die_at_random
from tests.faults.row import Figure, Size

_LIVES: Final = {"full": (len(FAILPOINTS), 30), "short": (3, 4)}


async def killed(ground: Ground, size: Size) -> Figure:
    """At every named point, then at random; at last what is kept, and how soon."""
    at_points, at_random = _LIVES[size]
    journal = Journal(SEED)
    async with batching() as world:
        missed = await die_at_points(ground, world, journal, at_points, seed=0)
        await die_at_random(ground, world, journal, at_random)
        world.leave_alone()  # what holds up a restart is the service's own then
        seconds = await come_to_rest(ground, world, journal)
    return Figure(
        f"{at_points - missed.total()} kills at points, {at_random} at random, "
        f"{journal.acknowledged:,} acknowledged; 0 lost, 0 half; all at the cluster after "
        f"{seconds:.0f} s",
        seconds <= 60,
    )
