"""The contract: spec.yaml as it stands on disk, read when asked.

Knows how to read an OpenAPI description and which operations it lists. The file is parsed again
only when its modification time, size or inode changes; what the operations do is left to
routes.py."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from content_gateway.errors import ContractBroken

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML in which a date stays text, as JSON has it."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the description.

    *scope* is what its key must allow, *scheme* the name of the security scheme by which the key
    is sent; both are None where no key is needed."""

    id: str
    method: str
    path: str
    scope: str | None
    scheme: str | None = None
    takes_body: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """The description, ready to be served. *etag* is a quoted validator (RFC 9110)."""

    version: str
    json: bytes
    etag: bytes
    operations: tuple[Operation, ...]


class Contract:
    """The description in the file at *path*."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._document: Document | Exception = ValueError("it was never read")

    def read(self) -> Document:
        """The document as the file has it now; raises ContractBroken."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp != self._stamp:
                self._document = _parse(self._path)
                self._stamp = stamp
        except OSError as wrong:
            self._stamp = None
            raise ContractBroken("The OpenAPI description cannot be read.") from wrong
        if isinstance(self._document, Exception):
            # A new error each time: one that is raised again keeps every frame it passed.
            raise ContractBroken("The OpenAPI description is broken.") from self._document
        return self._document


def _parse(path: Path) -> Document | Exception:
    """The document in *path*, or what is wrong with it; raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    try:
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
        return understand(data.decode())
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as wrong:
        return wrong.with_traceback(None)


def understand(text: str) -> Document:
    """The description in the YAML *text*; ValueError when it is not one."""
    tree = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    info = tree.get("info") if isinstance(tree, dict) else None
    if not isinstance(info, dict) or not isinstance(tree.get("paths"), dict):
        raise ValueError("it has no info or no paths")
    version = info.get("version")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError("info.version is not <major>.<minor>.<patch>")
    body = msgspec.json.encode(tree)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
    return Document(version, body, etag, tuple(_operations(tree)))


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
    keyed, scope, scheme = operation.get("security", default), None, None
    if keyed:
        scope = operation.get("x-scope")
        if not scope:
            raise ValueError(f"{method} {path} needs a key but names no x-scope")
        if len(keyed) != 1 or len(keyed[0]) != 1:
            raise ValueError(f"{method} {path} needs other than one security scheme")
        (scheme,) = keyed[0]
    takes_body = "requestBody" in operation
    return Operation(operation["operationId"], method.upper(), path, scope, scheme, takes_body)
