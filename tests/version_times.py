"""How long `/version` takes: `python -m tests.version_times URL` asks until its input ends.

A process of its own, so that nothing of the test's is measured; prints, as JSON, how often it
asked and the median, the 99th percentile and the longest, in milliseconds."""

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit


def main() -> None:
    """Ask, and print."""
    over = threading.Event()
    threading.Thread(target=_wait, args=(over,), daemon=True).start()
    took: list[float] = []
    connection = http.client.HTTPConnection(urlsplit(sys.argv[1]).netloc, timeout=60)
    while not over.wait(0.005):
        begun = time.monotonic()
        connection.request("GET", "/version")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
        took.append((time.monotonic() - begun) * 1e3)
    took.sort()
    figures = {"asked": len(took), "p50": took[len(took) // 2]}
    figures |= {"p99": took[len(took) * 99 // 100], "longest": took[-1]}
    print(json.dumps(figures))


def _wait(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    main()
