"""Local zone file: names the operator answers for without asking any chain.

Reads one TOML file, and again when it changes; a file that breaks later keeps the last good
zone. Knows file syntax only; order of services, caching and IPNS are the directory's business.

    authority = ["demo"]        # below these suffixes an unlisted name does not exist

    [names."site.demo"]
    address = "0x..."           # optional: 20 bytes in hex
    content = "ipfs://bafy..."  # optional: ipfs://CID or ipns://NAME; one of the two is needed"""

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from content_gateway.errors import CallerError, NameNotFound
from content_gateway.files.watched_file import WatchedFile
from content_gateway.model.domain import DomainName
from content_gateway.model.records import Records, parse_content
from content_gateway.model.wallet import checksummed, parse_evm_address

MAX_FILE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Zone:
    """A parsed zone file: the names it lists, and the suffixes it has the last word on."""

    names: dict[str, Records]
    authority: tuple[str, ...]

    def find(self, name: DomainName) -> Records | None:
        """The listed records, None if another service may know; raises NameNotFound if not."""
        records = self.names.get(name.text)
        if records is None and self.authority and name.text.endswith(self.authority):
            raise NameNotFound("The zone file that holds this domain does not list the name.")
        return records


class ZoneFile:
    """The zone file at *path*, as it stood a second ago at most: see WatchedFile."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises WrongSettings when the file cannot be used."""
        self._file = WatchedFile(
            path,
            lambda data: parse_zone(data.decode()),
            setting="names.zone_file",
            max_bytes=MAX_FILE_BYTES,
            clock=clock,
        )

    def find(self, name: DomainName) -> Records | None:
        """As Zone.find, on the file's last good version."""
        return self._file.current().find(name)

    def close(self) -> None:
        """Watch the file no more."""
        self._file.close()


def parse_zone(text: str) -> Zone:
    """The zone in *text*; ValueError names the entry that is wrong."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if unknown := table.keys() - {"names", "authority"}:
        raise ValueError(f"unknown key {min(unknown)!r}")
    authority, names = table.get("authority", []), table.get("names", {})
    if not isinstance(authority, list) or not all(isinstance(item, str) for item in authority):
        raise ValueError("authority must be a list of suffixes")
    if not isinstance(names, dict):
        raise ValueError("names must be a table")
    parsed: dict[str, Records] = {}
    for name, entry in names.items():
        try:
            text = DomainName.parse(name).text
            if text in parsed:
                raise ValueError("the name is listed twice")
            parsed[text] = _parse_entry(entry)
        except (ValueError, CallerError) as wrong:
            raise ValueError(f"{name}: {wrong}") from wrong
    return Zone(parsed, tuple("." + item.strip(".").lower() for item in authority))


def _parse_entry(entry: Any) -> Records:
    if not isinstance(entry, dict) or not entry or entry.keys() - {"address", "content"}:
        raise ValueError("an entry has address, content, or both")
    address, content = entry.get("address"), entry.get("content")
    record = None if content is None else parse_content(str(content))
    if content is not None and record is None:
        raise ValueError("content must be ipfs://CID or ipns://NAME")
    return Records(None if address is None else _parse_address(address), record)


def _parse_address(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError("address must be text")
    address = parse_evm_address(text)
    if not any(address):
        raise ValueError("address is the zero address, which means none")
    return checksummed(address)
