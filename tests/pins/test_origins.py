"""Which origins of pins are taken and used, and which addresses clients get."""

import asyncio
from collections.abc import Sequence

import pytest

from content_gateway.errors import InvalidBody, UpstreamUnavailable
from content_gateway.pins.delegates import MOST_DELEGATES, Delegates, usable_addresses
from content_gateway.pins.origins import MOST_ORIGINS, OriginRules
from tests.waiting import until

PEERS = [
    "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN",
    "QmNnooDu7bfjPFoTZYxMNLWUQJyrVwtbZg5gBMjTezGAJN",
    "QmQCU2EcMqAqQPR2i9bChDtGNJchTbq5TbXJJ16u19uLTa",
]
RULES = OriginRules()


def node(number: int, peer: int = 0) -> str:
    return f"/ip4/8.8.{number // 256}.{number % 256}/tcp/4001/p2p/{PEERS[peer]}"


LOCAL = f"/ip4/127.0.0.1/tcp/4001/p2p/{PEERS[0]}"
LAN = f"/ip4/192.168.1.2/tcp/4001/p2p/{PEERS[0]}"


def test_origins_are_taken_as_they_are_sent() -> None:
    """In their order, each once."""
    assert RULES.taken([node(2), node(1), node(2)]) == (node(2), node(1))
    assert RULES.taken([]) == ()


def test_private_ones_are_passed_over_beside_others() -> None:
    """A Kubo sends every address that it listens on: the public ones are used."""
    assert RULES.taken([LOCAL, LAN, node(1)]) == (node(1),)
    assert OriginRules(private=True).taken([LOCAL, node(1)]) == (LOCAL, node(1))


@pytest.mark.parametrize("texts", [[LOCAL], [LAN, LOCAL], ["/dns4/localhost/tcp/80/http"]])
def test_only_private_ones_are_refused(texts: list[str]) -> None:
    """With a reason, unless the operator allows private origins."""
    with pytest.raises(InvalidBody, match="not on the public internet"):
        RULES.taken(texts)
    assert OriginRules(private=True).taken(texts) == tuple(texts)


def test_one_that_is_none_is_refused_whatever_else_is_there() -> None:
    with pytest.raises(InvalidBody, match="no multiaddr"):
        RULES.taken([node(1), "/ip4/8.8.8.8"])


def test_pins_of_a_content_bring_their_origins_together() -> None:
    """Some of each pin's in turn, so that no pin can push out those of another; bounded."""
    many = [node(number) for number in range(300)]
    usable = RULES.usable([many, [node(1, 1)], [node(2, 2), node(0)]])
    assert [origin.text for origin in usable][:4] == [many[0], node(1, 1), node(2, 2), many[1]]
    assert len(usable) == MOST_ORIGINS


def test_what_was_let_in_before_and_is_wrong_is_not_used() -> None:
    """By an earlier version, which took any text, or while private ones were allowed."""
    assert RULES.usable([["/no/multiaddr", LOCAL, node(1)], ["/ip4"]]) == RULES.usable([[node(1)]])
    assert RULES.usable([]) == ()


def test_clients_are_told_what_they_can_connect_to() -> None:
    """Public addresses with a peer id, some of each node's in turn, as many as the API has."""
    first = [node(number) for number in range(30)]
    second = [node(number, 1) for number in range(30)]
    listed = usable_addresses(
        [LOCAL, *first, "/ip4/8.8.8.8/tcp/1", "x", *second, first[0]], private=False
    )
    assert listed[:4] == [first[0], second[0], first[1], second[1]]
    assert len(listed) == MOST_DELEGATES
    assert usable_addresses([LOCAL, LAN], private=True) == [LOCAL, LAN]


class Backend:
    """Says where it can be reached, after so many failures."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.asked = 0
        self.known = [node(1)]

    async def addresses(self) -> Sequence[str]:
        self.asked += 1
        if self.asked <= self.failures:
            raise UpstreamUnavailable("away")
        return self.known


async def test_the_backends_addresses_are_kept_fresh() -> None:
    """They are asked for again and again; during an outage the last ones are kept."""
    backend = Backend(failures=1)
    delegates = Delegates(backend, (), refresh=0.01)
    delegates.start()
    assert delegates.known == []
    await until(lambda: delegates.known == [node(1)])
    backend.failures = backend.asked + 2
    await until(lambda: backend.asked >= backend.failures, seconds=60)
    assert delegates.known == [node(1)]
    backend.known = [node(2)]
    await until(lambda: delegates.known == [node(2)], seconds=60)
    await delegates.close()
    asked = backend.asked
    await asyncio.sleep(0.05)
    assert backend.asked == asked


async def test_what_the_operator_names_rules() -> None:
    """Then the backend is not asked, and the named addresses are given out unchanged."""
    backend = Backend()
    delegates = Delegates(backend, [LOCAL], refresh=0.01)
    delegates.start()
    await asyncio.sleep(0.05)
    assert (delegates.known, backend.asked) == ([LOCAL], 0)
    await delegates.close()
