"""What every test gets: nobody but loopback is ever contacted; and the miniatures most of them use.

An audit hook of the interpreter watches this process's sockets; a test that tries to reach
anything else fails where it does so. Child processes get settings without public addresses."""

import gc
import signal
import sys
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from content_gateway.net.http_client import HttpClient
from tests.chance import SEED
from tests.fakes.ethereum import Ethereum, running_ethereum
from tests.fakes.origin import Origin, running_origin

_NAMES_OF_HERE = {"localhost", "127.0.0.1", "::1", "", None}
# Folders of long files: what begins last would run alone.
_LONG = {"machines", "real", "deploy", "faults"}


def _only_loopback(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        if not _is_here(arguments[0]):
            raise PermissionError(f"a test looked up {arguments[0]!r}")
    elif event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise PermissionError(f"a test connected to {address!r}")


def _is_here(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in _NAMES_OF_HERE:
        return True
    try:
        return ip_address(str(host)).is_loopback
    except ValueError:
        return False


sys.addaudithook(_only_loopback)

# A shell's background jobs ignore Ctrl+C, and so would all that they start: here it must work.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the others in their order."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in _LONG)


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end: a garbage collection need not visit them each time (a
    seventh of the processor time)."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what draws the same cases again."""
    terminalreporter.write_line(f"cases were drawn with TEST_SEED={SEED}")


@pytest.fixture
async def outbound() -> AsyncIterator[HttpClient]:
    """The HTTP client, open."""
    async with HttpClient() as outbound:
        yield outbound


@pytest.fixture
async def ethereum() -> AsyncIterator[Ethereum]:
    """A miniature node."""
    async with running_ethereum() as ethereum:
        yield ethereum


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """A miniature gateway and router."""
    async with running_origin() as origin:
        yield origin


@pytest.fixture
async def other() -> AsyncIterator[Origin]:
    """A second server like `origin`."""
    async with running_origin() as other:
        yield other
