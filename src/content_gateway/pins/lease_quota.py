"""How many contents may be leased now: of each lane, and for whom. Rules without I/O.

Knows what is under way, and whether the backend is away; which contents those are is decided by
the ledger, in turn by requestor."""

from collections import Counter
from collections.abc import Collection

from content_gateway.model.content_state import Due, Lane, Shares, shared_by_all
from content_gateway.pins.availability import Outage
from content_gateway.pins.rules import Policy


def lease_quota(policy: Policy, under_way: Collection[Due], outage: Outage) -> Shares:
    """As many as there are free workers, and in an outage a probe."""
    most = policy.workers
    held = [(due.requestor, due.lane) for due in under_way]
    free = max(0, shared_by_all(most) - len(held))
    lanes = Counter(lane for _, lane in held)
    # None of the lanes may keep the others waiting for ever.
    retries = max(0, shared_by_all(max(1, most // 2)) - lanes[Lane.RETRY])
    stubborn = max(0, shared_by_all(max(1, most // 4)) - lanes[Lane.STUBBORN])
    if not outage.is_on:
        return Shares(free, free, retries, stubborn, held=held)
    probes = 0 if outage.is_pause else min(free, 1)
    if outage.is_deaf:
        # What can be let go of need not wait; and as a look alone proves nothing, each lane
        # has a probe.
        return Shares(free, probes, probes, probes, releases=free, held=held)
    return Shares(probes, 1, 1, 1, held=held)
