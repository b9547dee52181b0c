"""Every command that the documents show is run as it stands, page by page."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, is_as_told, outputs, script, steps
from tests.process import QUIET
from tests.world.kubo import running_kubo
from tests.world.peers import free_port, require_peer

ROOT = Path(__file__).parents[2]
# Pages with commands, and what they need beside this program.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": (),
    "examples/README.md": ("go", "tsc", "jq"),
    "docs/tasks/show-a-site.md": ("ipfs", "jq"),
    "docs/tasks/pin-from-ci.md": ("jq",),
    "docs/tasks/move-from-another-service.md": ("ipfs", "jq"),
    "docs/tasks/ipfs-pin-remote.md": ("ipfs",),
}
# These would run this very test, or install what it runs on; that they exist is tested.
NOT_HERE = {"make test", "make peers"}
SECONDS = 240


def _pages() -> list[str]:
    """All of the documents but the decisions and facts, which show no commands."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/tasks/*.md")]
    found += [
        *ROOT.glob("docs/adr/*.md"),
        *ROOT.glob("docs/facts/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts)


@pytest.mark.parametrize("page", _pages())
def test_no_command_is_left_out(page: str) -> None:
    """A page with commands is listed here, and says of each block what it is."""
    found = blocks((ROOT / page).read_text())
    assert all(block.language for block in found), "a block does not say its language"
    has_commands = any(block.language in ("sh", "console") for block in found)
    assert has_commands == (page in PAGES)


def test_what_is_not_run_here_exists() -> None:
    """Each is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for command in NOT_HERE:
        assert f"\n{command.removeprefix('make ')}:" in makefile


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
    for name in ("Makefile", ".venv", "src", "requirements.lock", "pyproject.toml", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    async with AsyncExitStack() as stack:
        environment = _environment(tmp_path, port)
        if "ipfs" in PAGES[page]:
            kubo = await stack.enter_async_context(running_kubo(tmp_path / "node"))
            environment |= kubo.environment
            text = text.replace("http://127.0.0.1:8081", kubo.gateway_url)
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
    found = shutil.which(need)
    return str(Path(found).parent) if found else str(require_peer(need).parent)


def _environment(folder: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    return (
        kept
        | QUIET
        | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
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
    child = await asyncio.create_subprocess_exec(
        *("bash", "page.sh"),
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=(folder / "complaints").open("wb"),
        start_new_session=True,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            status = await child.wait()
    finally:
        # The service that it started holds the pipe open.
        os.killpg(child.pid, signal.SIGTERM)
    said = await child.stdout.read()
    return status, said.decode(), (folder / "complaints").read_text()
