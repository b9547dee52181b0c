"""Watched files: when a change shows, and that the last good value stays whatever goes wrong."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from content_gateway.errors import WrongSettings
from content_gateway.files.watched_file import (
    CHECK_SECONDS,
    IN_PLACE_BYTES,
    WatchedFile,
    lines,
    read_bytes,
)
from tests.clock import Clock

LARGE = "x" * IN_PLACE_BYTES + "\n"
MAX_BYTES = 4 * IN_PLACE_BYTES
Watched = WatchedFile[str]


class Parser:
    """Reads text; `bad` is wrong. `hold` keeps a thread that reads waiting until `let_go`."""

    def __init__(self) -> None:
        self.reads = 0
        self.reached = threading.Event()  # by a thread
        self._open = threading.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def __call__(self, data: bytes) -> str:
        self.reads += 1
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            self._open.wait()
        if data == b"bug":
            raise ZeroDivisionError("a bug in a parser")
        if data.endswith(b"bad"):
            raise ValueError("it is bad")
        return data.decode()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def parser() -> Iterator[Parser]:
    parser = Parser()
    yield parser
    parser.let_go()
    finish(*readers())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "list"
    path.write_text("first")
    return path


@pytest.fixture
def file(path: Path, parser: Parser, clock: Clock) -> Watched:
    return watch(path, parser, clock)


def watch(path: Path, parser: Callable[[bytes], str], clock: Clock) -> Watched:
    return WatchedFile(path, parser, setting="a.setting", max_bytes=MAX_BYTES, clock=clock)


def put(path: Path, text: str) -> None:
    """Replace the file in one step, as deployment tools do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def look(file: Watched, clock: Clock) -> str:
    clock.pass_(CHECK_SECONDS)
    return file.current()


def begin_reading(
    file: Watched, path: Path, parser: Parser, clock: Clock, text: str = LARGE
) -> None:
    """Return once a thread is parsing *text*, which it does until `let_go`."""
    put(path, text)
    parser.hold()
    look(file, clock)
    look(file, clock)
    parser.reached.wait()


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "read a.setting"]


