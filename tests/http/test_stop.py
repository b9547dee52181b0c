"""A graceful stop: nothing that was accepted is cut off, and the end is never far.

On both event loops in this process, and by SIGTERM in a process of its own, on uvloop as in
production."""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from content_gateway.http.limits import ClientLimits
from content_gateway.http.server import listen, make_server
from tests.http.raw import LOOPS, PATIENCE, Edge, Wire, eventually, get, lines_of, running_edge

BOUNDS = ClientLimits(head_seconds=4, idle=60, linger=0.3, drain=0.3, stop=6)


@pytest.fixture(params=LOOPS)
def edge(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Edge]:
    """A server to stop; afterwards nothing of it may be left."""
    with running_edge(request.param, BOUNDS) as edge:
        yield edge
    assert edge.is_quiet()
    assert not [line for line in lines_of(caplog.records) if "running task" not in line]


def is_listening(port: int) -> bool:
    try:
        Wire(port).socket.close()
    except ConnectionError:
        return False
    return True


def test_what_is_under_way_is_answered_and_new_connections_are_not_taken(
    edge: Edge, wire: Wire
) -> None:
    """The listener closes first; a slow request has its whole answer afterwards."""
    wire.send(get("/gated"))
    assert eventually(lambda: edge.app.requests == ["/gated"])
    edge.begin_to_stop()
    assert eventually(lambda: not is_listening(edge.port))
    edge.open_gate()
    answer = wire.answer()
    assert (answer.json["path"], answer.closes) == ("/gated", True)
    assert wire.has_ended()
    assert edge.has_stopped()


def test_a_big_answer_is_sent_to_its_end(edge: Edge, wire: Wire) -> None:
    """Also when the client reads it slowly."""
    wire.send(get("/big"))
    assert eventually(lambda: bool(edge.app.requests))
    edge.begin_to_stop()
    time.sleep(0.5)
    assert len(wire.answer().body) > 1_000_000
    assert edge.has_stopped()


def test_a_request_that_crosses_the_stop_is_answered(edge: Edge, wire: Wire) -> None:
    """A client of a kept connection cannot know yet; it learns from the answer."""
    assert not wire.ask(get("/first")).closes
    edge.begin_to_stop()
    answer = wire.ask(get("/second"))
    assert (answer.json["path"], answer.closes) == ("/second", True)
    assert wire.has_ended()
    assert edge.has_stopped()


def test_an_idle_client_is_let_go_at_once(edge: Edge, wire: Wire) -> None:
    """Cleanly, long before it would have been too idle; as is one that never said a word."""
    with edge.connect() as silent:
        assert wire.ask(get()).status == 200
        edge.begin_to_stop()
        assert wire.has_ended()
        assert silent.has_ended()
        wire.send(get("/late"))
        assert wire.has_ended()
        assert edge.has_stopped()
    assert edge.app.requests == ["/"]


@pytest.mark.parametrize("how", ["completed", "silent", "blank lines"])
def test_half_a_head_has_its_deadline(edge: Edge, wire: Wire, how: str) -> None:
    """What becomes a request in time is answered; what does not is told so or closed."""
    head = get("/second")
    wire.send(b"\r\n\r\n" if how == "blank lines" else head[:20])
    time.sleep(0.1)
    edge.begin_to_stop()
    if how == "completed":
        wire.send(head[20:])
        answer = wire.answer()
        assert (answer.json["path"], answer.closes) == ("/second", True)
    elif how == "silent":
        assert wire.answer().is_refusal(408)
    assert wire.has_ended()
    assert edge.has_stopped()


def test_the_stop_is_bounded(edge: Edge, wire: Wire) -> None:
    """A request that does not end is cut off, with a clean end rather than half an answer."""
    wire.send(get("/endless"))
    assert eventually(lambda: bool(edge.app.requests))
    start = time.monotonic()
    edge.begin_to_stop()
    with suppress(ConnectionResetError):
        assert b"HTTP/1.1 2" not in wire.rest()
    assert edge.has_stopped()
    assert time.monotonic() - start > 5.5


