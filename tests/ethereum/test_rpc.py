"""The JSON-RPC client: failover along the endpoints, and what each kind of answer means."""

import json
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import read_call_answer
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from tests.fakes.ethereum import REGISTRY, Ethereum, running_ethereum, selector
from tests.fakes.miniature import Mood

OWNER_OF_ROOT = selector("owner(bytes32)") + bytes(32)
FAILING = [mood for mood in get_args(Mood) if mood not in ("well", "revert", "lie")]


@pytest.fixture
async def first() -> AsyncIterator[Ethereum]:
    async with running_ethereum() as ethereum:
        yield ethereum


@pytest.fixture
async def second() -> AsyncIterator[Ethereum]:
    async with running_ethereum() as ethereum:
        yield ethereum


@pytest.fixture
def rpc(outbound: HttpClient, first: Ethereum, second: Ethereum) -> EthereumRpc:
    return EthereumRpc(outbound, [first.url, second.url], seconds=2)


async def test_the_first_endpoint_answers(
    rpc: EthereumRpc, first: Ethereum, second: Ethereum
) -> None:
    """While the first endpoint is well, nobody else is asked."""
    assert await rpc.call(REGISTRY, OWNER_OF_ROOT, bytes) == bytes(32)
    assert first.calls == [(REGISTRY, OWNER_OF_ROOT)]
    assert (first.posts, second.posts) == (1, 0)


@pytest.mark.parametrize("mood", FAILING)
async def test_a_failing_endpoint_is_passed_over(
    rpc: EthereumRpc, first: Ethereum, second: Ethereum, mood: Mood
) -> None:
    """However the first endpoint fails, the second one answers. `0x` (no contract there) and a
    node's own errors are no answers of the contract."""
    first.misbehave(mood)
    assert await rpc.call(REGISTRY, OWNER_OF_ROOT, bytes) == bytes(32)
    assert first.posts >= 1
    assert second.posts == 1


async def test_a_revert_is_an_answer(rpc: EthereumRpc, first: Ethereum, second: Ethereum) -> None:
    """What the contract refuses, it refuses everywhere: the second endpoint is not asked."""
    first.misbehave("revert")
    with pytest.raises(Reverted) as reverted:
        await rpc.call(REGISTRY, OWNER_OF_ROOT, bytes)
    assert reverted.value.data == selector("NobodyKnowsThis()")
    assert second.posts == 0


async def test_when_all_fail_the_last_reason_is_told(
    rpc: EthereumRpc, first: Ethereum, second: Ethereum
) -> None:
    """Nothing is made up when every endpoint fails."""
    first.go_dark()
    second.misbehave("hang")
    with pytest.raises(UpstreamTimeout):
        await rpc.call(REGISTRY, OWNER_OF_ROOT, bytes)


async def test_a_flood_is_cut_off(outbound: HttpClient, first: Ethereum) -> None:
    """Of 40 MB we read 256 KiB; the rest stays in the socket's buffers."""
    first.misbehave("huge")
    with pytest.raises(InvalidUpstreamResponse):
        await EthereumRpc(outbound, [first.url], seconds=5).call(REGISTRY, OWNER_OF_ROOT, bytes)
    assert first.bytes_flooded < 16_000_000


async def test_without_endpoints_nothing_can_be_known(outbound: HttpClient) -> None:
    """No endpoint configured is an outage, not an empty answer."""
    with pytest.raises(UpstreamUnavailable):
        await EthereumRpc(outbound, [], seconds=1).call(REGISTRY, OWNER_OF_ROOT, bytes)


async def test_an_endpoints_address_stays_out_of_log_and_error(
    outbound: HttpClient, first: Ethereum
) -> None:
    """The URL may hold the operator's key, so endpoints are named by host alone."""
    first.misbehave("503")
    secret = f"{first.url}/v3/s3cr3t"
    with structlog.testing.capture_logs() as logs, pytest.raises(UpstreamError) as failed:
        await EthereumRpc(outbound, [secret], seconds=1).call(REGISTRY, OWNER_OF_ROOT, bytes)
    (failure,) = [entry for entry in logs if entry["event"] == "rpc endpoint failed"]
    assert failure["endpoint"] == first.url.removeprefix("http://")
    assert "s3cr3t" not in str(logs) + failed.value.detail
    assert first.url not in failed.value.detail


