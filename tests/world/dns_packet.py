"""dns-packet, a reader of DNS messages from npm, in a process of Node.

Hands messages to `dns_packet.mjs` and what they say back. Judging is left to the tests."""

import asyncio
import base64
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .peers import absent, require_peer

SCRIPT = Path(__file__).with_name("dns_packet.mjs")
SECONDS = 100.0


async def read_messages(messages: Sequence[bytes]) -> list[dict[str, Any]]:
    """What dns-packet reads in each of *messages*; skips without it."""
    modules = require_peer("dns-packet").parent
    node = shutil.which("node") or absent("node is not installed: dns-packet needs it")
    process = await asyncio.create_subprocess_exec(
        *(node, SCRIPT, modules.parent),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    encoded = json.dumps([base64.b64encode(message).decode() for message in messages])
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate(encoded.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return [json.loads(line) for line in output.splitlines()]
