"""The contract: spec.yaml as it stands on disk, read when asked.

Knows how to read an OpenAPI description and which operations it lists. The file is parsed again
only when its modification time, size or inode changes, in a thread, and a version that is broken
leaves the last good one in its place; what the operations do is left to asgi.py."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from content_gateway.codecs import bounded_yaml
from content_gateway.errors import ContractBroken
from content_gateway.files.watched_file import Stamp, read_bytes, stamp_of
from content_gateway.http.auth import KEY_IN_PATH
from content_gateway.http.representation import Representation, compressed

MAX_FILE_BYTES: Final = 512 * 1024
# How long an answer waits for a version that is being read; then the last good one serves.
PATIENCE: Final = 2.0
JSON: Final = "application/json"
_JSON: Final = JSON.encode()
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the description.

    *scope* is what its key must allow, *scheme* the name of the security scheme by which the key
    is sent; both are None where no key is needed. Where *key_is_optional* the handler decides what
    is served without one. *body_type* is the media type of the body that it takes, None: none."""

    id: str
    method: str
    path: str
    scope: str | None
    scheme: str | None = None
    body_type: bytes | None = None
    key_is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The description, as it is served at /spec, and its version, as at /version."""

    version: Representation
    whole: Representation
    operations: tuple[Operation, ...]


class Contract:
    """The description in the file at *path*."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tried: Stamp | None = None
        self._document: Document | None = None  # the last good one
        self._wrong: Exception | None = ValueError("it was never read")
        self._alarm: tuple[Stamp | None, str] | None = None
        self._reading: asyncio.Task[None] | None = None

    def read(self) -> Document:
        """The document as the file has it now, or the last good one; raises ContractBroken.

        Waits for the disk and the parser: for the start."""
        self._take(*_attempt(self._path))
        return self._last()

    async def current(self) -> Document:
        """As `read`, beside the event loop, and only where the file has changed.

        A reading that takes long is not waited for: until it is over the last good one serves."""
        if self._reading is None:
            stamp = stamp_of(self._path)
            if stamp is None or stamp != self._tried:
                self._reading = asyncio.create_task(self._reread(), name="read spec_file")
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=PATIENCE)
        return self._last()

    async def close(self) -> None:
        """Read no more; what a thread still reads is left behind."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _reread(self) -> None:
        try:
            self._take(*await asyncio.to_thread(_attempt, self._path))
        finally:
            self._reading = None

    def _take(self, stamp: Stamp | None, found: Document | Exception) -> None:
        """Keep what a reading has found; what is wrong is said once for each version."""
        self._tried = stamp
        if isinstance(found, Document):
            if self._document is not None and found.whole.etag != self._document.whole.etag:
                log.info("a watched file was read again", setting="spec_file")
            self._document, self._wrong, self._alarm = found, None, None
            return
        self._wrong = found
        if self._alarm != (stamp, str(found)):
            self._alarm = (stamp, str(found))
            log.error(
                "a watched file is broken, its last good version serves",
                setting="spec_file",
                path=str(self._path),
                reason=str(found),
            )

    def _last(self) -> Document:
        if self._document is None:
            # A new error each time: one that is raised again keeps every frame it passed.
            raise ContractBroken("The OpenAPI description is broken.") from self._wrong
        return self._document


def _attempt(path: Path) -> tuple[Stamp | None, Document | Exception]:
    """The document in *path*, or what is wrong with it, and which version of the file that is.

    The version is None where the file cannot be read: it may be in a moment."""
    stamps: list[Stamp] = []
    try:
        data = read_bytes(path, MAX_FILE_BYTES, stamps.append)
        return stamps[0], understand(data.decode())
    except OSError as wrong:
        return None, wrong.with_traceback(None)
    except (ValueError, TypeError, RecursionError) as wrong:
        return stamps[0], wrong.with_traceback(None)


def understand(text: str) -> Document:
    """The description in the YAML *text*; ValueError when it is not one."""
    tree = bounded_yaml.load(text)
    info = tree.get("info") if isinstance(tree, dict) else None
    if not isinstance(info, dict) or not isinstance(tree.get("paths"), dict):
        raise ValueError("it has no info or no paths")
    version = info.get("version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError("info.version is not <major>.<minor>.<patch>")
    said = msgspec.json.encode({"version": version})
    return Document(
        version=Representation(_JSON, said, b'"%b"' % version.encode()),
        whole=compressed(_JSON, msgspec.json.encode(tree)),
        operations=tuple(_operations(tree)),
    )


def _operations(tree: dict[str, Any]) -> Iterator[Operation]:
    for path, item in tree["paths"].items():
        if not isinstance(item, dict):
            raise ValueError(f"{path} is not a path item")
        for method in _METHODS:
            if method in item:
                operation = item[method]
                if not isinstance(operation, dict) or "operationId" not in operation:
                    raise ValueError(f"{method} {path} has no operationId")
                yield _operation(method, path, operation, tree.get("security"))


def _operation(method: str, path: str, operation: dict[str, Any], default: Any) -> Operation:
    keyed, scope, scheme = operation.get("security", default) or [], None, None
    schemes = [one for one in keyed if one]  # {} is for no key
    if operation.get("x-key-in-path"):
        keyed = schemes = [{KEY_IN_PATH: []}]  # no security scheme of OpenAPI can say so
    if keyed:
        scope = operation.get("x-scope")
        if not scope:
            raise ValueError(f"{method} {path} needs a key but names no x-scope")
        if len(schemes) != 1 or len(schemes[0]) != 1:
            raise ValueError(f"{method} {path} needs other than one security scheme")
        (scheme,) = schemes[0]
    body = operation.get("requestBody")
    types = list(body.get("content", ())) if isinstance(body, dict) else []
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        scope,
        scheme,
        (types[0] if types else JSON).encode() if body is not None else None,
        key_is_optional={} in keyed,
    )
