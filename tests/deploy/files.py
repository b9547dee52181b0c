"""Where the files of deploy/ are, and the programs that check them."""

import subprocess
from pathlib import Path

from tests.world.peers import require_peer

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_CODE = "".join(path.read_text() for path in (ROOT / "src" / "content_gateway").rglob("*.py"))
# What other parts of the program bring; each is to be deleted with the lines that ask for it.
NOTIFIES, TAKES_SOCKETS = "NOTIFY_SOCKET" in _CODE, "LISTEN_FDS" in _CODE
HAS_METRICS = '"/metrics"' in _CODE


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
