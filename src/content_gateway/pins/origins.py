"""Origins: who has the content of a pin, as its requestor says; and which of them are believed.

Knows what is refused: what is no multiaddr, and hosts that others may not send us to, by the
rule of model/addresses.py. A name may lead anywhere by the time that a node asks for it: where
we connect ourselves the guard looks again, and a Kubo has Swarm.AddrFilters of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

from content_gateway.errors import InvalidBody
from content_gateway.model.multiaddr import Multiaddr

MOST_ORIGINS: Final = 20


@dataclass(frozen=True, slots=True)
class OriginRules:
    """What is taken; *private* says that hosts outside of the public internet are taken too."""

    private: bool = False

    def taken(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Those of the origins *texts*, as a requestor sends them, that are used; each once.

        A Kubo sends all addresses it has, its private ones among them: these are passed over
        where there is another. Raises InvalidBody where one is no multiaddr, and where there are
        only such as are not allowed."""
        origins = [_parse(text) for text in dict.fromkeys(texts)]
        allowed = tuple(origin.text for origin in origins if self._allows(origin))
        if origins and not allowed:
            raise InvalidBody(
                f"origins: {origins[0]} is not on the public internet, and this service does not"
                " connect to private addresses or local names for anybody."
            )
        return allowed

    def usable(self, kept: Iterable[Sequence[str]]) -> Sequence[Multiaddr]:
        """Of the origins that pins of one content are *kept* with, some of each pin's in turn, as
        many as are worth trying. What an earlier version, or another setting, has let in and is
        not right is left out."""
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