def finish(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join()


def test_the_file_is_looked_at_once_a_second(
    file: Watched, path: Path, parser: Parser, clock: Clock
) -> None:
    """A change shows at the next check; between two checks the file is not touched."""
    put(path, "second")
    clock.pass_(CHECK_SECONDS - 0.01)
    assert file.current() == "first"
    clock.pass_(0.01)
    assert file.current() == "second"
    for _ in range(5):
        look(file, clock)
    assert parser.reads == 2


def test_a_file_written_over_is_seen(file: Watched, path: Path, clock: Clock) -> None:
    path.write_text("second")
    assert look(file, clock) == "second"


def test_another_file_of_the_same_size_and_time_is_seen(
    file: Watched, path: Path, clock: Clock
) -> None:
    """Tools that keep the time of a file when they put it in place give it another inode."""
    other = path.with_name("other")
    other.write_text("secnd")
    stamp = path.stat().st_mtime_ns
    os.utime(other, ns=(stamp, stamp))
    other.replace(path)
    assert look(file, clock) == "secnd"


@pytest.mark.parametrize("text", [None, "bad", "x" * (MAX_BYTES + 1)])
def test_the_start_fails_without_a_good_file(
    tmp_path: Path, clock: Clock, parser: Parser, text: str | None
) -> None:
    """Missing, wrong or too large: the operator reads which setting and which file."""
    path = tmp_path / "list"
    if text is not None:
        path.write_text(text)
    with pytest.raises(WrongSettings, match=r"a\.setting") as refused:
        watch(path, parser, clock)
    assert str(path) in refused.value.detail


@pytest.mark.parametrize("broken", ["bad", "bug", None])
def test_a_broken_version_alarms_once_and_keeps_the_last_good_one(
    file: Watched, path: Path, parser: Parser, clock: Clock, broken: str | None
) -> None:
    """One error in the log for each broken version, however often it is looked at."""
    with structlog.testing.capture_logs() as logs:
        if broken is None:
            path.unlink()
        else:
            put(path, broken)
        for _ in range(5):
            assert look(file, clock) == "first"
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert logs[0]["setting"] == "a.setting"
    assert logs[0]["reason"]
    put(path, "second")
    assert look(file, clock) == "second"


def test_every_broken_version_alarms(file: Watched, path: Path, clock: Clock) -> None:
    """An edit that does not mend the file is told again; so is one that breaks it once more."""
    with structlog.testing.capture_logs() as logs:
        for text in ("bad", "also bad", "good", "bad"):
            put(path, text)
            look(file, clock)
    assert [entry["log_level"] for entry in logs] == ["error", "error", "info", "error"]


def test_a_file_that_comes_back_is_read(file: Watched, path: Path, clock: Clock) -> None:
    """A file that was moved away and back again is the same version, and serves as before."""
    away = path.with_name("away")
    path.rename(away)
    look(file, clock)
    away.rename(path)
    with structlog.testing.capture_logs() as logs:
        assert look(file, clock) == "first"
    assert [entry["log_level"] for entry in logs] == ["info"]


def test_a_file_that_cannot_be_opened_is_tried_again(
    file: Watched, path: Path, parser: Parser, clock: Clock
) -> None:
    """A folder where the file was alarms once, and the file behind it is read when it is there."""
    path.unlink()
    path.mkdir()
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert look(file, clock) == "first"
    assert len(logs) == 1
    path.rmdir()
    put(path, "second")
    assert look(file, clock) == "second"


def test_a_large_file_is_read_while_the_old_version_serves(
    file: Watched, path: Path, parser: Parser, clock: Clock
) -> None:
    """Nobody waits for it: it is parsed in a thread, by one at a time, and then takes over."""
    begin_reading(file, path, parser, clock)
    for _ in range(3):
        assert look(file, clock) == "first"
    assert (len(readers()), parser.reads) == (1, 2)
    reading = readers()
    parser.let_go()
    finish(*reading)
    assert file.current() == LARGE


def test_a_large_file_that_still_grows_is_left_alone(
    file: Watched, path: Path, parser: Parser, clock: Clock
) -> None:
    """It is read only when two checks have seen it alike: half of a list blocks half."""
    with path.open("a") as growing:
        growing.write(LARGE)
        for _ in range(4):
            growing.write("x")
            growing.flush()
            assert look(file, clock) == "first"
    assert parser.reads == 1
    look(file, clock)
    finish(*readers())
    assert file.current() == path.read_text()


def test_a_version_that_arrives_during_a_reading_is_read_next(
    file: Watched, path: Path, parser: Parser, clock: Clock
) -> None:
    """The reading under way ends first; then the newer version takes over."""
    begin_reading(file, path, parser, clock)
    put(path, "newer")
    assert look(file, clock) == "first"
    reading = readers()
    parser.let_go()
    finish(*reading)
    assert file.current() == LARGE
    assert look(file, clock) == "newer"


def test_a_large_file_that_is_broken_alarms_once(file: Watched, path: Path, clock: Clock) -> None:
    put(path, LARGE + "bad")
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            assert look(file, clock) == "first"
            finish(*readers())
    assert [entry["log_level"] for entry in logs] == ["error"]


@pytest.mark.parametrize("text", [LARGE, LARGE + "bad"])
def test_a_closed_file_changes_no_more(
    file: Watched, path: Path, parser: Parser, clock: Clock, text: str
) -> None:
    """Neither by a reading that was in progress, which logs nothing, nor by a later check."""
    begin_reading(file, path, parser, clock, text)
    file.close()
    reading = readers()
    with structlog.testing.capture_logs() as logs:
        parser.let_go()
        finish(*reading)
        put(path, "third")
        assert look(file, clock) == "first"
    assert parser.reads == 2
    assert not logs


def test_a_file_that_changes_while_it_is_read_is_refused(
    path: Path, parser: Parser, clock: Clock
) -> None:
    """What was read may be half of the one version and half of the other."""
    os.truncate(path, 32 * 1024 * 1024)
    ended, begun = threading.Event(), threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as growing:
            while not ended.is_set():
                growing.write(b"x")
                begun.set()
                time.sleep(0)

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    refused = ""
    try:
        while "changed while it was read" not in refused:
            try:
                WatchedFile(path, parser, setting="a.setting", max_bytes=1 << 30, clock=clock)
            except WrongSettings as wrong:
                refused = wrong.detail
    finally:
        ended.set()
        writer.join()


def test_lines_are_numbered_from_one() -> None:
    """Every line comes once and in order, the last one also without its end."""
    data = b"".join(b"%d\n" % number for number in range(1, 1000)) + b"1000"
    assert [(number, int(line)) for number, line in lines(data)] == [
        (number, number) for number in range(1, 1001)
    ]
    assert list(lines(b"")) == []


@pytest.mark.parametrize("at_start", [True, False])
def test_a_fifo_is_refused_and_not_waited_for(
    path: Path, parser: Parser, clock: Clock, at_start: bool
) -> None:
    """To open a FIFO waits for somebody to write to it, and the whole service with it."""
    file = None if at_start else watch(path, parser, clock)
    path.unlink()
    os.mkfifo(path)
    if file is None:
        with pytest.raises(WrongSettings, match="not a regular file"):
            watch(path, parser, clock)
        return
    with structlog.testing.capture_logs() as logs:
        assert look(file, clock) == look(file, clock) == "first"
    assert [entry["reason"] for entry in logs] == ["it is not a regular file"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "."])
def test_only_a_regular_file_is_one(device: str) -> None:
    """A device has no end, or no content; a folder is none either."""
    with pytest.raises((ValueError, OSError)):
        read_bytes(Path(device), 10)
