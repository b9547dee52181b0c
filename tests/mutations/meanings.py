"""What all the answers about one ENS name say together: its records, and whose it is.

Puts the oracle's readings of single answers together as docs/architecture.md has it. Knows which
answer was given in which role; what an answer says is read by oracle.py."""

from collections.abc import Callable, Mapping
from typing import Final

from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.net.http_client import Answer
from tests.fakes.ethereum import NAME_WRAPPER
from tests.mutations.cases import Wrong
from tests.mutations.contents import Unreadable, content_of
from tests.mutations.oracle import (
    HTTP_ERROR,
    LOOKUP,
    RESOLVER_ERROR,
    Abi,
    Content,
    Mark,
    Refused,
    Said,
    TooLarge,
    Wallet,
    both_of,
    checksummed,
    content_in,
    elements_of,
    refusal,
    returned,
    says_the_same,
    wallet_of,
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
        elements = elements_of(result)
        if not says_the_same(result, elements):
            raise Wrong("eth-abi reads something else than the oracle")
        wallet = wallet_of(elements[0], coin, in_multicall=True)
        content = content_in(elements[1], in_multicall=True)
    except Refused as refused:
        if refused.data[:4] == LOOKUP:
            return ELSEWHERE
        if is_the_resolvers(refused.data):
            return _one_by_one(heard, coin, server)
        if refusal(refused.data) is Mark.FAILED:
            raise Unreadable("a refusal for another reason") from refused
        return Said()
    except TooLarge:
        return _one_by_one(heard, coin, server)
    if wallet is Mark.EMPTY and coin == ETHEREUM:
        wallet = wallet_alone(heard, coin, server)
    return with_owner(wallet, content, coin, lambda: _owner(heard, server))


def is_the_resolvers(revert: bytes) -> bool:
    """Whether the multicall failed by the name's own resolver, or by a gateway that refuses."""
    if revert[:4] == RESOLVER_ERROR:
        return refusal(revert) is Mark.FAILED
    return revert[:4] == HTTP_ERROR


def _one_by_one(heard: Heard, coin: CoinType, server: str) -> Said:
    wallet = wallet_alone(heard, coin, server)
    data = alone(heard, server, "contenthash")
    content = data if isinstance(data, Mark) else content_in(data, in_multicall=False)
    return with_owner(wallet, content, coin, lambda: _owner(heard, server))


def wallet_alone(heard: Heard, coin: CoinType, server: str) -> Wallet:
    """The address as it was told alone."""
    data = alone(heard, server, "addr")
    return data if isinstance(data, Mark) else wallet_of(data, coin, in_multicall=False)


def alone(heard: Heard, server: str, record: str) -> bytes | Mark:
    """The record that was asked for alone, off the chain where the node sends us there."""
    for what in (f"resolve {record}", f"resolveCallback {record}"):
        answer = heard.get(Role(server, what))
        if answer is None:
            return Mark.FAILED
        try:
            return Abi(returned(answer.status, answer.body)).string()
        except Unreadable:
            return Mark.FAILED
        except Refused as refused:
            if refused.data[:4] != LOOKUP:
                return refusal(refused.data)
    return Mark.FAILED


def with_owner(
    wallet: Wallet, content: Content, coin: CoinType, owner: Callable[[], str | None]
) -> Said:
    """Both records; the *owner* stands in for an Ethereum address that was read and is zero."""
    if wallet is not Mark.ZERO or isinstance(content, Mark) or coin != ETHEREUM:
        return both_of(wallet, content)
    try:
        whose = owner()
    except Unreadable:
        return both_of(Mark.FAILED, content)
    return both_of(whose or Mark.NONE, content, by_owner=whose is not None)


def _owner(heard: Heard, server: str) -> str | None:
    owner = account(heard, Role(server, "owner"))
    if owner is not None and owner.lower() == NAME_WRAPPER.lower():
        owner = account(heard, Role(server, "ownerOf"))
    return owner


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


def registered(heard: Heard, server: str, what: str) -> Wallet:
    """The `owner` or `resolver` that a registry of ENS's shape names, which never refuses."""
    try:
        return account(heard, Role(server, what), may_refuse=False) or Mark.NONE
    except Unreadable:
        return Mark.FAILED


def content_there(heard: Heard, server: str) -> Content:
    """The content as a resolver that was asked directly told it."""
    answer = heard.get(Role(server, "contenthash"))
    if answer is None:
        return Mark.FAILED
    try:
        return content_of(Abi(returned(answer.status, answer.body)).string()) or Mark.NONE
    except Unreadable:
        return Mark.FAILED
    except Refused as refused:
        # A contract without the function refuses without a word.
        return refusal(refused.data) if refused.data else Mark.NONE
