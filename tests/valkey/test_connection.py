"""What is no store, refuses us, or says what no store would: clear words, and nobody is hurt."""

import asyncio
import inspect
from contextlib import suppress
from pathlib import Path

import pytest
from valkey._parsers import _AsyncRESP2Parser

from content_gateway.errors import WrongSettings
from content_gateway.valkey.connection import StoreUnreachable, connected, shown
from tests.authority import Authority
from tests.valkey.machines import Machine, all_told, machines, requestor
from tests.waiting import until
from tests.world.peers import free_port
from tests.world.stores import KINDS, Garbage, Store, running_store

ANSWERS = {
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "nothing but bytes": bytes(range(256)),
    "a bulk without end": b"$999999999999\r\n" + b"x" * 65_536,
    "a length below nothing": b"*99999999\r\n$-7\r\n",
    "a long array": b"*999999999\r\n" + b":1\r\n" * 10_000,
    "arrays in arrays": b"*1\r\n" * 20_000,
    "a line without end": b"+" + b"x" * 1_000_000,
    "numbers that are none": b":x\r\n",
    "answers to other questions": b"+OK\r\n" * 3,
    "times that cannot be": b"*2\r\n$3\r\n-99\r\n$1\r\n0\r\n" * 8,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_garbage_is_no_store(answer: bytes) -> None:
    """At the start it is told so, or the start goes on without; limits hold either way."""
    async with Garbage(answer) as garbage:
        machine = Machine(garbage.url)
        with suppress(WrongSettings):
            await machine.begin()
        assert machine.let_in(requestor(per_minute=3), 9) == 3
        assert not machine.exchange.is_up
        # 16 MiB of one reply are read at most, and what the kernel takes.
        assert garbage.sent < 64 * 1024 * 1024
        await machine.end()


async def test_who_begins_without_a_store_finds_it_later(tmp_path: Path) -> None:
    """Merely unreachable is no wrong setting."""
    store = Store("redis", tmp_path)
    team = requestor(per_day=10)
    async with machines(2, store.url) as (one, two):
        assert not one.exchange.is_up
        assert one.let_in(team, 4) == 4
        await store.start()
        try:
            await all_told([one, two])
            assert two.used(team) == 4
        finally:
            await store.kill()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_password_is_a_wrong_setting(kind: str, tmp_path: Path) -> None:
    """As is none where one is wanted, or a database that there is not; no message has one."""
    async with running_store(kind, tmp_path / "store", requirepass="right") as store:
        for url in (
            f"redis://:hush-hush@127.0.0.1:{store.port}",
            f"redis://127.0.0.1:{store.port}",
            f"valkey://default:hush-hush@127.0.0.1:{store.port}",
            f"{store.url}/99",
        ):
            with pytest.raises(WrongSettings) as refused:
                await Machine(url).begin()
            assert refused.value.detail.startswith("limits.url: ")
            assert "hush" not in refused.value.detail
        async with machines(1, store.url) as (right,):
            assert right.exchange.is_up


async def test_a_user_may_be_allowed_what_is_needed_and_no_more(store: Store) -> None:
    """The rules of docs/operating.md; one that lacks a command is told which."""
    rules = ("~{test}:*", "+time", "+xadd", "+xread", "+xrevrange", "+hset", "+hscan", "+expire")
    await store.ask(("ACL", "SETUSER", "gateway", "on", ">secret", *rules))
    url = f"redis://gateway:secret@127.0.0.1:{store.port}"
    async with machines(2, url) as (one, two):
        assert one.let_in(requestor(per_day=3), 2) == 2
        await all_told([one, two])
        assert two.used(requestor(per_day=3)) == 2
    await store.ask(("ACL", "SETUSER", "gateway", "-hscan"))
    with pytest.raises(WrongSettings, match=r"its user may not do that: .*hscan"):
        await Machine(url).begin()


async def test_a_unix_socket_will_do(store: Store) -> None:
    async with machines(1, f"unix://{store.socket}?db=2") as (one,):
        assert one.exchange.is_up


async def test_tls_is_verified(store: Store, tmp_path: Path) -> None:
    """By the authority that the settings name: its name and its time too."""
    authority = Authority(tmp_path)

    async def served(name: str) -> tuple[asyncio.Server, int]:
        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", store.port)

            async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while data := await source.read(65_536):
                    target.write(data)
                target.close()

            await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

        port = free_port()
        context = authority.server(name)
        return await asyncio.start_server(pass_on, "127.0.0.1", port, ssl=context), port

    server, port = await served("127.0.0.1")
    other, wrong_name = await served("store.example")
    async with server, other:
        trusting = f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority.file()}"
        async with machines(1, trusting) as (one,):
            assert one.exchange.is_up
        for url in (
            f"rediss://127.0.0.1:{port}",
            f"rediss://127.0.0.1:{wrong_name}?ssl_ca_certs={authority.file()}",
            f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path}/none.pem",
        ):
            with pytest.raises(WrongSettings, match=r"limits\.url"):
                await Machine(url).begin()


