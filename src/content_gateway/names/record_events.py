"""Events by which contracts say that a name's records may have changed.

Knows the events of ENS's registry and resolvers, and of Unstoppable Domains' registry, and which
node (EIP-137) each is about. Anybody's contract can emit any of them: an event says which name to
ask for again, and never what it points at; that is left to the name services."""

from collections.abc import Sequence
from typing import Final

_NEW_OWNER: Final = bytes.fromhex(
    "ce0457fe73731f824cc272376169235128c118b49d344817417c6d108d155e82"
)

# The registry of ENS, also the one before 2020 that it falls back to, and resolvers of any age.
# What changes nothing that is read here is left out: keys, interfaces, the registry's TTL.
ENS_EVENTS: Final = (
    _NEW_OWNER,  # NewOwner(bytes32,bytes32,address): of a label below the node
    # Transfer(bytes32,address): the owner stands in for a wallet that is unset
    bytes.fromhex("d4735d920b0f87494915f556dd9b54c8f309026070caea5c737245152564d266"),
    # NewResolver(bytes32,address)
    bytes.fromhex("335721b01866dc23fbee8b6b2c7b1e14d6f05c28cd35a2c934239f94095602a0"),
    # AddrChanged(bytes32,address)
    bytes.fromhex("52d7d861f09ab3d26239d492e8968629f95e9e318cf0b73bfddc441522a15fd2"),
    # AddressChanged(bytes32,uint256,bytes)
    bytes.fromhex("65412581168e88a1e60c6459d7f44ae83ad0832e670826c05a4e2476b57af752"),
    # ContenthashChanged(bytes32,bytes)
    bytes.fromhex("e379c1624ed7e714cc0937528a32359d69d5281337765313dba4e081b72d7578"),
    # TextChanged(bytes32,string,string,string), and as it was before it told the value
    bytes.fromhex("448bc014f1536726cf8d54ff3d6481ed3cbc683c2591ca204274009afa09b1a1"),
    bytes.fromhex("d8c9334b1a9c2f9da342a0a2b32629c1a229b6445dad78947f674b44444a7550"),
    # VersionChanged(bytes32,uint64): all records were cleared
    bytes.fromhex("c6621ccb8f3f5a04bb6502154b2caf6adf5983fe76dfef1cfc9c42e3579db444"),
)
# A token's number is its node. Transfer is left out: every token on the chain has that event.
UNSTOPPABLE_EVENTS: Final = (
    # Set(uint256,string,string,string,string)
    bytes.fromhex("851ffe8e74d5015261dba0a1f9e1b0e5d42c5af5d2ad1908fee897c7d80a0d92"),
    # ResetRecords(uint256)
    bytes.fromhex("185c30856dadb58bf097c1f665a52ada7029752dbcad008ea3fefc73bee8c9fe"),
    # NewURI(uint256,string): a name was minted
    bytes.fromhex("c5beef08f693b11c316c0c8394a377a0033c9cf701b8cd8afd79cecef60c3952"),
)
_KNOWN: Final = frozenset(ENS_EVENTS + UNSTOPPABLE_EVENTS)


def changed_node(topics: Sequence[bytes]) -> bytes | None:
    """The node that an event with these *topics* (32 bytes each) is about; None for another."""
    if len(topics) < 2 or topics[0] not in _KNOWN:
        return None
    if topics[0] != _NEW_OWNER:
        return topics[1]
    if len(topics) < 3:
        return None
    from Crypto.Hash import keccak  # noqa: PLC0415 - as in model/domain.py

    return keccak.new(digest_bits=256, data=topics[1] + topics[2]).digest()
