"""The part of the composition root that issues keys: the ledger's database, and nothing else.

A key can be revoked at once, and its pins removed, whatever is wrong with the denylist, zone file
or blocks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from content_gateway.api_keys import IssuedKeys
from content_gateway.denylist.denylist import Denylist
from content_gateway.pins.pinning import Pinning
from content_gateway.settings.model import Settings
from content_gateway.wiring.ledgers import Ledger, ledger_of


@dataclass(frozen=True, slots=True)
class Tenants:
    """Who has keys, and what they pinned; *ledger* is for reports on it."""

    keys: IssuedKeys
    pinning: Pinning
    ledger: Ledger


@asynccontextmanager
async def opened_tenants(settings: Settings) -> AsyncIterator[Tenants]:
    """The keys and pins of a ledger; raises WrongSettings where it cannot be opened."""
    async with ledger_of(settings) as ledger:
        # Nothing is added here, and a running service finds what was released by itself.
        pinning = Pinning(ledger.pins, denylist=Denylist(None, None), wake=lambda: None)
        yield Tenants(IssuedKeys(ledger.keys), pinning, ledger)
