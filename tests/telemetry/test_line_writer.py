"""Lines are written without waiting for whoever reads them."""

import os
import threading

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
    """A full disk: its lines are lost."""
    full = os.open("/dev/full", os.O_WRONLY)
    lines = LineWriter(full)
    lines.put([b"lost\n"])
    lines.close()
    os.close(full)


def test_lines_of_several_writers_do_not_mix() -> None:
    """Two share a pipe that is always full, as processes do: each line comes whole."""
    reader, writer = os.pipe()
    both = [LineWriter(writer, is_shared=True) for _ in range(2)]
    read = bytearray()

    def drain() -> None:
        while data := os.read(reader, 777):
            read.extend(data)

    other = threading.Thread(target=drain)
    other.start()
    for _ in range(20):
        for lines, letter in zip(both, (b"a", b"b"), strict=True):
            lines.put([letter * (50 + number) + b"\n" for number in range(200)])
    for lines in both:
        lines.close()
    os.close(writer)
    other.join()
    os.close(reader)
    found = bytes(read).split(b"\n")
    assert len(found) == 2 * 20 * 200 + 1
    assert all(len(set(line)) <= 1 for line in found)
