"""A process that has imported the command line once, and forks for every command it is asked for.

Each command is a process of its own, with its own environment, streams and exit status; only the
second that the imports take is spared. Run as a program: one JSON request a line, and one exit
status back."""

import json
import os
import signal
import sys
import traceback
from typing import Any

from content_gateway.cli.main import main

LONGEST_SECONDS = 90


def serve() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(request: dict[str, Any]) -> None:
    """Be the command; ends the process."""
    signal.alarm(LONGEST_SECONDS)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(request[name], os.O_RDWR), number)
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["content-gateway", *request["arguments"]]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    import content_gateway.cli.keys
    import content_gateway.cli.pin
    import content_gateway.cli.reconcile
    import content_gateway.cli.resolve
    import content_gateway.wiring.app  # noqa: F401 - what most commands need

    serve()
