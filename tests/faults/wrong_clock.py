"""`content-gateway` on a wall clock that somebody sets: what a file says is added to the time.

Run as `python -m tests.faults.wrong_clock FILE serve`. The clock is changed before anything of the
service is imported; the time by which ledgers and backoffs go is `time.time`, and only that."""

import sys
import time
from pathlib import Path


def main() -> None:
    """Put the clock in place, and be the command."""
    place = Path(sys.argv.pop(1))
    right = time.time
    time.time = lambda: right() + float(place.read_text())
    sys.argv[0] = "content-gateway"
    from content_gateway.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
