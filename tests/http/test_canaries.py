"""Secrets that are planted in a running service, and looked for everywhere that others can see."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from tests.cli.command import cids, run
from tests.process import running
from tests.world.peers import free_port

# Each is planted in one setting, and is a word that nothing else contains.
SECRETS = {
    "ENS__RPC_URLS": '["http://127.0.0.1:{port}/v3/canary-chain-1b7f"]',
    "ENS__WS_URLS": '["ws://user:canary-socket-7ae3@127.0.0.1:{port}/canary-stream-24d8"]',
    "IPNS__ROUTERS": '["http://user:canary-router-93aa@127.0.0.1:{port}"]',
    "IPFS_CLUSTER__URLS": '["http://127.0.0.1:{port}/canary-path-55c0"]',
    "IPFS_CLUSTER__PASSWORD": "canary-password-0d2e",
}
CANARY = re.compile(rb"canary-\w+-[0-9a-f]{4}")


def planted(folder: Path) -> dict[str, str]:
    """Settings with the secrets in files, and everything that may be logged logged."""
    port = free_port()
    settings = {
        "PINS__BACKEND": "ipfs-cluster",
        "IPFS_CLUSTER__USERNAME": "gateway",
        "LOG__LEVEL": "debug",
        "LOG__ACCESS": "on",
        "LOG__FORMAT": "json",
    }
    for name, secret in SECRETS.items():
        file = folder / name
        file.write_text(secret.replace("{port}", str(port)))
        settings[f"{name}_FILE"] = str(file)
    return settings


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


async def test_no_secret_is_seen_anywhere(tmp_path: Path) -> None:
    """A key and the secrets of settings are in no log, metric, status page, error, process list or
    file, but a key as its hash; and a key that is sent where it does not belong is not told on."""
    secrets, data = tmp_path / "secrets", tmp_path / "data"
    secrets.mkdir()
    settings = planted(secrets)
    made = run(data, "keys", "create", "--name", "team", **settings)
    key = made.stdout.strip()
    assert key.startswith("cg_")
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    admin = free_port()
    chosen = {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}
    for name in ("ENS__RPC_URLS", "IPNS__ROUTERS"):  # which tests otherwise leave empty
        chosen[f"CONTENT_GATEWAY_{name}"] = SECRETS[name].replace("{port}", str(free_port()))
    chosen["CONTENT_GATEWAY_ADMIN__PORT"] = str(admin)
    seen: list[bytes] = []
    async with running("serve", data, chosen) as service:
        async with aiohttp.ClientSession() as session:

            async def ask(method: str, path: str, **fields: str) -> None:
                async with session.request(method, service.url + path, headers=fields) as answer:
                    body = await answer.read()
                    fields_sent = repr(dict(answer.headers)).encode()
                    if not path.startswith("/ipfs/pin/add"):  # which the interface has echo it
                        seen.extend((body, fields_sent))

            (cid,) = cids(1)
            await ask("GET", "/domain/resolve/vitalik.eth", **{"x-api-key": key})
            await ask("POST", f"/ipfs/pin/add/{cid}", **{"x-api-key": key})
            await ask("GET", f"/ipfs/pin/status/{cid}", **{"x-api-key": key})
            question = "?name=_dnslink.vitalik.eth&type=TXT"
            await ask("GET", f"/dns-query/{key}{question}")
            await ask("GET", f"/dns-query/{wrong}{question}")
            await ask("GET", f"/dns-query/{key}/more{question}")
            await ask("GET", "/psa/pins", Authorization=f"Bearer {key}")
            await ask("GET", "/key", **{"x-api-key": wrong})
            await ask("GET", "/key", **{"x-api-key": key, "X-Request-Id": key})
            await ask("GET", f"/key?key={key}", **{"x-api-key": key})
            await ask("GET", f"/domain/records/{key}.eth", **{"x-api-key": key, "User-Agent": key})
            await asyncio.sleep(0.5)  # the reconciler fails too
            for path in ("/metrics", "/status", "/readyz"):
                async with session.get(f"http://127.0.0.1:{admin}{path}") as answer:
                    assert answer.status == 200
                    seen.append(await answer.read())
        seen.append(Path(f"/proc/{service.child.pid}/cmdline").read_bytes())
        await service.stop()
    for arguments in (("keys", "list"), ("config", "show"), ("pin", "ls"), ("reconcile", "report")):
        ended = run(data, *arguments, **settings)
        seen.append((ended.stdout + ended.stderr).encode())
    seen += [path.read_bytes() for path in files(data)]
    log = (tmp_path / "data.log").read_bytes()
    assert b'"event":"request"' in log
    for text in [*seen, log]:
        # In what a caller sent as a name or a query it is echoed to that caller alone.
        without_echo = text.replace(f"{key}.eth".lower().encode(), b"").replace(
            f"{key}.eth".encode(), b""
        )
        assert key.encode() not in without_echo
        assert wrong.encode() not in text
        assert not CANARY.search(text), CANARY.search(text)
    assert os.path.exists(data / "ledger.sqlite")
