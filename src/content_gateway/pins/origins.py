"""Origins: nodes that have the content of a pin, as its requestor says; and which of them we use.

Refuses what is no multiaddr, and hosts outside of the public internet (model/addresses.py). A DNS
name may resolve to anything later: the SSRF guard checks again, and Kubo has Swarm.AddrFilters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from content_gateway.errors import InvalidBody
from content_gateway.model.multiaddr import Multiaddr

MOST_ORIGINS: Final = 20


@dataclass(frozen=True, slots=True)
class OriginRules:
    """Which origins are accepted; with *private* also hosts outside of the public internet."""

    private: bool = False

    def taken(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The allowed ones of the origins *texts* that a requestor sent, without duplicates.

        Kubo sends all its addresses, private ones included, so private ones are skipped if there
        is any other. Raises InvalidBody if one is no multiaddr, or if none is allowed."""
        origins = [_parse(text) for text in dict.fromkeys(texts)]
        allowed = tuple(origin.text for origin in origins if self._allows(origin))
        if origins and not allowed:
            raise InvalidBody(
                f"origins: {origins[0]} is not on the public internet, and this service does not"
                " connect to private addresses or local names for anybody."
            )
        return allowed

    def usable(self, kept: Iterable[Sequence[str]]) -> Sequence[Multiaddr]:
        """At most MOST_ORIGINS of the origins *kept* with the pins of one content, taken from the
        pins in turn. Skips those that only an earlier version or another setting accepted."""
        in_turn = chain.from_iterable(zip_longest(*kept))
        found: dict[str, Multiaddr] = {}
        for text in in_turn:
            if text is None or text in found:
                continue
            try:
                origin = Multiaddr.parse(text)
            except ValueError:
                continue
            if self._allows(origin):
                found[text] = origin
            if len(found) == MOST_ORIGINS:
                break
        return tuple(found.values())

    def _allows(self, origin: Multiaddr) -> bool:
        return self.private or origin.is_public


def _parse(text: str) -> Multiaddr:
    try:
        return Multiaddr.parse(text)
    except ValueError as wrong:
        raise InvalidBody(f"origins: {text[:80]} is no multiaddr: {wrong}.") from wrong
