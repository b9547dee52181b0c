"""The answers about domains and IPNS names: values of the domain to bodies and header fields.

Knows the fields of spec.yaml and what is said where something had
to be left out. Who gets an answer, and when, is left to route.py."""

from datetime import timedelta
from typing import Any, Final

import msgspec

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.http.messages import Response, confirmed, keyed
from content_gateway.http.problems import Headers
from content_gateway.ipns.resolver import TaskProgress
from content_gateway.model.content_path import IpfsPath
from content_gateway.model.domain import DomainName
from content_gateway.model.records import (
    Failed,
    IpfsContent,
    IpnsContent,
    OtherContent,
    Records,
    Resolution,
    Resolved,
    Staleness,
)


def records_known(name: DomainName, resolved: Resolved, cached: IpfsPath | None) -> Response:
    """What was last known of *name*, nulls included; *cached* is where IPNS content leads."""
    content = resolved.records.content
    result = {
        "domain": name.text,
        "ipfs": str(content.cid) if isinstance(content, IpfsContent) else None,
        "ipns": content.name.text if isinstance(content, IpnsContent) else None,
        "ipnsCache": None if cached is None else str(cached.cid),
        "path": (cached.path or None) if cached is not None else None,
        "address": resolved.records.known_wallet,
        "storedAt": rfc3339(resolved.at),
    }
    message = "; ".join(["Last known records", *_failure_notes(resolved.records)])
    return confirmed(message, result, *_records_headers(resolved.records))


def ipns_started(started: TaskProgress) -> Response:
    """The task that was started, and what is known already."""
    return confirmed("IPNS resolution started", _task(started))


def ipns_progress(progress: TaskProgress) -> Response:
    """The state of a task, and what it found or why it found nothing."""
    result = {**_task(progress), "state": progress.state}
    if progress.failure is not None:
        result["reason"] = progress.failure
    return confirmed(_STATES[progress.state], result)


_STATES: Final = {
    "pending": "IPNS resolution pending",
    "resolved": "IPNS name resolved",
    "failed": "IPNS resolution failed",
}


def _task(progress: TaskProgress) -> dict[str, str]:
    return {"taskId": progress.task.id, "name": progress.task.name.text, **_cached(progress.found)}


def _cached(found: IpfsPath | None) -> dict[str, str]:
    """The fields that say where an IPNS name leads; `path` only where it is not the CID itself."""
    if found is None:
        return {}
    return {"ipnsCache": str(found.cid)} | ({"path": found.path} if found.path else {})


class RenderedResolutions:
    """Responses to resolve requests, kept ready-made while the same records are given out.

    The directory hands out one Records value until it resolves another, so its identity is a key
    that costs nothing to compare; the value is held here, and its identity with it."""

    MAX_KEPT = 10_000

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[Resolution, Response]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, resolution: Resolution) -> Response:
        """The response that says *resolution*."""
        # What was asked for besides is seldom asked twice, and may be large.
        if resolution.stale is not None or resolution.records.more:
            return _rendered(resolution)
        key = (id(resolution.records), id(resolution.ipns_cache))
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self.MAX_KEPT:
                del self._kept[next(iter(self._kept))]  # the oldest
            kept = self._kept[key] = (resolution, _rendered(resolution).kept())
        return kept[1]


def _rendered(resolution: Resolution) -> Response:
    return keyed(resolution_body(resolution), *resolution_headers(resolution))


def resolution_body(resolution: Resolution) -> bytes:
    """The domain resolution result (spec.yaml)."""
    return msgspec.json.encode(resolution_members(resolution))


def resolution_members(resolution: Resolution) -> dict[str, Any]:
    """The members of the domain resolution result."""
    records, notes = resolution.records, []
    body: dict[str, Any] = {"message": ""}
    match records.content:
        case IpfsContent(cid):
            body["content"] = {"type": "ipfs", "cid": str(cid)}
        case IpnsContent(name):
            body["content"] = {"type": "ipns", "name": name.text, **_cached(resolution.ipns_cache)}
        case OtherContent(codec, text):
            notes.append(f"its content is of the type {codec}, which is not served here")
            if codec not in _NO_CONTENT:
                body["other"] = {"type": codec, "value": text}
    if (wallet := records.known_wallet) is not None:
        body["walletAddress"] = {"type": "address", "addr": wallet}
    elif records.wallet is None:
        notes.append("it has no such wallet address")
    body["message"] = "; ".join(["Domain resolved", *notes, *_failure_notes(records)])
    if records.resolver is not None:
        body["resolver"] = records.resolver
    if records.more:
        body["records"] = {key: _record(value) for key, value in records.more}
    return body


# Of these it is not known what they are.
_NO_CONTENT: Final = frozenset({"basename"})


def _record(value: str | Failed | None) -> dict[str, str]:
    """What became of one record that was asked for besides."""
    if value is None:
        return {"state": "absent"}
    if isinstance(value, Failed):
        return {"state": "failed", "reason": value.reason}
    return {"state": "value", "value": value}


def resolution_headers(resolution: Resolution) -> Headers:
    """The fields of a resolution: whose wallet it is, what failed, how stale it is (RFC 9211)."""
    headers = _records_headers(resolution.records)
    if resolution.stale is not None:
        headers += stale_headers(resolution.stale)
    return headers


def stale_headers(stale: Staleness) -> Headers:
    """The fields of an answer that serves although it is stale (RFC 9111, RFC 9211)."""
    age, ttl = age_and_ttl(stale)
    return [
        (b"age", str(age).encode()),
        (b"cache-status", f"content-gateway; hit; ttl={ttl}".encode()),
    ]


def age_and_ttl(stale: Staleness) -> tuple[int, int]:
    """How old the answer is, and for how long it is still fresh; negative: was it. In seconds."""
    seconds = int(stale.overdue.total_seconds())
    ttl = -max(1, seconds) if stale.overdue > timedelta() else -seconds
    return int(stale.age.total_seconds()), ttl


def _records_headers(records: Records) -> Headers:
    """Whose wallet it is, where that is not what an address record says; and which records could
    not be read, as a list of tokens (RFC 9651)."""
    headers = [(b"content-gateway-wallet", b"owner")] if records.wallet_is_owner else []
    if failures := records.failures:
        headers.append((b"content-gateway-failed", ", ".join(failures).encode()))
    return headers


def _failure_notes(records: Records) -> list[str]:
    """What could not be read, and why, for people."""
    return [
        f"its {record} could not be read: {_in_a_sentence(failed.reason)}"
        for record, failed in records.failures.items()
    ]


def _in_a_sentence(reason: str) -> str:
    """A sentence, to stand behind a colon; names at its beginning keep their capital."""
    if reason.startswith(("The ", "There ", "Too ", "No ")):
        reason = reason[0].lower() + reason[1:]
    return reason.rstrip(".")
