"""The command line as a process, with settings that reach nobody, and contents for its pins."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from content_gateway.codecs.multiformats import SHA2_256
from content_gateway.model.cid import RAW, Cid
from tests.process import QUIET

COMMAND = [sys.executable, "-m", "content_gateway"]


def environment_of(folder: Path | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command with *settings*, its data in *folder*, and nobody to ask."""
    environment = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    environment |= QUIET
    if folder is not None:
        environment["CONTENT_GATEWAY_DATA_DIR"] = str(folder)
    return environment | {"CONTENT_GATEWAY_" + name: value for name, value in settings.items()}


def run(
    folder: Path | None, *arguments: str, given: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """The finished command, as a process of its own; *given* is its standard input."""
    with TemporaryDirectory() as temporary:
        streams = {name: Path(temporary) / name for name in ("stdin", "stdout", "stderr")}
        for path in streams.values():
            path.write_text(given if path.name == "stdin" else "", newline="")
        request = {name: str(path) for name, path in streams.items()} | {
            "arguments": arguments,
            "environment": environment_of(folder, settings),
        }
        code = _nursery().ask(request)
        said = [streams[name].read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(list(arguments), code, *said)


class _Nursery:
    """The process that forks; see nursery.py. It ends with this one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.nursery"],
            cwd=Path(__file__).parents[2],
            env=environment_of(None, {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: Mapping[str, object]) -> int:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with self._lock:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            return int(self._child.stdout.readline())


@cache
def _nursery() -> _Nursery:
    return _Nursery()


def content(number: int) -> tuple[Cid, bytes]:
    """One of as many contents as are wanted, a single raw block: its CID and its bytes."""
    data = f"content {number}".encode()
    return Cid(RAW, SHA2_256, sha256(data).digest()), data


def cids(count: int) -> list[str]:
    return [str(content(number)[0]) for number in range(count)]
