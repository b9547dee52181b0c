"""The examples as programs: how each is made ready, run with its environment, and bounded.

Knows languages and their tools; what a program must print is left to the tests. Tools come from the
machine (go, node, bash, jq) or from `make peers` (the TypeScript compiler)."""

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.world.peers import absent, require_peer

EXAMPLES = Path(__file__).parents[2] / "examples"
LANGUAGES = ("python", "typescript", "go", "curl")
SECONDS = 240.0  # a compiler on a busy machine
# Nothing is fetched: the examples import nothing but what comes with their language.
OFFLINE_GO = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
COMPILE = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext")


@dataclass(frozen=True)
class Said:
    """A finished program: its exit status and what it printed."""

    status: int
    out: str
    err: str


async def run(command: list[str], **environment: str) -> Said:
    """*command*, run to its end with *environment* over this process's, less what is ours.

    Raises TimeoutError after SECONDS, with the program killed."""
    kept = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    child = await asyncio.create_subprocess_exec(
        *command,
        env=kept | OFFLINE_GO | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode is not None
    return Said(child.returncode, out.decode(), err.decode())


async def made(language: str, folder: Path) -> list[str]:
    """The command that runs the example in *language*, compiled into *folder* where it must be.

    Skips where a tool is not on this machine; AssertionError where it does not compile."""
    if language == "python":
        return [sys.executable, str(EXAMPLES / "python" / "client.py")]
    if language == "curl":
        _need("jq")
        _need("curl")
        return [_need("bash"), str(EXAMPLES / "curl" / "client.sh")]
    if language == "go":
        binary, source = str(folder / "client"), str(EXAMPLES / "go" / "main.go")
        await _compiled([_need("go"), "build", "-o", binary, source])
        await _compiled([_need("go"), "vet", source])
        assert (await run([_need("gofmt"), "-l", source])).out == ""
        return [binary]
    compiler, source = tsc(), str(EXAMPLES / "typescript" / "client.mts")
    await _compiled([*compiler, *COMPILE, "--outDir", str(folder), source])
    return [_need("node"), str(folder / "client.mjs")]


def tsc() -> list[str]:
    """The TypeScript compiler; skips without it."""
    return [_need("node"), str(require_peer("typescript") / "bin" / "tsc")]


async def _compiled(command: list[str]) -> None:
    done = await run(command)
    assert done.status == 0, done.out + done.err


def _need(tool: str) -> str:
    return shutil.which(tool) or absent(f"{tool} is not on this machine")
