"""The sockets that a service listens on: those it was started with, or its own.

Knows socket activation (sd_listen_fds(3)): the service manager has bound the sockets and keeps them
over a restart, so that no connection is refused meanwhile. Warns once of each that other machines
can reach, since what goes over it is not encrypted."""

import os
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

import structlog

from content_gateway.errors import WrongSettings
from content_gateway.http.server import listen, prepare
from content_gateway.settings.model import Settings

_FIRST: Final = 3  # SD_LISTEN_FDS_START
_ADMIN: Final = "admin"
_VARIABLES: Final = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Listeners:
    """The service's socket and the admin listener's; *is_inherited* if the first one stays open
    when this process ends."""

    service: socket.socket
    admin: socket.socket | None
    is_inherited: bool

    @property
    def url(self) -> str:
        """Where the service is."""
        host, port = self.service.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def open_listeners(chosen: Settings, environ: MutableMapping[str, str]) -> Listeners:
    """Those that *environ* tells of, and those that *chosen* asks for where it tells of none.

    Its variables are taken out of *environ*: they are not for our children. Raises
    WrongSettings."""
    inherited = _inherited(environ)
    admin = inherited.pop(_ADMIN, None)
    service = next(iter(inherited.values()), None)
    if service is not None and chosen.keys.mode == "open" and not _is_loopback(service):
        raise WrongSettings(
            'keys.mode "open" lets anybody in: the socket of the service manager must be bound to a'
            " loopback address"
        )
    is_inherited = service is not None
    if service is None:
        service = listen(chosen.host, chosen.port)
    if admin is None and chosen.admin.port:
        admin = listen(chosen.admin.host, chosen.admin.port, "admin.host, admin.port")
    for name, listener in (("service", service), ("admin", admin)):
        if listener is not None and not _is_loopback(listener):
            host, port = listener.getsockname()[:2]
            log.warning(
                "other machines can reach a listener that has no TLS",
                listener=name,
                address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            )
    return Listeners(service, admin, is_inherited)


def _inherited(environ: MutableMapping[str, str]) -> dict[str, socket.socket]:
    """The sockets that this process was started with, by name; raises WrongSettings."""
    told: Mapping[str, str] = {name: environ.pop(name, "") for name in _VARIABLES}
    if told["LISTEN_PID"] != str(os.getpid()) or not told["LISTEN_FDS"].isdecimal():
        return {}
    number = int(told["LISTEN_FDS"])
    names = told["LISTEN_FDNAMES"].split(":") if told["LISTEN_FDNAMES"] else []
    is_named = _ADMIN in names
    found: dict[str, socket.socket] = {}
    for place in range(number):
        # Without a name that is ours, the first is the service's and the second the admin's.
        is_admin = names[place : place + 1] == [_ADMIN] if is_named else place == 1
        name = _ADMIN if is_admin else "service"
        if name in found or place > 1:
            raise WrongSettings(
                f"LISTEN_FDS: {number} sockets were handed over; one is the service's, and one"
                f' more, named "{_ADMIN}" or the second, is the admin listener\'s'
            )
        found[name] = _adopted(_FIRST + place)
    return found


def _adopted(descriptor: int) -> socket.socket:
    """The listening TCP socket that *descriptor* is; raises WrongSettings."""
    try:
        os.set_inheritable(descriptor, False)
        adopted = socket.socket(fileno=descriptor)
        is_tcp = adopted.type == socket.SOCK_STREAM and adopted.family in (
            socket.AF_INET,
            socket.AF_INET6,
        )
        if not is_tcp or not adopted.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError("it is no listening TCP socket")
    except OSError as wrong:
        raise WrongSettings(f"LISTEN_FDS: descriptor {descriptor}: {wrong}") from wrong
    prepare(adopted)
    return adopted


def _is_loopback(listener: socket.socket) -> bool:
    address = ip_address(listener.getsockname()[0].partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
