"""Names that are known here: the records of a name from the local zones, those asked for besides
included.

Knows that a zone holds addresses and content only, each address to be asked for by its coin. What a
zone is, and how it is read, is left to zone.py; which name service comes next to the directory."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from content_gateway.errors import NameNotFound
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import RecordKey
from content_gateway.model.records import Records
from content_gateway.model.wallet import CoinType


class Zone(Protocol):
    """As `LocalNames` of directory.py."""

    def find(self, name: DomainName, coin: CoinType) -> Records | None:
        """As `LocalNames.find`."""


def find_locally(
    zones: Iterable[Zone], name: DomainName, coin: CoinType, more: Sequence[RecordKey] = ()
) -> Records | None:
    """What the first of *zones* has that knows *name*, None if another service may know it.

    Raises NameNotFound as LocalNames.find does. Zones hold no texts: those of *more* are absent."""
    for zone in zones:
        try:
            records = zone.find(name, coin)
        except NameNotFound:
            if not any(_address(zone, name, key) for key in more):
                raise
            records = Records()
        if records is not None and not more:
            return records
        if records is not None:
            values = tuple((key.text, _address(zone, name, key)) for key in more)
            return replace(records, more=values)
    return None


def _address(zone: Zone, name: DomainName, key: RecordKey) -> str | None:
    try:
        found = None if key.coin is None else zone.find(name, key.coin)
    except NameNotFound:
        return None
    return None if found is None else found.known_wallet
