"""An unmodified Kubo that knows names through us alone, by DNS over HTTPS.

Name services are contracts on a real node, as in tests/world; TLS, which Kubo demands of a
resolver, ends before the service as in production."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from content_gateway.model.cid import Cid
from tests.authority import Authority
from tests.service import running_service
from tests.world.ens import REGISTRY, EnsWorld
from tests.world.ethereum import Anvil
from tests.world.kubo import Kubo, KuboError
from tests.world.space_id import SpaceIdWorld
from tests.world.unstoppable import UnstoppableWorld

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
IPNS = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
OWNER = "0x" + "ab" * 20
CONTENTHASH = bytes.fromhex("e301") + bytes(Cid.parse(CID))
ZONE = f"""
authority = ["demo"]
[names."site.demo"]
content = "ipfs://{CID}"
[names."moving.demo"]
content = "ipns://{IPNS}"
"""
ENDINGS = ("eth.", "gno.", "crypto.", "demo.")


@asynccontextmanager
async def behind_tls(url: str, context: ssl.SSLContext) -> AsyncIterator[str]:
    """Where the server at *url* is reached by TLS."""
    host, _, port = url.rpartition("//")[2].partition(":")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_connection(host, int(port))
        directions = (pass_on(reader, inner[1]), pass_on(inner[0], writer))
        await asyncio.gather(*directions, return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def kubo(tmp_path: Path, anvil: Anvil, ens: EnsWorld) -> AsyncIterator[Kubo]:
    """A Kubo that asks the service about the endings of every namespace."""
    await ens.name("site.eth", address=OWNER, contenthash=CONTENTHASH)
    await ens.name("wallet.eth", address=OWNER)
    await ens.name("site.base.eth", address=OWNER, contenthash=CONTENTHASH)
    gnosis = await SpaceIdWorld.deploy(anvil)
    await gnosis.name("site.gno", contenthash=CONTENTHASH)
    await gnosis.name("wallet.gno", address=OWNER)
    unstoppable = await UnstoppableWorld.deploy(anvil)
    await unstoppable.name("brad.crypto", owner=OWNER, records={"dweb.ipfs.hash": CID})
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    authority = Authority(tmp_path)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(
            running_service(
                tmp_path / "data",
                names__zone_file=zone,
                ens__rpc_urls=[anvil.url],
                basenames__rpc_urls=[anvil.url],
                basenames__registry=REGISTRY,
                gnosis__rpc_urls=[anvil.url],
                unstoppable__polygon_rpc_urls=[anvil.url],
                unstoppable__polygon_proxy_reader=unstoppable.proxy_reader,
            )
        )
        url = await stack.enter_async_context(
            behind_tls(service.url, authority.server("127.0.0.1"))
        )
        resolvers = dict.fromkeys(ENDINGS, f"{url}/dns-query/a-key")
        kubo = Kubo(tmp_path / "kubo", resolvers=resolvers, authority=authority.file())
        await kubo.create()
        await kubo.start()
        stack.push_async_callback(kubo.stop)
        yield kubo


async def test_kubo_resolves_a_site_in_every_namespace(kubo: Kubo) -> None:
    """With `DNS.Resolvers` set to us, Kubo resolves a site of ENS, Basenames, SPACE ID, Unstoppable
    Domains and the zone file, and hears of a name in IPNS where that is its content."""
    for name in ("site.eth", "site.base.eth", "site.gno", "brad.crypto", "site.demo"):
        assert await kubo.resolve_name(name) == f"/ipfs/{CID}", name
    assert await kubo.resolve_name("moving.demo") == f"/ipns/{IPNS}"


@pytest.mark.parametrize(
    "name", ["nobody.eth", "wallet.eth", "nobody.gno", "wallet.gno", "nobody.demo"]
)
async def test_kubo_hears_that_there_is_no_site(kubo: Kubo, name: str) -> None:
    """Of a name that does not exist, or has no content, Kubo says that it has no DNSLink."""
    with pytest.raises(KuboError, match=r"DNSLink|not found|could not resolve|no such host"):
        await kubo.resolve_name(name)
