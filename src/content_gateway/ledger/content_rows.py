"""Converts rows of the table `contents` to values and back. No I/O.

Knows the columns and the JSON in them. Statements are run by contents.py and
leasing.py of each database."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import structlog

from content_gateway.codecs.timestamps import at_milliseconds
from content_gateway.errors import InvalidCid
from content_gateway.model.backlog import Waiting
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    LastRequest,
    Outcome,
    WorkItem,
    after,
)

log = structlog.get_logger(__name__)


def waiting_of(row: tuple[Any, ...]) -> Waiting:
    """The value of a row (cid, state, updated_at, attempts, error, next_at)."""
    cid, state, updated_at, attempts, error, next_at = row
    return Waiting(
        cid=Cid.parse(cid),
        state=ContentState(state),
        since=at_milliseconds(updated_at),
        attempts=attempts,
        error=error,
        next_at=None if next_at is None else at_milliseconds(next_at),
    )


def work_item_of(row: tuple[Any, ...]) -> WorkItem | None:
    """The content of a row of leasing.LEASED; None, and a log entry, if its CID is invalid."""
    (
        content,
        text,
        state,
        generation,
        holders,
        attempts,
        status_checks,
        last_request,
        requested_at,
        requestor,
    ) = row
    try:
        cid = Cid.parse(text)
    except InvalidCid as odd:
        log.error("the ledger has a content that is none", cid=text, reason=odd.detail)
        return None
    return WorkItem(
        id=content,
        cid=cid,
        state=ContentState(state),
        generation=generation,
        is_held=holders > 0,
        attempts=attempts,
        status_checks=status_checks,
        last_request=None if last_request is None else LastRequest(last_request),
        requested_at=(requested_at or 0) / 1000,
        requestor=requestor,
        is_shared=holders > 1,
    )


def status_columns(seen: BackendStatus | None, heard_at: datetime) -> dict[str, Any]:
    """The values of the columns replicas, wanted and peers; NULL without a status.

    A peer's status without a time gets *heard_at*."""
    if seen is None:
        return {"replicas": None, "wanted": None, "peers": None}
    peers = [peer if peer.at else replace(peer, at=heard_at) for peer in seen.peers]
    encoded = msgspec.json.encode(peers).decode()
    return {"replicas": seen.replicas, "wanted": seen.wanted, "peers": encoded}


def outcome_columns(item: WorkItem, outcome: Outcome, now: int) -> dict[str, Any] | None:
    """The values that *outcome* gives the row of *item* at *now* (milliseconds since 1970).

    None: the content is gone, and its row with it. Without an event nothing was observed
    (`is_observed`): a known error stays, and known replicas, which are NULL here."""
    state: ContentState | None = item.state
    if outcome.event is not None:
        state = after(item.state, outcome.event)
    if state is None:
        return None
    has_changed = state is not item.state
    # A request that the backend never began is taken back from the count.
    attempts = max(0, item.attempts + outcome.attempted - outcome.is_untried)
    status_checks = item.status_checks if outcome.is_uncounted else item.status_checks + 1
    return {
        "state": state,
        "attempts": 0 if state is ContentState.PINNED else attempts,
        "status_checks": 1 if has_changed or outcome.attempted else status_checks,
        "next_at": None if outcome.again_in is None else now + round(outcome.again_in * 1000),
        "error": outcome.error,
        "is_observed": outcome.event is not None,
        "now": now,
        "has_changed": has_changed,
        **status_columns(outcome.status, at_milliseconds(now)),
    }
