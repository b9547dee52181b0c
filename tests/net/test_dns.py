"""The first question to DNS: dnspython is imported for it, and not before."""

import subprocess
import sys

SCRIPT = """
import asyncio, sys
from content_gateway.errors import Overloaded, UpstreamError
from content_gateway.net.dns import Dns
from tests.limits import without_descriptors

async def ask():
    dns = Dns(["127.0.0.1"], seconds=0.1, port=9)
    await asyncio.to_thread(int)  # the pool's thread is there
    print("dns" in sys.modules)
    with without_descriptors():
        try:
            await dns.ask("example.org", "A")
        except Overloaded as refused:
            print(refused.detail)
    try:
        await dns.ask("example.org", "A")
    except UpstreamError:
        print("asked")

asyncio.run(ask())
"""


def test_the_first_question_waits_for_its_library_and_survives_a_lack_of_descriptors() -> None:
    """The start pays nothing for DNS, and what could not be imported is imported the next time."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["False", "DNS cannot be asked from here now.", "asked"]
