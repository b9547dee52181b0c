"""Events of contracts: which are heard, and which node each is about."""

import pytest

from content_gateway.names.record_events import ENS_EVENTS, UNSTOPPABLE_EVENTS, changed_node
from tests.fakes.ethereum import keccak256, namehash

NODE = namehash("site.eth")
OF_ENS = (
    "NewOwner(bytes32,bytes32,address)",
    "Transfer(bytes32,address)",
    "NewResolver(bytes32,address)",
    "AddrChanged(bytes32,address)",
    "AddressChanged(bytes32,uint256,bytes)",
    "ContenthashChanged(bytes32,bytes)",
    "TextChanged(bytes32,string,string,string)",
    "TextChanged(bytes32,string,string)",
    "VersionChanged(bytes32,uint64)",
)
OF_UNSTOPPABLE = (
    "Set(uint256,string,string,string,string)",
    "ResetRecords(uint256)",
    "NewURI(uint256,string)",
)


def test_events_are_those_of_the_contracts() -> None:
    """The hash of each signature, as it is written in the contract."""
    assert tuple(keccak256(one.encode()) for one in OF_ENS) == ENS_EVENTS
    assert tuple(keccak256(one.encode()) for one in OF_UNSTOPPABLE) == UNSTOPPABLE_EVENTS


@pytest.mark.parametrize("event", [*OF_ENS[1:], *OF_UNSTOPPABLE])
def test_an_event_is_about_its_first_word(event: str) -> None:
    """The node, or the number of the token, which is the node."""
    assert changed_node([keccak256(event.encode()), NODE]) == NODE
    assert changed_node([keccak256(event.encode()), NODE, bytes(32), bytes(32)]) == NODE


def test_a_new_owner_is_that_of_a_label_below() -> None:
    """The node is the parent's, which does not change."""
    topics = [ENS_EVENTS[0], namehash("eth"), keccak256(b"site")]
    assert changed_node(topics) == NODE
    assert changed_node(topics[:2]) is None


@pytest.mark.parametrize("topics", [[], [NODE], [ENS_EVENTS[1]], [bytes(32), NODE]])
def test_other_events_are_about_nothing(topics: list[bytes]) -> None:
    """Also those that lack their node."""
    assert changed_node(topics) is None
