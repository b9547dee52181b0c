"""A site of a name in a real Chromium, through a real Caddy that gets certificates on demand."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from yarl import URL

from tests.cases import case
from tests.deploy.files import DEPLOY
from tests.fakes.origin import Origin
from tests.process import running
from tests.unixfs import made
from tests.waiting import eventually
from tests.world.browser import running_browser, window
from tests.world.peers import Process, free_port, require_peer

PAGE = b"""<!doctype html><html lang="en"><title>A site</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css"><h1>Of a name</h1><p id="said"></p>
<img alt="a dot" src="dot.svg"><script src="scripts/main.js"></script>"""
SCRIPT = b"""fetch("data.json").then(answer => answer.json()).then(async found => {
  const part = await fetch("large.bin", {headers: {Range: "bytes=1000000-1000009"}});
  document.getElementById("said").textContent =
    `${found.word} ${part.status} ${(await part.arrayBuffer()).byteLength} ${location.host}`;
});"""
DOT = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>'
LARGE = Random(4).randbytes(3_000_000)
SITE = made.directory(
    {
        "index.html": made.raw(PAGE),
        "style.css": made.raw(b"h1 { color: rgb(1, 2, 3) }"),
        "dot.svg": made.raw(DOT),
        "data.json": made.raw(b'{"word": "loaded"}'),
        "scripts": made.directory({"main.js": made.raw(SCRIPT)}),
        "large.bin": made.file(LARGE, chunk=200_000, width=20),
    }
)
ZONE = """
authority = ["demo"]

[names."site.demo"]
content = "ipfs://{root}"

[names."blocked.demo"]
content = "ipfs://{root}"

[names."wallet.demo"]
address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
"""
HOST = "site.demo.example.limo"
NOBODY = [
    "nobody.demo.example.limo",
    "blocked.demo.example.limo",
    "wallet.demo.example.limo",
    "example.limo",
    "site.demo",
    "site.demo.example.org",
    "xn--.demo.example.limo",
]


@dataclass
class Sites:
    """A Caddy at *port* before a service; its certificates are in *folder*."""

    port: int
    folder: Path

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._authority / "root.crt"))

    @property
    def key_hash(self) -> str:
        """What Chromium knows the intermediate authority by."""
        pem = (self._authority / "intermediate.crt").read_bytes()
        key = x509.load_pem_x509_certificate(pem).public_key()
        spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return b64encode(sha256(spki).digest()).decode()

    @property
    def _authority(self) -> Path:
        return self.folder / "caddy" / "pki" / "authorities" / "local"

    def certificates(self) -> set[str]:
        """The hosts that a certificate was made for."""
        return {path.stem for path in self.folder.glob("caddy/certificates/local/*/*.crt")}

    async def get(self, host: str, path: str = "/") -> tuple[int, bytes]:
        """Status and body of one exchange with *host*, whose certificate is checked."""
        url = URL.build(scheme="https", host="127.0.0.1", port=self.port).join(URL(path))
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                url, ssl=self.trust, server_hostname=host, headers={"Host": host}
            ) as answer,
        ):
            return answer.status, await answer.read()


@pytest.fixture
async def sites(tmp_path: Path, origin: Origin) -> AsyncIterator[Sites]:
    origin.blocks |= SITE[1]
    (tmp_path / "zone.toml").write_text(ZONE.format(root=SITE[0]))
    (tmp_path / "domains").write_text("blocked.demo\n")
    settings = {
        "CONTENT_GATEWAY_NAMES__ZONE_FILE": str(tmp_path / "zone.toml"),
        "CONTENT_GATEWAY_DENYLIST__DOMAINS_FILE": str(tmp_path / "domains"),
        "CONTENT_GATEWAY_CONTENT__GATEWAYS": f'["{origin.url}"]',
        "CONTENT_GATEWAY_GATEWAY__HOSTS": '["*.example.limo"]',
    }
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running("serve", tmp_path / "data", settings))
        yield await _caddy(stack, tmp_path / "caddy", service.url.removeprefix("http://"))


async def _caddy(stack: AsyncExitStack, folder: Path, upstream: str) -> Sites:
    """Caddy with the file of deploy/, and an authority of its own."""
    folder.mkdir()
    port = free_port()
    text = (DEPLOY / "Caddyfile.sites").read_text()
    changes = {
        "{\n\ton_demand_tls": f"{{\n\tadmin off\n\tskip_install_trust\n\thttps_port {port}\n"
        f"\thttp_port {free_port()}\n\ton_demand_tls",
        "\ttls {\n": "\ttls {\n\t\tissuer internal\n",
    }
    for is_there, becomes in changes.items():
        assert text.count(is_there) == 1, is_there
        text = text.replace(is_there, becomes)
    text = text.replace("{$CONTENT_GATEWAY_UPSTREAM:127.0.0.1:8080}", upstream)
    (folder / "Caddyfile").write_text(text)
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command: list[str | Path] = [
        require_peer("caddy"),
        "run",
        "--config",
        str(folder / "Caddyfile"),
    ]
    process = Process(command, log=folder / "log", env=home)
    stack.push_async_callback(process.stop)

    async def is_up() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return (folder / "caddy/pki/authorities/local/intermediate.crt").exists()

    await process.start(is_up, seconds=60)
    return Sites(port, folder)


async def test_a_browser_loads_a_site_by_its_name(sites: Sites) -> None:
    """Page, style, script, picture, data and a part of a file, over a certificate that was made
    for it as it was visited; nothing goes wrong in the console."""
    assert sites.certificates() == set()
    switches = (
        f"--host-resolver-rules=MAP *.example.limo:443 127.0.0.1:{sites.port}",
        f"--ignore-certificate-errors-spki-list={sites.key_hash}",
    )
    async with running_browser(*switches) as browser:
        there = await window(browser, f"https://{HOST}")
        await there.open("/")
        said = there.page.locator("#said")
        await said.wait_for(state="attached")

        async def is_loaded() -> bool:
            return bool(await said.inner_text())

        await eventually(is_loaded)
        assert await said.inner_text() == f"loaded 206 10 {HOST}"
        colour = "getComputedStyle(document.querySelector('h1')).color"
        assert await there.page.evaluate(colour) == "rgb(1, 2, 3)"
        assert await there.page.evaluate("document.images[0].naturalWidth") == 9
        assert there.errors == []
    assert sites.certificates() == {HOST}


async def test_a_name_that_is_not_ours_gets_no_certificate(sites: Sites) -> None:
    """Unknown, blocked, a wallet only, another domain: the handshake fails, and none is kept."""
    assert await sites.get(HOST) == (200, PAGE)
    assert await sites.get("site-demo.example.limo", "/large.bin") == (200, LARGE)
    for host in NOBODY:
        with case(host), pytest.raises(aiohttp.ClientConnectorError):
            await sites.get(host)
    assert sites.certificates() == {HOST, "site-demo.example.limo"}