def test_pipelined_requests_are_answered_or_not_begun(edge: Edge, wire: Wire) -> None:
    """Their client sees which answer is the last, and may safely repeat what is behind it."""
    wire.send(get("/gated") + get("/second") * 3)
    assert eventually(lambda: bool(edge.app.requests))
    edge.begin_to_stop()
    edge.open_gate()
    answers = 1
    while not wire.answer().closes:
        answers += 1
    assert wire.has_ended()
    assert edge.has_stopped()
    assert len(edge.app.requests) == answers


def test_an_upload_does_not_hold_up_the_stop(edge: Edge, wire: Wire) -> None:
    wire.send(get("/gated", "Content-Length: 1000000000"))
    sender = threading.Thread(target=wire.send_while_taken, args=(b"a" * 65_536, 15_000))
    sender.start()
    assert eventually(lambda: bool(edge.app.requests))
    edge.begin_to_stop()
    edge.open_gate()
    assert wire.answer().closes
    assert edge.has_stopped()
    sender.join()


def knock(port: int, lost: list[str], answered: list[int]) -> None:
    """Ask on new connections until none is taken; *lost* tells which requests had no answer."""
    while True:
        try:
            wire = Wire(port)
        except ConnectionError:
            return
        with wire:
            try:
                wire.send(get())
                answered.append(wire.answer().status)
            except (ConnectionError, EOFError) as error:
                lost.append(repr(error))


@pytest.mark.parametrize("loop", LOOPS)
def test_no_connection_that_was_taken_is_left_without_an_answer(loop: str) -> None:
    """Clients that connect all the time are refused or answered, up to the last moment."""
    lost: list[str] = []
    for _ in range(3):
        answered: list[int] = []
        with running_edge(loop, BOUNDS) as edge:
            clients = [
                threading.Thread(target=knock, args=(edge.port, lost, answered)) for _ in range(4)
            ]
            for client in clients:
                client.start()
            assert eventually(lambda found=answered: len(found) > 50)  # type: ignore[misc]
            edge.begin_to_stop()
            assert edge.has_stopped()
            for client in clients:
                client.join(PATIENCE)
        assert set(answered) == {200}
    assert not lost


# -- by signal, as a process of its own -----------------------------------------------------


@pytest.fixture
def process() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.http.raw"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child, int(child.stdout.readline())
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_gracefully(
    process: tuple[subprocess.Popen[str], int], number: signal.Signals
) -> None:
    """The slow request is answered, new ones are refused, and the process ends of itself."""
    child, port = process
    with Wire(port) as wire, Wire(port) as idle:
        assert idle.ask(get()).status == 200
        wire.send(get() + get("/slow"))
        assert wire.answer().status == 200  # the slow one has begun with it
        child.send_signal(number)
        assert idle.has_ended()
        assert not is_listening(port)
        assert wire.answer().closes
        assert wire.has_ended()
    assert child.wait(PATIENCE) == 0


def test_a_flood_leaves_the_memory_as_it_was(process: tuple[subprocess.Popen[str], int]) -> None:
    """Neither a field of 32 MiB nor pipelined requests by the thousand are kept."""
    child, port = process
    with Wire(port) as wire:
        assert wire.ask(get()).status == 200
    before = peak_kib(child.pid)
    with Wire(port) as wire:
        wire.send(get()[:-2] + b"x: ")
        wire.send_while_taken(b"a" * 65_536, 512)
    for _ in range(4):
        with Wire(port) as wire:
            flood = threading.Thread(target=wire.send_while_taken, args=(get() * 1_000, 10_000))
            flood.start()
            for _ in range(300):
                wire.answer()
            wire.socket.shutdown(socket.SHUT_RDWR)
            flood.join()
    assert peak_kib(child.pid) - before < 8_192


def peak_kib(pid: int) -> int:
    """The most memory that the process *pid* ever had resident."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


async def test_who_hears_of_the_start_may_stop_it_at_once() -> None:
    """A supervisor's SIGTERM right behind the announcement is a graceful stop, too."""
    before = signal.getsignal(signal.SIGTERM)
    heard: list[bool] = []

    def announce() -> None:
        heard.append(signal.getsignal(signal.SIGTERM) is not before)
        signal.raise_signal(signal.SIGTERM)

    async def app(scope: object, receive: object, send: object) -> None:
        """Answers nobody."""

    listener = listen("127.0.0.1", 0)
    await make_server(app, BOUNDS, announce=announce).serve(sockets=[listener])
    assert heard == [True]
