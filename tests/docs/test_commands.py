"""Every command that the documents show is run as it stands, page by page."""

import asyncio
import os
import shutil
import signal
import sys
import venv
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from tests.docs.blocks import RUN, blocks, is_as_told, outputs, script, steps
from tests.process import QUIET
from tests.world.kubo import running_kubo
from tests.world.peers import absent, free_port, require_peer

ROOT = Path(__file__).parents[2]
# Pages with commands, and what they need beside this program.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": (),
    "docs/commands.md": (),
    "examples/README.md": ("go", "tsc", "jq"),
    "docs/tasks/show-a-site.md": ("ipfs", "jq"),
    "docs/tasks/resolve-names-in-kubo.md": ("ipfs", "jq"),
    "docs/tasks/serve-sites-of-names.md": (),
    "docs/tasks/pin-from-ci.md": ("jq",),
    "docs/tasks/move-from-another-service.md": ("ipfs", "jq"),
    "docs/tasks/ipfs-pin-remote.md": ("ipfs",),
    "docs/tasks/back-up-and-restore.md": ("jq",),
    "docs/tasks/a-tenant-leaves.md": (),
}
# Run as root in a systemd of their own, by tests/deploy/test_operating.py.
ON_A_SERVER = {"docs/operating.md"}
# The only commands that are shown and not run, and why.
NOT_HERE = {
    "make test": "it would run this very test",
    "make peers": "it installs what the tests run on, from the registries",
}
SECONDS = 240


def _pages() -> list[str]:
    """All of the documents, however deep; a new folder is no place to hide in."""
    found = {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")}
    return sorted(str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts)


@pytest.mark.parametrize("page", _pages())
def test_no_command_is_left_out(page: str) -> None:
    """A page with commands is listed here, and says of each block what it is."""
    has_commands = any(block.language in RUN for block in blocks((ROOT / page).read_text()))
    assert has_commands == (page in {*PAGES, *ON_A_SERVER})


def test_what_is_not_run_here_exists() -> None:
    """Each is a target of the Makefile, and a page shows it."""
    makefile = (ROOT / "Makefile").read_text()
    shown = [(ROOT / page).read_text() for page in PAGES]
    for command in NOT_HERE:
        assert f"\n{command.removeprefix('make ')}:" in makefile
        assert any(command in page for page in shown)


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("page", PAGES)
async def test_every_command_does_what_the_page_says(page: str, tmp_path: Path) -> None:
    """In order, in a folder of its own; what is shown behind a command is what it prints."""
    port = free_port()
    found = steps((ROOT / page).read_text())
    assert found
    for step in found:
        lines = step.commands.splitlines()
        step.commands = "\n".join(
            line for line in lines if line.partition("#")[0].strip() not in NOT_HERE
        )
    text = script(found).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    _make_checkout(tmp_path)
    async with AsyncExitStack() as stack:
        environment = _environment(tmp_path, port)
        if "ipfs" in PAGES[page]:
            kubo = await stack.enter_async_context(running_kubo(tmp_path / "node"))
            environment |= kubo.environment
            text = text.replace("http://127.0.0.1:8082", kubo.gateway_url)
        paths = [_folder_of(need) for need in PAGES[page]]
        environment["PATH"] = os.pathsep.join([environment["PATH"], *paths])
        status, said, complained = await _bash(text, tmp_path, environment)
    printed = outputs(said)
    here = found[min(len(printed), len(found) - 1)].line
    assert status == 0, f"{page}, line {here}: {complained[-3000:]}{said[-1000:]}"
    assert len(printed) == len(found)
    for step, output in zip(found, printed, strict=True):
        if step.printed is not None:
            assert is_as_told(output, step.printed), f"{page}, line {step.line}:\n{output}"


def _folder_of(need: str) -> str:
    """Where the program *need* is; skips without it."""
    if need == "tsc":
        return str(require_peer("typescript") / "bin")
    if need == "ipfs":
        return str(require_peer(need).parent)
    return str(Path(shutil.which(need) or absent(f"{need} is not on this machine")).parent)


def _make_checkout(folder: Path) -> None:
    """What `make run` and the examples need of a checkout, installed already.

    The checkout's own `.venv` is left alone: where a lock file is newer, `make run` would install
    it again, from a registry and below the feet of the tests beside it."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "examples"):
        (folder / name).symlink_to(ROOT / name)
    venv.create(folder / ".venv", symlinks=True)
    command = folder / ".venv" / "bin" / "content-gateway"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m content_gateway "$@"\n')
    command.chmod(0o755)
    (folder / ".venv" / ".runtime").touch()


def _environment(folder: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    return (
        kept
        | QUIET
        | {
            "PATH": os.pathsep.join([str(folder / ".venv" / "bin"), os.environ["PATH"]]),
            "GATEWAY": f"http://127.0.0.1:{port}",
            "PORT": str(port),
            "CONTENT_GATEWAY_PORT": str(port),
            "HOME": str(folder),
            "GOCACHE": str(Path.home() / ".cache" / "go-build"),
            "GOFLAGS": "-mod=mod",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
        }
    )


async def _bash(text: str, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """The exit status of the script *text*, what it printed and what it complained of."""
    (folder / "page.sh").write_text(text)
    # Files, as nobody reads a pipe while the script runs.
    with (folder / "said").open("wb") as said, (folder / "complaints").open("wb") as complaints:
        child = await asyncio.create_subprocess_exec(
            *("bash", "page.sh"),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=complaints,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(SECONDS):
            status = await child.wait()
    finally:
        with suppress(ProcessLookupError):  # it started nothing that stays
            os.killpg(child.pid, signal.SIGKILL)
    return status, (folder / "said").read_text(), (folder / "complaints").read_text()
