"""Lines are written without waiting for whoever reads them."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from content_gateway.telemetry.line_writer import LineWriter


def test_lines_arrive_whole_and_in_order() -> None:
    """All of them, the last at the latest when the writer closes."""
    reader, writer = os.pipe()
    lines = LineWriter(writer)
    for start in range(0, 1_000, 100):
        lines.put([b"line %d\n" % number for number in range(start, start + 100)])
    lines.close()
    os.close(writer)
    written = os.read(reader, 65_536)  # as much as a pipe holds
    os.close(reader)
    assert written.decode().splitlines() == [f"line {number}" for number in range(1_000)]
    assert lines.lost == 0


def test_a_pipe_that_nobody_reads_stops_nobody() -> None:
    """What there is no room for is lost, and counted; who puts it goes on, and so does the end."""
    reader, writer = os.pipe()
    lines = LineWriter(writer, most=200_000)
    for _ in range(1_000):
        lines.put([b"x" * 999 + b"\n"])
    assert lines.lost >= 1_000 - 200 - 66  # what fits, and what the pipe takes meanwhile
    lines.close()
    read = bytearray()
    other = threading.Thread(target=lambda: read.extend(os.read(reader, 1_000_000)))
    other.start()
    other.join()
    assert read.startswith(b"x" * 999 + b"\n")
    os.close(reader)
    os.close(writer)


def test_a_file_that_cannot_be_written_to_harms_nobody() -> None:
    """A full disk: its lines are lost, and counted."""
    full = os.open("/dev/full", os.O_WRONLY)
    lines = LineWriter(full)
    lines.put([b"lost\n"])
    lines.close()
    os.close(full)
    assert lines.lost == 1


def test_lines_of_several_writers_are_not_mixed() -> None:
    """Of three that fill one pipe, as processes with one standard error do, whose reader is slow;
    and where the pipe does not block, they wait for it all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    writers = [LineWriter(writer, most=10**8) for _ in range(3)]
    for number, one in enumerate(writers):
        for _ in range(20):
            one.put([b"%d" % number * (50 + length) + b"\n" for length in range(400)])
    read = bytearray()
    while len(read) < 3 * 20 * sum(51 + length for length in range(400)):
        read += os.read(reader, 777)
    assert all(one.close() for one in writers)
    os.close(reader)
    os.close(writer)
    assert all(len(set(line)) == 1 for line in read.splitlines())
    assert sum(one.lost for one in writers) == 0


def test_a_line_that_was_cut_ends_before_the_next(tmp_path: Path) -> None:
    """A disk that fills in the middle of a line, and then has room again."""
    code = (
        "import os, resource, signal, sys\n"
        "from content_gateway.telemetry.line_writer import LineWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (15, resource.RLIM_INFINITY))\n"
        "file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "def write(line):\n"
        "    lines._thread = None\n"
        "    lines.put([line])\n"
        "    lines.close()\n"
        "lines = LineWriter(file)\n"
        "write(b'0123456789\\n')\n"
        "write(b'is cut here\\n')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "write(b'and is whole\\n')\n"
        "assert lines.lost == 1\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], check=True)
    assert (tmp_path / "log").read_text() == "0123456789\nis c\nand is whole\n"
