"""All connections of a server: bounded, and who is idle makes room."""

import resource
from contextlib import ExitStack

import pytest
from structlog.testing import capture_logs

from content_gateway.files.descriptors import most_files
from content_gateway.http.connections import OWN_FILES, Connections, most_connections
from content_gateway.http.limits import ClientLimits
from tests.http.raw import LOOPS, Wire, eventually, get, running_edge

MOST = 20
BOUNDS = ClientLimits(head_seconds=60, idle=60, linger=0.3, drain=0.1, stop=2, connections=MOST)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_longest_idle_one_makes_room(loop: str) -> None:
    """At the limit a new connection replaces the one that has been idle longest; those that asked
    lately, or wait for an answer, stay."""
    with running_edge(loop, BOUNDS) as edge, ExitStack() as stack, capture_logs() as logs:
        wires = [stack.enter_context(edge.connect()) for _ in range(MOST)]
        for wire in wires:
            assert wire.ask(get()).status == 200
        assert wires[0].ask(get()).status == 200  # now the second is the longest idle
        wires[2].send(get("/gated"))
        assert eventually(lambda: edge.app.requests.count("/gated") == 1)
        for new in range(2):
            wire = stack.enter_context(edge.connect())
            assert wire.ask(get(f"/new{new}")).status == 200
        assert wires[1].has_ended()
        assert wires[3].has_ended()
        assert wires[0].ask(get()).status == 200
        edge.open_gate()
        assert wires[2].answer().status == 200
        assert wires[2].ask(get()).status == 200
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert {line["event"] for line in warnings} == {"connections are at their limit"}
    assert warnings[0]["limit"] == MOST


def test_where_all_are_at_work_the_next_is_refused() -> None:
    """With a problem that says so; and there is room again as soon as somebody goes."""
    with running_edge("uvloop", BOUNDS) as edge, ExitStack() as stack:
        wires = [stack.enter_context(edge.connect()) for _ in range(MOST)]
        for wire in wires:
            wire.send(get("/gated"))
        assert eventually(lambda: len(edge.app.requests) == MOST)
        with edge.connect() as late:
            assert late.answer().is_refusal(503)
        edge.open_gate()
        assert all(wire.answer().status == 200 for wire in wires)
        with edge.connect() as late:
            assert late.ask(get()).status == 200


def test_a_flood_of_connections_leaves_files_for_the_service() -> None:
    """Ten times as many as there may be: no more are open than may, and the last one is served."""
    with running_edge("uvloop", BOUNDS) as edge, ExitStack() as stack:
        last: Wire | None = None
        for _ in range(10 * MOST):
            last = stack.enter_context(edge.connect())
        assert last is not None
        assert last.ask(get()).status == 200
        assert eventually(lambda: len(edge.server.server_state.connections) <= MOST)


def test_the_limit_comes_from_the_descriptors() -> None:
    """What the operator chose, but never so many that no file is left."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = files - min(OWN_FILES, files // 2)
    assert most_connections(0) == most_connections(10**9) == allowed
    assert most_connections(7) == 7


def test_the_last_descriptors_are_no_connections() -> None:
    """Where a new one has one of those that are kept for files, the longest idle one goes, however
    few there are; what is open already has another."""
    most = most_files()
    crowd, members = Connections(1_000), [Idle() for _ in range(4)]
    assert crowd.add(members[0], 7)
    assert crowd.add(members[1], most - most // 8 - 100)
    with capture_logs() as logs:
        assert crowd.add(members[2], most - 1)
        assert crowd.add(members[3], most - 2)
    assert [member.is_gone for member in members] == [True, True, False, False]
    assert {line["event"] for line in logs} == {"connections are at their limit"}


class Idle:
    """A connection of which nothing is asked."""

    def __init__(self) -> None:
        self.is_gone = False

    def make_room(self) -> None:
        self.is_gone = True
