"""The upstreams of one run, in a process of their own: an Ethereum node and an IPNS router.

The node knows no name, and takes its time where one has "hang" in it, but not so long that it
seems to be down; the router has a record of each publisher's, and takes its time for all others.
Says its URL on standard output."""

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec
import uvloop
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.model.ipns_name import IpnsName
from tests.ipns.signing import Signer, data, field, when

PUBLISHERS: Final = 2_000
_HANGING: Final = b"hang".hex().encode()  # as it stands in the data of a call
_SLOW: Final = 3.0  # seconds; less than what both are given


class Publisher(Signer):
    """A publisher by its number."""

    def __init__(self, number: int) -> None:
        seed = sha256(b"publisher %d" % number).digest()
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.protobuf = field(1, 1) + field(2, self._key.public_key().public_bytes_raw())
        self.name = IpnsName.from_multihash(bytes([0, len(self.protobuf)]) + self.protobuf)


def publishers() -> list[Publisher]:
    """All of them, the same in every process."""
    return [Publisher(number) for number in range(PUBLISHERS)]


async def _node(request: web.Request) -> web.Response:
    body = await request.read()
    if _HANGING in body:
        await asyncio.sleep(_SLOW)
    error = {"code": 3, "message": "execution reverted", "data": "0x77209fe8" + "0" * 64}
    call = msgspec.json.decode(body)
    return web.json_response({"jsonrpc": "2.0", "id": call["id"], "error": error})


async def _main() -> None:
    until = when(datetime.now(UTC) + timedelta(hours=48))
    records = {one.name.text: one.record(data(Validity=until)) for one in publishers()}

    async def router(request: web.Request) -> web.Response:
        record = records.get(request.match_info["name"])
        if record is None:
            await asyncio.sleep(_SLOW)
            return web.Response(status=404)
        return web.Response(body=record, content_type="application/vnd.ipfs.ipns-record")

    app = web.Application()
    app.router.add_post("/", _node)
    app.router.add_get("/routing/v1/ipns/{name}", router)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2_048).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as only:
        only.run(_main())
