"""The statuses of many peers become one status, and their errors become one reason."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from content_gateway.backends.cluster.error_texts import in_words
from content_gateway.backends.cluster.status import (
    error_message,
    first_object,
    read_allocation,
    read_entry,
    read_status,
    read_statuses,
)
from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.model.content_state import TrackerStatus

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
AT = "2026-11-21T15:16:06.650047803Z"


def status(*words: str, allocations: int | None = None, errors: str = "") -> dict[str, Any]:
    """A status object in which the peers say *words*, one each."""
    peers = {
        f"12D3KooWpeer{number}": {
            "peername": f"peer{number}",
            "status": word,
            "timestamp": AT,
            "error": errors if "error" in word else "",
        }
        for number, word in enumerate(words)
    }
    allocated = [peer for peer in peers if peers[peer]["status"] != "remote"]
    named = allocated if allocations is None else [f"p{n}" for n in range(allocations)]
    return {"cid": CID, "allocations": named, "peer_map": peers}


@pytest.mark.parametrize(
    ("words", "wanted", "expected", "replicas"),
    [
        ("pinned pinned remote", 2, TrackerStatus.PINNED, 2),
        ("pinned pinned", None, TrackerStatus.PINNED, 2),
        ("pinned pin_error pinned", 2, TrackerStatus.PINNED, 2),
        ("pinned cluster_error pinned", 2, TrackerStatus.PINNED, 2),
        ("pinned pinning pinned", 2, TrackerStatus.PINNED, 2),
        ("pinned pinning", None, TrackerStatus.PINNING, 1),
        ("pinning pin_error cluster_error", 1, TrackerStatus.PINNING, 0),
        ("pin_queued pin_error", 1, TrackerStatus.QUEUED, 0),
        ("pinning pin_queued", 1, TrackerStatus.PINNING, 0),
        ("unpinned pinned", None, TrackerStatus.UNTRACKED, 1),
        ("unpinned pin_queued", None, TrackerStatus.QUEUED, 0),
        ("unexpectedly_unpinned", 1, TrackerStatus.LOST, 0),
        ("unexpectedly_unpinned pinned pinning", 3, TrackerStatus.LOST, 1),
        ("pin_error pin_error", 1, TrackerStatus.FAILED, 0),
        ("pin_error pinned remote", 2, TrackerStatus.FAILED, 1),
        ("pin_error cluster_error", 1, TrackerStatus.UNKNOWN, 0),
        ("cluster_error cluster_error", 1, TrackerStatus.UNKNOWN, 0),
        ("pinned cluster_error", 2, TrackerStatus.UNKNOWN, 1),
        ("undefined", 1, TrackerStatus.UNKNOWN, 0),
        ("sharded", 1, TrackerStatus.UNKNOWN, 0),
        ("a-word-of-next-year", 1, TrackerStatus.UNKNOWN, 0),
        ("remote remote", 1, TrackerStatus.UNKNOWN, 0),
        ("", 1, TrackerStatus.UNKNOWN, 0),
    ],
)
def test_many_words_make_one(
    words: str, wanted: int | None, expected: TrackerStatus, replicas: int
) -> None:
    """Enough replicas make it pinned; work in progress goes before failure, and unknown before
    both."""
    seen = read_status(status(*words.split())).status(wanted)
    assert (seen.status, seen.replicas) == (expected, replicas)


def test_remote_peers_are_no_part_of_it() -> None:
    seen = read_status(status("pinned", "remote", "remote")).status(None)
    assert (seen.wanted, [peer.name for peer in seen.peers]) == (1, ["peer0"])


def test_an_allocated_peer_that_is_left_out_is_still_wanted() -> None:
    """Two peers are named in the pin and one answers: that one has not failed for both."""
    one_of_two = status("pinned", allocations=2)
    assert read_status(one_of_two).status(None).status is TrackerStatus.UNKNOWN
    failed = status("pin_error", allocations=2, errors="context canceled")
    assert read_status(failed).status(None).status is TrackerStatus.UNKNOWN


def test_a_pin_with_fewer_peers_than_wanted_now_is_pinned_and_says_so() -> None:
    """The pin was made when one replica was enough; all of its peers hold it."""
    seen = read_status(status("pinned", "remote")).status(2)
    assert (seen.status, seen.replicas, seen.wanted) == (TrackerStatus.PINNED, 1, 2)
    assert seen.reason == "The cluster was asked to keep it on 1 peers only."


def test_a_peer_is_told_with_its_own_words() -> None:
    """Name, word, time in UTC to the microsecond, and error."""
    error = "IPFS error (pin/add?arg=x). Code: 500. Message: odd"
    (peer,) = read_status(status("pin_error", errors=error)).status(1).peers
    assert (peer.name, peer.status, peer.error) == ("peer0", "pin_error", error)
    assert peer.at == datetime(2026, 11, 21, 15, 16, 6, 650047, UTC)


def test_a_time_before_time_is_none() -> None:
    """Go writes the year 1 for no time at all."""
    value = status("pinned")
    value["peer_map"]["12D3KooWpeer0"]["timestamp"] = "0001-01-01T00:00:00Z"
    assert read_status(value).peers[0].at is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("context canceled", "not found in time"),
        ("context deadline exceeded", "not found in time"),
        ("ipld: could not find QmX", "nobody who has it was found"),
        ("block was not found locally (offline): ...", "nobody who has it was found"),
        ("Post http://10.0.0.8:5001/x: dial tcp: connection refused", "IPFS cannot be reached"),
        ("pin/unpin operation queue is full. Try increasing", "the queue is full"),
        ("write: no space left on device", "the disk is full"),
        ("odd thing at http://10.0.0.8:5001/api and [::1]:9", "odd thing at ... and ..."),
        ("/ip4/10.1.2.3/tcp/9096/p2p/12D3 is odd\x00", "... is odd"),
        ("", "no reason given"),
    ],
)
def test_errors_are_told_in_words_and_without_addresses(error: str, words: str) -> None:
    """A person learns what it means, and never where the operator's servers are."""
    assert in_words(error) == words


