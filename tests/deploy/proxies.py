"""Caddy and nginx with the files of deploy/, in front of a service, with a certificate of the test.

Changed in the files is what belongs to a machine: name, ports, certificate, where logs go."""

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.authority import Authority
from tests.deploy.files import DEPLOY
from tests.world.peers import Process, free_port, require_peer


@dataclass(frozen=True)
class Proxy:
    """A running proxy: its *url*, whom to trust, and its log."""

    url: str
    trust: ssl.SSLContext
    log: Path


def _caddy(folder: Path, upstream: str, port: int, certificate: Path) -> list[str]:
    text = (DEPLOY / "Caddyfile").read_text()
    text = text.replace("{\n\tservers", "{\n\tadmin off\n\tauto_https off\n\tservers", 1)
    site = "{$CONTENT_GATEWAY_SITE:gateway.example} {"
    assert text.count(site) == 1
    text = text.replace(site, f"https://127.0.0.1:{port} {{\n\ttls {certificate} {certificate}")
    text = text.replace("{$CONTENT_GATEWAY_UPSTREAM:127.0.0.1:8080}", upstream)
    (folder / "Caddyfile").write_text(text)
    return [str(require_peer("caddy")), "run", "--config", str(folder / "Caddyfile")]


def _nginx(folder: Path, upstream: str, port: int, certificate: Path) -> list[str]:
    text = (DEPLOY / "nginx.conf").read_text()
    changes = {
        "server 127.0.0.1:8080 ": f"server {upstream} ",
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen [::]:80;": "",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "listen [::]:443 ssl http2;": "",
        "/etc/letsencrypt/live/gateway.example/fullchain.pem": str(certificate),
        "/etc/letsencrypt/live/gateway.example/privkey.pem": str(certificate),
        "/var/log/nginx/content-gateway.log": "/dev/stderr",
    }
    for is_there, becomes in changes.items():
        assert text.count(is_there) == 1, is_there
        text = text.replace(is_there, becomes)
    paths = "".join(
        f"    {kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/pid;\nevents {{ worker_connections 4096; }}\n"
        f"http {{\n    access_log off;\n{paths}{text}}}\n"
    )
    command = [str(require_peer("nginx")), "-p", str(folder), "-e", "stderr"]
    return [*command, "-c", str(folder / "nginx.conf")]


COMMANDS: dict[str, Callable[[Path, str, int, Path], list[str]]] = {
    "caddy": _caddy,
    "nginx": _nginx,
}


@asynccontextmanager
async def running_proxy(name: str, folder: Path, url: str) -> AsyncIterator[Proxy]:
    """The proxy *name* in front of the service at *url*; its files are in *folder*."""
    folder.mkdir()
    authority, port = Authority(folder), free_port()
    certificate = authority.issue("127.0.0.1")
    command = COMMANDS[name](folder, url.removeprefix("http://"), port, certificate)
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    process = Process(command, log=folder / "log", env=home)
    proxy = Proxy(f"https://127.0.0.1:{port}", authority.client(), folder / "log")

    async def is_up() -> bool:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{proxy.url}/version", ssl=proxy.trust) as answer,
            ):
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    await process.start(is_up)
    try:
        yield proxy
    finally:
        await process.stop()


def logged_ids(proxy: Proxy) -> set[str]:
    """The request ids of answers in the proxy's log, whichever of the two it is."""
    found = set()
    for line in proxy.log.read_text().splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            found |= {
                entry.get("request_id"),
                *entry.get("resp_headers", {}).get("X-Request-Id", ()),
            }
    return found - {None}
