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


class LocalNames(Protocol):
    """Names that are known without asking a server."""

    def find(self, name: DomainName, coin: CoinType) -> Records | None:
        """The records, the wallet being the address for *coin*; None if another service may know.

        Raises NameNotFound when this is the authority for the name and does not list it, or lists
        it with nothing to answer."""


def find_locally(
    zones: Iterable[LocalNames], name: DomainName, coin: CoinType, more: Sequence[RecordKey] = ()
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


def _address(zone: LocalNames, name: DomainName, key: RecordKey) -> str | None:
    try:
        found = None if key.coin is None else zone.find(name, key.coin)
    except NameNotFound:
        return None
    return None if found is None else found.known_wallet