def test_the_reason_of_a_failure_names_the_peers_of_each_complaint() -> None:
    seen = read_status(status("pin_error", "pin_error", errors="context canceled")).status(1)
    assert seen.reason == "not found in time (peer0, peer1)"


def test_only_a_status_of_nothing_but_unpinned_may_be_absence() -> None:
    """A cluster answers so for what is not in its pinset."""
    assert read_status(status("unpinned", "unpinned", allocations=0)).may_be_absent
    assert not read_status(status("unpinned", "pinning", allocations=0)).may_be_absent
    assert not read_status(status("unpinned", "unpinned", allocations=2)).may_be_absent


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html>",
        b"[]",
        b"null",
        b"{}",
        json.dumps({**status("pinned"), "cid": "rubbish"}).encode(),
        json.dumps({**status("pinned"), "peer_map": []}).encode(),
        json.dumps({**status("pinned"), "peer_map": {"a": None}}).encode(),
        json.dumps({**status("pinned"), "peer_map": {"a": {"status": 3}}}).encode(),
        json.dumps({**status("pinned"), "allocations": "all"}).encode(),
        json.dumps(status("pinned")).encode() + b"\n{",
    ],
)
def test_what_is_no_status_is_garbage(body: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        read_statuses(body)


def test_a_pin_is_read_with_what_it_promises() -> None:
    """Its factor, its peers, and whether it is whole and without end."""
    pin = {"cid": CID, "type": "pin", "replication_factor_min": 2, "allocations": ["a", "b", "c"]}
    whole = read_allocation(pin)
    assert (whole.is_pin, whole.wanted, whole.keeps_all) == (True, 2, True)
    assert whole.peers == ("a", "b", "c")
    assert [whole.suffices(least) for least in (-1, 0, 2, 3)] == [True, True, True, False]
    everywhere = read_allocation({**pin, "replication_factor_min": -1, "allocations": None})
    assert (everywhere.wanted, everywhere.peers) == (None, ())
    assert not read_allocation({**pin, "mode": "direct"}).keeps_all
    assert not read_allocation({**pin, "expire_at": AT}).keeps_all
    assert read_allocation({**pin, "expire_at": "0001-01-01T00:00:00Z"}).keeps_all
    assert not read_allocation({**pin, "type": "meta-pin"}).is_pin
    for wrong in ({**pin, "replication_factor_min": None}, {**pin, "allocations": 3}):
        with pytest.raises(InvalidUpstreamResponse):
            read_allocation(wrong)


def test_lines_of_the_pinset() -> None:
    """A pin's CID as it is spelled, if it could be ours; no parts of sharded content; the rest is
    garbage."""
    assert read_entry({"cid": "bafy", "type": "pin", "mode": "recursive"}) == "bafy"
    assert read_entry({"cid": "Qm", "type": "pin"}) is None
    assert read_entry({"cid": "Qm", "type": "shard-pin"}) is None
    wrong: list[dict[str, Any]] = [{"code": 500, "message": "broken"}, {"cid": 3, "type": "pin"}]
    for line in wrong:
        with pytest.raises(InvalidUpstreamResponse):
            read_entry(line)


def test_only_the_first_document_of_an_answer_counts() -> None:
    """To a refusal the cluster adds what it did all the same (docs/facts/pins.md, trap 1)."""
    body = b'{"code":400,"message":"no"}\n{"cid":"x","type":"pin"}\n'
    assert first_object(body) == {"code": 400, "message": "no"}
    assert error_message(body) == "no"
    assert error_message(b"<p>Bad Gateway") is None
    assert error_message(b'{"message": 7}') is None
