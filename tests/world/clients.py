"""viem and ethers, the libraries most wallets resolve names with, each in one process of Node.

Hands a list of questions to `clients.mjs` and its answers back. What they mean beside ours is for
the tests to say."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from .peers import absent, require_peer

Client = Literal["viem", "ethers"]
SCRIPT = Path(__file__).with_name("clients.mjs")
SECONDS = 100.0


async def ask_client(
    client: Client, rpc_url: str, questions: Sequence[tuple[str, int]]
) -> list[dict[str, Any]]:
    """What *client* says of each name and coin type, in that order; skips without the client."""
    modules = require_peer(client).parent.parent
    node = shutil.which("node") or absent("node is not installed: viem and ethers need it")
    process = await asyncio.create_subprocess_exec(
        *(node, SCRIPT, client, modules, rpc_url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    asked = json.dumps([{"name": name, "coin": coin} for name, coin in questions])
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate(asked.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return [json.loads(line) for line in output.splitlines()]
