"""Local zone file: names the operator answers for without asking any chain.

Reads one TOML file, and again when it changes; a file that breaks later keeps the last good
zone. Knows file syntax only; order of services, caching and IPNS are the directory's business.

    authority = ["demo"]        # below these suffixes an unlisted name does not exist

    [names."site.demo"]         # one of the three is needed
    address = "0x..."           # optional: 20 bytes in hex
    addresses.2147492101 = "0x..."  # optional: by coin type (SLIP-44, ENSIP-11), as people write it
    content = "ipfs://bafy..."  # optional: ipfs://CID or ipns://NAME"""

import re
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
from content_gateway.model.wallet import (
    ETHEREUM,
    CoinType,
    checksummed,
    is_evm,
    parse_coin_type,
    parse_evm_address,
)

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_MEMBERS: Final = {"address", "addresses", "content"}
_ADDRESS: Final = re.compile(r"[!-~]{1,512}")


@dataclass(frozen=True, slots=True)
class Zone:
    """A parsed zone file: the records of its names by coin type, and the suffixes it has the last
    word on."""

    names: dict[str, dict[CoinType, Records]]
    authority: tuple[str, ...]

    def find(self, name: DomainName, coin: CoinType = ETHEREUM) -> Records | None:
        """The listed records, None if another service may know; raises NameNotFound if not."""
        listed = self.names.get(name.text)
        if listed is None:
            if self.authority and name.text.endswith(self.authority):
                raise NameNotFound("The zone file that holds this domain does not list the name.")
            return None
        if coin in listed:
            return listed[coin]
        # Other coins never fall back on an address of Ethereum.
        content = next(iter(listed.values())).content
        if content is None:
            raise NameNotFound(f"The name has no address of the coin type {coin}.")
        return Records.content_alone(content)


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

    def find(self, name: DomainName, coin: CoinType = ETHEREUM) -> Records | None:
        """As Zone.find, on the file's last good version."""
        return self._file.current().find(name, coin)

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
    parsed: dict[str, dict[CoinType, Records]] = {}
    for name, entry in names.items():
        try:
            text = DomainName.parse(name).text
            if text in parsed:
                raise ValueError("the name is listed twice")
            parsed[text] = _parse_entry(entry)
        except (ValueError, CallerError) as wrong:
            raise ValueError(f"{name}: {wrong}") from wrong
    return Zone(parsed, tuple("." + item.strip(".").lower() for item in authority))


def _parse_entry(entry: Any) -> dict[CoinType, Records]:
    """The records of a name by coin type: at least one."""
    if not isinstance(entry, dict) or not entry or entry.keys() - _MEMBERS:
        raise ValueError("an entry has address, addresses, content, or some of them")
    content = entry.get("content")
    record = None if content is None else parse_content(str(content))
    if content is not None and record is None:
        raise ValueError("content must be ipfs://CID or ipns://NAME")
    given = entry.get("addresses", {})
    if not isinstance(given, dict):
        raise ValueError("addresses must be a table")
    addresses = {parse_coin_type(number): text for number, text in given.items()}
    if "address" in entry:
        if ETHEREUM in addresses:
            raise ValueError("address and addresses.60 are the same")
        addresses[ETHEREUM] = entry["address"]
    records = {coin: Records(_address(coin, text), record) for coin, text in addresses.items()}
    return records or {ETHEREUM: Records(None, record)}


def _address(coin: CoinType, text: Any) -> str:
    """The address *text*; of coins that are no EVM chain as it is written."""
    if not isinstance(text, str):
        raise ValueError("an address must be text")
    if is_evm(coin):
        address = parse_evm_address(text)
        if not any(address):
            raise ValueError("the zero address means none")
        return checksummed(address)
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"the address of the coin type {coin} is no address")
    return text
