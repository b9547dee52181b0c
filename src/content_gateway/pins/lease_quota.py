"""How many contents may be leased now: of each queue, and for whom. Rules without I/O.

Knows what is under way, and whether the backend is unreachable; which contents those are is decided
by the ledger, in turn by requestor."""

from collections import Counter
from collections.abc import Collection

from content_gateway.model.content_state import LeaseQuota, Queue, WorkItem, shared_by_all
from content_gateway.pins.availability import Availability
from content_gateway.pins.rules import ReconcilePolicy


def lease_quota(
    policy: ReconcilePolicy, under_way: Collection[WorkItem], availability: Availability
) -> LeaseQuota:
    """As many as there are free workers, and in an outage a probe."""
    most = policy.workers
    held = [(item.requestor, item.queue) for item in under_way]
    free = max(0, shared_by_all(most) - len(held))
    queues = Counter(queue for _, queue in held)
    # None of the queues may keep the others waiting for ever.
    retries = max(0, shared_by_all(max(1, most // 2)) - queues[Queue.RETRY])
    slow = max(0, shared_by_all(max(1, most // 4)) - queues[Queue.SLOW])
    if not availability.is_on:
        return LeaseQuota(free, free, retries, slow, held=held)
    probes = 0 if availability.is_backing_off else min(free, 1)
    if availability.is_rejecting_writes:
        # What can be released need not wait; and as a status check alone proves nothing, each queue
        # has a probe.
        return LeaseQuota(free, probes, probes, probes, releases=free, held=held)
    return LeaseQuota(probes, 1, 1, 1, held=held)
