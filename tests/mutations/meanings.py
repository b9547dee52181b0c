"""What all the answers about one ENS name say together: its records, and whose it is.

Puts the oracle's readings of single answers together as the design's section 2 has it. Knows which
answer was given in which role; what an answer says is read by oracle.py."""

from collections.abc import Mapping
from typing import Final

from content_gateway.content.wallet import ETHEREUM, CoinType
from content_gateway.outbound import Answer
from tests.fakes.ethereum import NAME_WRAPPER
from tests.mutations.cases import Wrong
from tests.mutations.contents import Unreadable
from tests.mutations.oracle import (
    LOOKUP,
    Abi,
    Refused,
    Said,
    absent_or_failed,
    checksummed,
    elements_of,
    records_of,
    returned,
    says_the_same,
)
from tests.mutations.standin import Role

Heard = Mapping[Role, Answer]
ELSEWHERE: Final = Said("to be looked up elsewhere")


def meaning(
    heard: Heard, coin: CoinType = ETHEREUM, server: str = "node", what: str = "resolve"
) -> Said | Unreadable:
    """What the answers that were *heard* from *server* say of a name, the first one being that to
    *what*; Unreadable where they say nothing. A revert that wants something looked up off the
    chain is ELSEWHERE."""
    try:
        return _says(heard, coin, server, what)
    except Unreadable as nothing:
        return nothing


def _says(heard: Heard, coin: CoinType, server: str, what: str) -> Said:
    answer = heard[Role(server, what)]
    try:
        result = returned(answer.status, answer.body)
    except Refused as refused:
        if refused.data[:4] == LOOKUP:
            return ELSEWHERE
        absent_or_failed(refused.data)
        return Said()
    elements = elements_of(result)
    if not says_the_same(result, elements):
        raise Wrong("eth-abi reads something else than the oracle")
    said = records_of(elements, coin)
    if said.wallet is not None or said.content is None or coin != ETHEREUM:
        return said
    owner = account(heard, Role(server, "owner"))
    if owner is not None and owner.lower() == NAME_WRAPPER.lower():
        owner = account(heard, Role(server, "ownerOf"))
    return Said(owner, said.content, by_owner=owner is not None)


def account(heard: Heard, role: Role, *, may_refuse: bool = True) -> str | None:
    """The account that a registry names; None for nobody, and where the contract refuses."""
    if role not in heard:
        raise Unreadable("it was never asked")
    try:
        address = Abi(returned(heard[role].status, heard[role].body)).address()
    except Refused as refused:
        if may_refuse:
            return None
        raise Unreadable("a registry that refuses") from refused
    return checksummed(address) if any(address) else None
