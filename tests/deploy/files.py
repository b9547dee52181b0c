"""Where the files of deploy/ are, and the programs that check them."""

import subprocess
from pathlib import Path

from tests.world.peers import require_peer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def check(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What the installed *program* says, with standard error behind; the test skips without it."""
    return subprocess.run(
        [str(require_peer(program)), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
