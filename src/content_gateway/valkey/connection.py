"""One connection to a Valkey or Redis: commands out, replies in, by a deadline and a byte cap.

Knows the forms of `limits.url`, and what a refusal means: whether the settings are wrong, or the
store is unreachable for now. valkey-py speaks the protocol; what it reads is bounded here, since
its parser reads whatever a server announces. What the commands are is left to rows.py and
exchange.py."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from valkey import exceptions
from valkey._parsers import _AsyncRESP2Parser
from valkey.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)

from content_gateway.valkey.rows import Command

SECONDS: Final = 1.0  # until a store that says nothing is unreachable
_CONNECT_SECONDS: Final = 2.0
_MOST_BYTES: Final = 16 * 1024 * 1024  # of one reply
_PORT: Final = 6379
# The first word of errors that no waiting ends.
_LASTING: Final = ("WRONGTYPE", "MOVED", "CROSSSLOT")
_NONE: Final = "what answers there is no Valkey, and no Redis"
# What each error means, and whether it lasts; the first that fits.
_REASONS: Final[Sequence[tuple[tuple[type[Exception], ...], str, bool]]] = (
    ((exceptions.AuthenticationError,), "it refuses the user or the password: {}", True),
    ((exceptions.NoPermissionError,), "its user may not do that: {}", True),
    ((TimeoutError, exceptions.TimeoutError), "it does not answer in time", False),
    ((exceptions.InvalidResponse,), _NONE, True),
    ((exceptions.ConnectionError, OSError), "{}", False),
    ((exceptions.ResponseError,), "it refuses: {}", False),
)
_WITH_A_CODE: Final = re.compile(r"[A-Z]{4,} ")


class StoreUnreachable(Exception):
    """The store cannot be used, and *reason* says why, without a secret.

    *is_lasting*: it is there, and what `limits.url` says does not fit it."""

    def __init__(self, reason: str, *, is_lasting: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_lasting = is_lasting


class Link:
    """An open connection."""

    def __init__(self, connection: AbstractConnection, secret: str) -> None:
        self._connection = connection
        self._secret = secret

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to *commands*, which are sent at once.

        Raises StoreUnreachable, also where one of them was refused."""
        try:
            async with asyncio.timeout(SECONDS):
                packed = self._connection.pack_commands(commands)
                await self._connection.send_packed_command(packed)
                return [await self._connection.read_response() for _ in commands]
        except Exception as wrong:
            raise _unreachable(wrong, self._secret) from wrong


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Link]:
    """A connection to the store at *url*; raises StoreUnreachable."""
    secret = unquote(urlsplit(url).password or "")
    try:
        connection = _connection(url)
    except (OSError, ValueError, exceptions.ValkeyError) as wrong:
        raise StoreUnreachable(_told(wrong, secret), is_lasting=True) from wrong
    try:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
        except Exception as wrong:
            raise _unreachable(wrong, secret) from wrong
        yield Link(connection, secret)
    finally:
        await connection.disconnect(nowait=True)


def shown(url: str) -> str:
    """*url* without anything that could be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _connection(url: str) -> AbstractConnection:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    words: dict[str, Any] = {
        "username": unquote(parts.username or "") or None,
        "password": unquote(parts.password or "") or None,
        # The deadlines are ours: its own use asyncio.wait_for, which in Python 3.11 may lose that
        # the task around it was cancelled.
        "socket_timeout": None,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "parser_class": _BoundedParser,
        # A name of the library is nothing that a store's user must be allowed to set.
        "lib_name": None,
        "lib_version": None,
    }
    if parts.scheme == "unix":
        database = int(query.get("db", ["0"])[0])
        return UnixDomainSocketConnection(path=unquote(parts.path), db=database, **words)
    words |= {
        "host": parts.hostname,
        "port": parts.port or _PORT,
        "db": int(parts.path.strip("/") or 0),
    }
    if parts.scheme in ("rediss", "valkeys"):
        authorities = query.get("ssl_ca_certs", [None])[0]
        if authorities is not None:
            ssl.create_default_context(cafile=authorities)  # says now what is wrong with it
        return SSLConnection(
            ssl_cert_reqs="required",
            ssl_check_hostname=True,
            ssl_ca_certs=authorities,
            **words,
        )
    return Connection(**words)


class _BoundedParser(_AsyncRESP2Parser):
    """A parser that ends where a reply is too large, or its lengths make no sense.

    tests/valkey/test_connection.py names the private names of valkey-py that this rests on."""

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """One reply."""
        self._room = _MOST_BYTES
        return await super().read_response(disable_decoding=disable_decoding)

    async def _read(self, length: int) -> bytes:
        self._spend(length)
        return await super()._read(length)

    async def _readline(self) -> bytes:
        line = await super()._readline()
        self._spend(len(line) + 2)
        return line

    def _spend(self, length: int) -> None:
        self._room -= length
        # Less than nothing would read what was read again, for ever.
        if length < 0 or self._room < 0:
            raise exceptions.InvalidResponse("a reply is too large")


def _unreachable(wrong: Exception, secret: str) -> StoreUnreachable:
    """What *wrong* means to whoever has set `limits.url`."""
    if isinstance(wrong, StoreUnreachable):
        return wrong
    cause = wrong.__cause__ or wrong.__context__
    if isinstance(cause, ssl.SSLError):
        return StoreUnreachable(f"TLS: {_told(cause, secret)}", is_lasting=True)
    said = _told(wrong, secret)
    for kinds, reason, is_lasting in _REASONS:
        if isinstance(wrong, kinds):
            # valkey-py takes the code ERR off, which is what a wrong command or database gets.
            has_no_code = type(wrong) is exceptions.ResponseError and not _WITH_A_CODE.match(said)
            lasts = is_lasting or has_no_code or said.startswith(_LASTING)
            return StoreUnreachable(reason.format(said), is_lasting=lasts)
    return StoreUnreachable(_NONE, is_lasting=True)


def _told(wrong: BaseException, secret: str) -> str:
    """What *wrong* says in a line; servers repeat what they were sent."""
    said = next(iter(str(wrong).splitlines()), "") or type(wrong).__name__
    return (said.replace(secret, "********") if secret else said)[:200]
