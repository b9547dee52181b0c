"""Several workers that listen to a chain: once for all of them, and each hears what has changed."""

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.fakes.chain import ChainNode, running_chain
from tests.fakes.ethereum import Name, keccak256, namehash
from tests.waiting import eventually, until
from tests.workers import Workers, with_workers

ALICE, BOB = "0x" + "aa" * 20, "0x" + "bb" * 20
CHANGED: Final = (keccak256(b"AddrChanged(bytes32,address)"), namehash("site.eth"))
CLIENTS: Final = 16


async def wallets(workers: Workers) -> set[str]:
    """The address of site.eth, in lower case, by answers on many new connections."""
    url = f"http://127.0.0.1:{workers.port}/domain/resolve/site.eth"

    async def one() -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers={"x-api-key": "me"}) as answer,
        ):
            body: dict[str, Any] = await answer.json()
            return str(body["walletAddress"]["addr"]).lower()

    return set(await asyncio.gather(*(one() for _ in range(CLIENTS))))


@asynccontextmanager
async def listening(node: ChainNode, data: Path) -> AsyncIterator[Workers]:
    """Workers of a service that listens to *node*; an answer of theirs is fresh for a day."""
    node.names["site.eth"] = Name(address=ALICE)
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_NAMES__FRESH": "86400",
        "CONTENT_GATEWAY_ENS__RPC_URLS": json.dumps([node.url]),
        "CONTENT_GATEWAY_ENS__WS_URLS": json.dumps([node.ws_url]),
        "CONTENT_GATEWAY_ENS__TIMEOUT": "9",
    }
    async with with_workers(data, settings=settings) as workers:
        await workers.logged("a chain is listened to")
        assert len(node.sockets) == 1
        await all_show(workers, ALICE)
        yield workers


async def all_show(workers: Workers, address: str) -> None:
    """Wait until each of *workers* answers with *address*."""

    async def they_do() -> bool:
        return await wallets(workers) == {address}

    await eventually(they_do, what=f"all workers answer {address}")


def is_stored(ledger: Path) -> bool:
    """Whether the answer for site.eth is in the database."""
    with closing(sqlite3.connect(ledger)) as database:
        return bool(
            database.execute("SELECT 1 FROM resolutions WHERE domain = 'site.eth'").fetchall()
        )


async def test_all_workers_hear_what_one_subscription_tells(tmp_path: Path) -> None:
    """Of each update; and those that begin with a reload hear them too, through their own one."""
    async with running_chain() as node, listening(node, tmp_path / "data") as workers:
        node.names["site.eth"] = Name(address=BOB)
        await node.mine(CHANGED)
        await all_show(workers, BOB)
        assert await workers.number("chain_listener_up") == 1

        before = workers.pids
        workers.service.child.send_signal(signal.SIGHUP)
        await workers.logged("the workers were replaced")
        await until(lambda: not before & workers.pids, seconds=60)
        await workers.logged("a chain is listened to", 2)
        await until(lambda: len(node.sockets) == 1, seconds=60)
        await all_show(workers, BOB)
        node.names["site.eth"] = Name(address=ALICE)
        await node.mine(CHANGED)
        await all_show(workers, ALICE)


async def test_a_worker_hears_what_was_told_before_it_began(tmp_path: Path) -> None:
    """Where one died and another takes its place: answers in the database are older than that."""
    async with running_chain() as node, listening(node, tmp_path / "data") as workers:
        await until(lambda: is_stored(tmp_path / "data" / "ledger.sqlite"))
        before = workers.pids
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        node.names["site.eth"] = Name(address=BOB)
        await node.mine(CHANGED)
        await until(lambda: len(workers.pids - before) == len(before), seconds=60)
        await all_show(workers, BOB)
