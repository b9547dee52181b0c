"""The Pinning Service API 1.0.0 under /psa: the same pins, in the words of its clients."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from content_gateway.http.operations.pinning_service_query import STATES
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import NO_LABEL
from tests.cases import case
from tests.fakes.cluster import MiniCluster
from tests.fakes.supply import Supply
from tests.http.held import (
    DELEGATE,
    EVERY_STATUS,
    V0,
    V1,
    add,
    becomes,
    before,
    cid_of,
    found,
)
from tests.service import Service, running_service
from tests.waiting import eventually, until

ORIGIN = "/ip4/8.8.8.8/tcp/4001/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
LOCAL = DELEGATE  # an address of this machine

# -- one pin --------------------------------------------------------------------------------


async def test_a_pin_of_what_somebody_holds_is_pinned_at_once(service: Service) -> None:
    """The answer is told from the ledger, and shows all that was sent."""
    await service.pin(V1, key="somebody")
    await becomes(service, V1, "pinned", key="somebody")
    sent: dict[str, Any] = {"name": "site", "origins": [ORIGIN], "meta": {"a": "b"}}
    shown = await add(service, V1, **sent)
    assert shown["status"] == "pinned"
    assert shown["pin"] == {"cid": V1, **sent}
    assert shown["delegates"] == [DELEGATE]
    assert shown["info"] == {"replicas": "3 of 3"}
    assert abs(datetime.now().astimezone() - datetime.fromisoformat(shown["created"])) < timedelta(
        minutes=5
    )
    again = await service.psa("GET", f"/pins/{shown['requestid']}")
    assert (again.status, again.json) == (200, shown)


async def test_an_idle_service_waits_for_the_first_word(
    tmp_path: Path, cluster: MiniCluster
) -> None:
    """What the backend held before anybody here asked is told to be pinned, if that is soon said;
    here a client waits as long as it takes."""
    async with before(cluster, tmp_path) as service:
        await service.pin(V1)
        await becomes(service, V1, "pinned")
    async with before(cluster, tmp_path / "another ledger") as service:
        requestor = (await service.gateway.keys.identify("me")).id
        reconciler = service.gateway.reconciler
        await until(lambda: reconciler.is_idle)
        status = await service.gateway.pinning.describe(requestor, V1, NO_LABEL)
        assert status.state is ContentState.QUEUED
        assert await reconciler.first_outcome(Cid.parse(V1), 60.0)
        assert (await service.gateway.pinning.status(requestor, Cid.parse(V1))).state == "pinned"


async def test_a_pin_is_accepted_while_the_backend_is_away(
    service: Service, cluster: MiniCluster
) -> None:
    """It is queued, and says what it waits for."""
    for peer in cluster.peers:
        cluster.kill(peer)
    shown = await add(service, V1)
    assert shown["status"] == "queued"
    assert await found(service, "") == []  # the API's default is `pinned` alone
    assert await found(service, EVERY_STATUS) == [V1]

    async def says_why() -> bool:
        answer = await service.psa("GET", f"/pins/{shown['requestid']}")
        return "status_details" in answer.json["info"]

    assert await eventually(says_why)


async def test_a_pin_that_failed_says_why(service: Service, cluster: MiniCluster) -> None:
    """In `info`, where the API has a place for it."""
    cluster.supply, cluster.pin_timeout = Supply(), 0.0
    shown = await add(service, V1)
    await becomes(service, V1, "failed")
    shown = (await service.psa("GET", f"/pins/{shown['requestid']}")).json
    assert shown["status"] == "failed"
    assert "not found in time" in shown["info"]["status_details"]


async def test_a_pin_that_is_held_keeps_its_request_id(service: Service) -> None:
    """A second POST says something else of it, in whatever spelling, and makes no other pin."""
    first = await add(service, V1, name="one", meta={"a": "1"})
    second = await add(service, V0, name="two")
    assert second["requestid"] == first["requestid"]
    assert second["created"] == first["created"]
    assert second["pin"] == {"cid": V1, "name": "two"}
    assert await found(service, EVERY_STATUS) == [V1]


async def test_a_pin_can_be_replaced(service: Service) -> None:
    """The old request id is gone, and the new one is another, also for the same CID."""
    old = await add(service, V1, name="one")
    for cid in (cid_of("new"), cid_of("new"), V1):
        answer = await service.psa("POST", f"/pins/{old['requestid']}", body={"cid": cid})
        assert answer.status == 202
        new = answer.json
        assert new["requestid"] != old["requestid"]
        assert new["pin"] == {"cid": cid}
        assert (await service.psa("GET", f"/pins/{old['requestid']}")).status == 404
        assert await found(service, EVERY_STATUS) == [cid]
        old = new


async def test_a_stale_request_id_removes_nothing(service: Service) -> None:
    """It named a pin that was replaced, and does not name the one that followed."""
    old = await add(service, V1)
    new = (await service.psa("POST", f"/pins/{old['requestid']}", body={"cid": V1})).json
    for method, body in (("DELETE", None), ("POST", {"cid": cid_of("x")}), ("GET", None)):
        answer = await service.psa(method, f"/pins/{old['requestid']}", body=body)
        assert (answer.status, answer.json["error"]["reason"]) == (404, "NOT_FOUND")
    assert (await service.psa("GET", f"/pins/{new['requestid']}")).status == 200


async def test_a_pin_can_be_removed(service: Service, cluster: MiniCluster) -> None:
    """With an answer that has no body; it is gone at once, and its content soon after."""
    shown = await add(service, V1)
    await becomes(service, V1, "pinned")
    answer = await service.psa("DELETE", f"/pins/{shown['requestid']}")
    assert (answer.status, answer.body) == (202, b"")
    for method in ("DELETE", "GET"):
        assert (await service.psa(method, f"/pins/{shown['requestid']}")).status == 404

    assert await until(lambda: not any(peer.pinned for peer in cluster.peers))


async def test_both_faces_show_the_same_pins(service: Service) -> None:
    """What is made through one is seen and removed through the other."""
    shown = await add(service, V1, name="by psa")
    listed = (await service.ask("GET", "/ipfs/pin/ls")).json["results"]
    assert [pin["cid"] for pin in listed] == [V1]
    assert listed[0]["timestamp"] == shown["created"]
    assert (await service.pin(V1)).json["message"].startswith("A pin already exists")
    other = cid_of("native")
    await service.pin(other)
    for cid in (V1, other):
        await becomes(service, cid, "pinned")
    assert await found(service, "") == [other, V1]
    assert (await service.ask("DELETE", f"/ipfs/pin/rm/{V1}")).status == 200
    assert (await service.psa("GET", f"/pins/{shown['requestid']}")).status == 404
    (request_id,) = [status["requestid"] for status in (await service.psa("GET")).json["results"]]
    await service.psa("DELETE", f"/pins/{request_id}")
    assert (await service.ask("GET", f"/ipfs/pin/status/{other}")).status == 404


async def test_nobody_sees_or_removes_the_pins_of_another(service: Service) -> None:
    shown = await add(service, V1)
    assert await found(service, EVERY_STATUS, key="other") == []
    path = f"/pins/{shown['requestid']}"
    for method, body in (("GET", None), ("DELETE", None), ("POST", {"cid": V1})):
        assert (await service.psa(method, path, body=body, key="other")).status == 404
    assert (await service.psa("GET", path)).status == 200


NO_REQUEST_IDS = [
    *("x", "-", "1-", f"-{V1}", V1, f"zz-{V1}", f"FF-{V1}", f"1-{V1[:-1]}", f"1-{V1.upper()}"),
    *(f"{'f' * 15}-{V1}", f"{'f' * 99}-{V1}", "1-b" + "a" * 1900, f"0-{V1}", "%00", "a%2Fb"),
]


async def test_a_request_id_that_was_never_given_out_is_404(service: Service) -> None:
    await service.pin(V1)
    for request_id in NO_REQUEST_IDS:
        for method, body in (("GET", None), ("DELETE", None), ("POST", {"cid": V1})):
            answer = await service.psa(method, f"/pins/{request_id}", body=body)
            assert (answer.status, answer.json["error"]["reason"]) == (404, "NOT_FOUND")


def test_the_api_has_one_word_for_every_state() -> None:
    """What the backend has lost is queued, as the API has no word for it."""
    states = [state for word in STATES.values() for state in word]
    assert sorted(states) == sorted(set(ContentState) - {ContentState.UNPINNING})
    assert ContentState.UNPINNED in STATES["queued"]


# -- bodies ---------------------------------------------------------------------------------


NO_PINS = [
    b"",
    b"x",
    b"[]",
    b"null",
    b'"cid"',
    b"{}",
    b'{"cid": 1}',
    b'{"cid": ""}',
    b'{"cid": "x"}',
    b'{"cid": "' + V1.encode() + b'"',
    b'{"cid": "' + V1.encode() + b'"} {}',
    b'{"cid": "\xff"}',
    b'{"cid": "' + V1.encode() + b'", "name": "\xff"}',
    b'{"cid": "' + V1.encode() + b'", "name": "\\ud800"}',
    b"[" * 60_000,
    b'{"a":' * 12_000,
    json.dumps({"cid": V1, "x": None}).encode().replace(b"null", b"[" * 30_000),
    json.dumps({"cid": V1, "name": "a" * 256}).encode(),
    json.dumps({"cid": V1, "name": 1}).encode(),
    json.dumps({"cid": V1, "name": "a\0b"}).encode(),
    json.dumps({"cid": V1, "origins": ["/a"] * 21}).encode(),
    json.dumps({"cid": V1, "origins": ["no multiaddr"]}).encode(),
    json.dumps({"cid": V1, "origins": "/a"}).encode(),
    json.dumps({"cid": V1, "origins": ["/a"]}).encode(),
    json.dumps({"cid": V1, "origins": [ORIGIN, ORIGIN + "x"]}).encode(),
    json.dumps({"cid": V1, "origins": ["/ip4/8.8.8.8/tcp/4001/p2p/"]}).encode(),
    json.dumps({"cid": V1, "origins": [LOCAL]}).encode(),
    json.dumps({"cid": V1, "origins": ["/ip4/169.254.169.254/tcp/80/http"]}).encode(),
    json.dumps({"cid": V1, "origins": ["/dns4/localhost/tcp/80/http"]}).encode(),
    json.dumps({"cid": V1, "meta": {"a": 1}}).encode(),
    json.dumps({"cid": V1, "meta": {"a": {"b": "c"}}}).encode(),
    json.dumps({"cid": V1, "meta": []}).encode(),
    json.dumps({"cid": V1, "meta": {str(n): "" for n in range(1001)}}).encode(),
]


async def test_a_body_that_is_no_pin_is_refused(service: Service) -> None:
    """With what is wrong with it; and nothing is pinned."""
    held = await add(service, cid_of("held"))
    for body in NO_PINS:
        for path in ("/pins", f"/pins/{held['requestid']}"):
            answer = await service.psa("POST", path, body=body)
            assert answer.status == 400, (body[:50], answer.body)
            assert answer.json["error"]["reason"] == "BAD_REQUEST"
            assert answer.json["error"]["details"].endswith(".")
    assert await found(service, EVERY_STATUS) == [cid_of("held")]


async def test_members_that_nobody_knows_are_passed_over(service: Service) -> None:
    """Clients may be newer than the service; null counts as left out."""
    more = {"name": None, "origins": None, "meta": None, "expires": [{"a": 1}]}
    assert (await add(service, V1, **more))["pin"] == {"cid": V1}


async def test_what_is_said_of_a_pin_comes_back_as_it_was_sent(service: Service) -> None:
    """Any characters, up to the limits."""
    name = "ü\n🐸 \"'%_\\ " + "x" * 240
    meta = {"": "", "ключ": "\x01", "a" * 300: "b" * 2_000}
    origins = [f"/dns4/{number}.example/tcp/1" for number in range(20)]
    shown = await add(service, V1, name=name, meta=meta, origins=origins)
    assert shown["pin"] == {"cid": V1, "name": name, "meta": meta, "origins": origins}
    assert await found(service, f"{EVERY_STATUS}&name={quote(name)}") == [V1]
    meta_query = quote(json.dumps({"ключ": "\x01"}))
    assert await found(service, f"{EVERY_STATUS}&meta={meta_query}") == [V1]


async def test_a_body_must_be_json(service: Service) -> None:
    """By its media type, before it is looked at."""
    answer = await service.psa(
        "POST", body=b'{"cid": "%b"}' % V1.encode(), headers=[("Content-Type", "text/plain")]
    )
    assert answer.status == 415
    answer = await service.psa("POST", body=b" " * 70_000)
    assert (answer.status, answer.json["error"]["reason"]) == (413, "BODY_TOO_LARGE")
    assert await found(service, EVERY_STATUS) == []


# -- origins and delegates --------------------------------------------------------------------


async def test_private_origins_are_passed_over_beside_public_ones(service: Service) -> None:
    """A Kubo sends all addresses that it listens on; the answer shows which are used."""
    shown = await add(service, V1, origins=[LOCAL, ORIGIN])
    assert shown["pin"] == {"cid": V1, "origins": [ORIGIN]}


async def test_the_operator_may_allow_private_origins(tmp_path: Path, cluster: MiniCluster) -> None:
    async with before(cluster, tmp_path, pins__private_origins=True) as service:
        shown = await add(service, V1, origins=[LOCAL])
        assert shown["pin"]["origins"] == [LOCAL]


async def test_origins_reach_the_backend(service: Service, cluster: MiniCluster) -> None:
    """What only the nodes of two requestors have is fetched from them."""
    cluster.supply, cluster.pin_timeout = Supply(), 0.0
    other = ORIGIN.replace("8.8.8.8", "8.8.4.4")
    cluster.origins = {other: {Cid.parse(V1)}}
    await add(service, V1, origins=[ORIGIN])
    await becomes(service, V1, "failed")
    answer = await service.psa("POST", body={"cid": V1, "origins": [other]}, key="other")
    assert answer.status == 202
    await becomes(service, V1, "pinned")
    assert set(cluster.peers[0].state[V1].origins) == {ORIGIN, other}


async def test_clients_are_told_the_addresses_of_the_backend(
    tmp_path: Path, cluster: MiniCluster
) -> None:
    """Its nodes' own, where the operator has named none: public ones, but where others are
    allowed."""
    for peer in cluster.peers:
        peer.addresses = [LOCAL, ORIGIN]
    expected = {False: [ORIGIN], True: [LOCAL, ORIGIN]}
    for private in (False, True):
        settings: dict[str, Any] = {"pins__delegates": [], "pins__private_origins": private}
        async with before(cluster, tmp_path / str(private), **settings) as service:
            shown = await add(service, V1)
            path = f"/pins/{shown['requestid']}"

            async def are_told(service: Service = service, path: str = path) -> Any:
                return (await service.psa("GET", path)).json["delegates"]

            assert await eventually(are_told) == expected[private]


# -- keys and errors ------------------------------------------------------------------------


async def test_the_key_is_a_bearer_token_here_and_only_here(service: Service) -> None:
    """Each face has its own credentials; a key at the wrong one is no key."""
    refused: list[list[tuple[str, str]]] = [
        [],
        [("x-api-key", "me")],
        [("Authorization", "me")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Basic bWU6bWU=")],
        [("Authorization", "Bearer me"), ("Authorization", "Bearer me")],
    ]
    bodies = set()
    for headers in refused:
        answer = await service.psa("GET", key=None, headers=headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"] == 'Bearer realm="content-gateway"'
        bodies.add(answer.body)
    assert len(bodies) == 1
    bearer = [("Authorization", "Bearer me")]
    assert (await service.ask("GET", "/ipfs/pin/ls", key=None, headers=bearer)).status == 401
    both = [("Authorization", "bearer me"), ("x-api-key", "somebody else")]
    await service.pin(V1)
    assert await found(service, EVERY_STATUS, key=None, headers=both) == [V1]


async def test_a_key_needs_the_scope(tmp_path: Path) -> None:
    """One that may only resolve is refused, and told so."""
    async with running_service(tmp_path / "issued", keys__mode="issued") as service:
        for scope, status in (("resolve", 403), ("pin", 200)):
            created = await service.gateway.issued_keys.create(scope, (scope,), None)
            assert created is not None
            assert (await service.psa("GET", key=created[0])).status == status
        assert (await service.psa("GET", key="x")).status == 401


PSA_ERRORS = [
    ("GET", "", 404),
    ("GET", "/", 404),
    ("GET", "/pins/", 404),
    ("GET", "/pins/a/b", 404),
    ("GET", "/PINS", 404),
    ("PUT", "/pins", 405),
    ("DELETE", "/pins", 405),
    ("PATCH", "/pins/x", 405),
]


async def test_every_error_below_psa_has_the_apis_form(service: Service) -> None:
    """The unknown paths and methods too, with or without a key."""
    for method, path, status in PSA_ERRORS:
        with case(method, path, status):
            for key in ("me", None):
                answer = await service.psa(method, path, key=key)
                assert answer.status == status
                assert set(answer.json) == {"error"}
                if status == 405:
                    assert answer.headers["allow"] in (
                        *("GET, HEAD, OPTIONS, POST", "DELETE, GET, HEAD, OPTIONS, POST"),
                    )


async def test_blocked_content_is_not_pinned(tmp_path: Path, cluster: MiniCluster) -> None:
    """In any spelling, by adding or by replacing."""
    denylist = tmp_path / "operator.deny"
    denylist.write_text(f"/ipfs/{V0}\n")
    async with before(cluster, tmp_path, denylist__content_file=denylist) as service:
        held = await add(service, cid_of("held"))
        for path in ("/pins", f"/pins/{held['requestid']}"):
            answer = await service.psa("POST", path, body={"cid": V1})
            assert (answer.status, answer.json["error"]["reason"]) == (451, "BLOCKED")
        assert await found(service, EVERY_STATUS) == [cid_of("held")]