async def test_what_others_write_there_is_no_count(store: Store) -> None:
    """Hashes and news that make no sense are left out; numbers that do are believed."""
    team = requestor(per_day=10)
    news = "{test}:news"
    async with machines(1, store.url) as (one,):
        row = '["key_team", 86400, %d, %d, 10]'
        for told in (
            ("junk", "junk"),
            ("sender", "x", "number", "one", "rows", "[]"),
            ("sender", "x", "number", 1, "rows", "["),
            ("sender", "x", "number", 2, "rows", '[["key_team", 86400, 1, 5]]'),
            ("sender", "x", "number", 3, "rows", f"[{row % (10**17, 0)}]"),
            ("sender", "x", "number", 4, "rows", f"[{row % (-5, 3)}]"),
            ("sender", "x", "number", 5, "rows", f"[{row % (10**17, 2)}]"),
            ("sender", "x", "number", 5, "rows", f"[{row % (10**17, 2)}]"),
        ):
            await store.ask(("XADD", news, "*", *told))
        await one.rounds(3)
        assert one.used(team) == 2
        assert one.exchange.is_up
        hashes = [name for name in await store.keys() if not name.endswith(":news")]
        assert hashes == []
        assert one.let_in(team) == 1
        await one.told()
        (name,) = [name for name in await store.keys() if ":86400:" in name]
        await store.ask(("HSET", name, "a", "b", "c:d", "x:y", "e:key_team", "-3:10", "f", ""))
        async with machines(1, store.url) as (late,):
            assert late.used(team) == 3
        await store.ask(("DEL", news), ("SET", news, "no stream"))
        await until(lambda: not one.exchange.is_up)
        assert one.let_in(team, 20) == 7


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://gateway:hush%40@db:6380/2", "redis://db:6380/2"),
        ("valkeys://:hu@sh@[::1]?ssl_ca_certs=/etc/ca.pem", "valkeys://[::1]"),
        ("unix://gateway:hush@/run/socket?db=1", "unix:///run/socket"),
    ],
)
def test_a_log_shows_the_store_and_no_secret(url: str, said: str) -> None:
    assert shown(url) == said


async def test_a_deadline_ends_every_question() -> None:
    """Also where the other end says something, and never all of it."""
    async with Garbage(b"*2\r\n:1\r\n") as slow, connected(slow.url) as link:
        with pytest.raises(StoreUnreachable, match="in time"):
            await link.ask([("TIME",)])


def test_the_private_names_that_the_parser_rests_on() -> None:
    """valkey-py may change them in any release: then `valkey` in pyproject.toml is to be held."""
    assert list(inspect.signature(_AsyncRESP2Parser._read).parameters) == ["self", "length"]
    assert list(inspect.signature(_AsyncRESP2Parser._readline).parameters) == ["self"]
    source = inspect.getsource(_AsyncRESP2Parser._read_response)
    assert "self._read(" in source
    assert "self._readline(" in source
