"""Converts rows of the table `contents` to values and back. No I/O.

Knows the columns and the JSON in them. Statements are run by contents.py and leasing.py."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import structlog

from content_gateway.codecs.timestamps import at_milliseconds
from content_gateway.errors import InvalidCid
from content_gateway.model.backlog import Waiting
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import BackendStatus, ContentState, LastRequest, WorkItem

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
