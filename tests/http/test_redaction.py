"""No answer to a requestor names the operator's servers, whoever wrote the text."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from content_gateway.errors import InvalidDomain, InvalidUpstreamResponse
from content_gateway.http.problems import kind_of
from content_gateway.http.redaction import without_addresses
from content_gateway.model.content_state import Peer
from tests.cli.command import content
from tests.service import running_service

HOSTS = [
    "http://user:word@10.1.2.3:9094/pins?x=1",
    "https://rpc.example.com/v3/SECRET",
    "/ip4/10.1.2.3/tcp/4001/p2p/12D3KooWHtest",
    "/dns4/node.internal/tcp/4001",
    "10.1.2.3:5001",
    "10.1.2.3",
    "[fd00::1]:5001",
    "fd00::1",
    "::1",
    "2001:db8:0:0:0:0:0:1",
    "trustless-gateway.link",
    "node7.prod.internal:9096",
    "kubo:5001",
    "localhost:5001",
    "b\u00fccher.example:5001",
    "\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444",
    "node.xn--p1ai",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "text",
    ["dial tcp {}: connect: connection refused", "No gateway gave it. {}: It answered 404."],
)
def test_no_address_is_left(host: str, text: str) -> None:
    """Of an error in whatever words only those that name no server are left."""
    redacted = without_addresses(text.format(host))
    assert redacted.replace(" ", "") == text.format("a server").replace(" ", "")


@pytest.mark.parametrize(
    "again", ["a.", "[:", "::", ":", "a:", "1.", "a-", "/ip4/", "lookup ", "x"]
)
def test_no_text_takes_long(again: str) -> None:
    """Two hundred thousand letters of it: with the square of that the test would not end."""
    assert without_addresses(again * (200_000 // len(again)))


def test_a_host_of_one_label_is_one() -> None:
    """Where a resolver says which it did not find."""
    redacted = without_addresses("dial tcp: lookup cluster0 on 127.0.0.11:53: no such host")
    assert redacted == "dial tcp: lookup a server on a server: no such host"


@pytest.mark.parametrize(
    "text",
    [
        "The cluster did not find the content within its time limit.",
        "No complete answer within 2.5 s.",
        "Kubo could not pin it: 12 blocks (3456 bytes) so far.",
        "It serves only files (application/vnd.ipld.raw), e.g. websites; it answered 404.",
        "At 2026-11-21T12:00:00.000Z it was 12:00:00.",
        "context deadline exceeded: 3 of 5 replicas, version 1.1.6",
        f"No gateway gave the block {content(1)[0]}.",
        "blake2b-256: unknown hash: 0xb220",
        "block 5:6 of 7:8",
    ],
)
def test_other_words_stay(text: str) -> None:
    """What helps a requestor is not taken away."""
    assert without_addresses(text) == text


def test_an_upstream_is_not_named_in_a_problem() -> None:
    """But what the caller asked for is said as it was spelt."""
    assert kind_of(InvalidUpstreamResponse("10.1.2.3:80 said so."))[1] == "a server said so."
    assert kind_of(InvalidDomain("a..example.eth is none."))[1] == "a..example.eth is none."


async def test_rows_of_earlier_versions_are_told_discreetly(tmp_path: Path) -> None:
    """A reason, and a peer's error, that stand in the ledger with their hosts, on all faces."""
    cid = str(content(1)[0])
    reason = "trustless-gateway.link: It answered 404; dial tcp 10.1.2.3:9094: refused"
    peers = msgspec.json.encode(
        [Peer("node1", "pin_error", None, "lookup node1.internal on 10.0.0.2:53: no such host")]
    ).decode()
    async with running_service(tmp_path / "data") as service:
        assert (await service.pin(cid)).status == 200
        with closing(sqlite3.connect(tmp_path / "data" / "ledger.sqlite", timeout=30)) as ledger:
            ledger.execute(
                "UPDATE contents SET state = 'failed', error = ?, next_at = 4102444800000,"
                " lease_owner = NULL, peers = ?",
                (reason, peers),
            )
            ledger.commit()
        status = await service.ask("GET", f"/ipfs/pin/status/{cid}")
        redacted = "a server: It answered 404; dial tcp a server: refused"
        assert status.json["result"]["reason"] == redacted
        (peer,) = status.json["result"]["peers"]
        assert peer["error"] == "lookup a server on a server: no such host"
        (pin,) = (await service.psa("GET", "/pins?status=failed")).json["results"]
        assert pin["info"]["status_details"] == redacted