def answer(**fields: Any) -> bytes:
    """A JSON-RPC answer."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, **fields}).encode()


@pytest.mark.parametrize(
    ("error", "data"),
    [
        ({"code": 3, "message": "execution reverted", "data": "0x77209fe8"}, "77209fe8"),
        ({"code": -32000, "message": "VM", "data": "0x77209fe8"}, "77209fe8"),
        ({"code": -32000, "message": "VM", "data": {"data": "0x77209fe8"}}, "77209fe8"),
        ({"code": 3, "message": "", "data": "0x"}, ""),
    ],
)
def test_every_way_to_report_a_revert_is_read(error: dict[str, Any], data: str) -> None:
    """geth, anvil and their kin differ in code and place; all of them mean the contract."""
    with pytest.raises(Reverted) as reverted:
        read_call_answer(answer(error=error))
    assert reverted.value.data.hex() == data


@pytest.mark.parametrize("code", [3, -32000])
def test_a_revert_without_its_data_is_a_failure_of_the_endpoint(code: int) -> None:
    """What the contract said is lost, so another endpoint is asked; nothing is guessed."""
    with pytest.raises(UpstreamUnavailable):
        read_call_answer(answer(error={"code": code, "message": "execution reverted"}))


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32005, "message": "limit exceeded"},
        {"code": -32000, "message": "header not found"},
        {"code": -32601, "message": "no such method", "data": None},
        {"code": -32000, "message": "busy", "data": "0x"},
        {"code": -32000, "message": "busy", "data": "not hex"},
        {"code": -32000, "data": {"data": {"data": "0x"}}},
        {},
        {"message": None},
        {"message": ["a"], "code": "x"},
    ],
)
def test_a_nodes_own_error_is_an_outage(error: dict[str, Any]) -> None:
    """A node that is limited, syncing or confused has not spoken for the contract."""
    with pytest.raises(UpstreamUnavailable):
        read_call_answer(answer(error=error))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!doctype html>",
        b"null",
        b"[]",
        b'"0x01"',
        b"{}",
        b'{"result": null}',
        b'{"result": "0x"}',
        b'{"result": "01"}',
        b'{"result": "0x0"}',
        b'{"result": "0xzz"}',
        b'{"result": 1}',
        b'{"result": ["0x01"]}',
        b'{"error": "busy"}',
        b'{"result": "0x\xff"}',
        b'{"result": "0x01"',
        b'{"result": 1e999}',
        b"[" * 100,
        pytest.param(b"[" * 200_000, id="200,000 brackets"),
        pytest.param(b'{"a":' * 40_000, id="40,000 objects"),
    ],
)
def test_what_is_no_answer_to_eth_call_is_garbage(body: bytes) -> None:
    """Pages, empty results and broken or bottomless JSON never pass for an answer."""
    with pytest.raises(InvalidUpstreamResponse):
        read_call_answer(body)


@given(st.one_of(st.binary(), st.text().map(str.encode)))
@settings(max_examples=200, deadline=None)
def test_any_body_is_an_answer_a_revert_or_an_upstream_error(body: bytes) -> None:
    """Whatever arrives, the caller hears one of the three."""
    try:
        assert read_call_answer(body)
    except (Reverted, UpstreamError):
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.just("0x00") | st.just("0x7"),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["data", "code"]), inner),
)


@given(st.fixed_dictionaries({}, optional={"error": JSON, "result": JSON, "id": JSON}))
@settings(max_examples=200, deadline=None)
def test_any_json_is_an_answer_a_revert_or_an_upstream_error(fields: dict[str, Any]) -> None:
    """The same for answers that look right from afar."""
    try:
        assert read_call_answer(json.dumps(fields).encode())
    except (Reverted, UpstreamError):
        return
