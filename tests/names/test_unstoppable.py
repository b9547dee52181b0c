"""UnstoppableNames over several chains: who holds a name, what it says, and what is not known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from content_gateway.errors import (
    AnswerTooLarge,
    InvalidCoinType,
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import MAX_ANSWER_BYTES
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import parse_record_keys
from content_gateway.model.records import (
    Failed,
    Records,
)
from content_gateway.model.wallet import CoinType
from content_gateway.names.unstoppable import (
    CONTENT_KEYS,
    WALLET_KEYS,
    Chain,
    UnstoppableNames,
)
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.unstoppable_defaults import TLDS
from tests.fakes.miniature import Mood
from tests.fakes.unstoppable import (
    NOBODY,
    PROXY_READER,
    Name,
    UnstoppableChain,
    running_chain,
)
from tests.samples import CID_TEXT, CONTENT, OTHER, OWNER, WALLET
from tests.waiting import until

BRAD = DomainName.parse("brad.crypto")
DEAD = "0x000000000000000000000000000000000000dEaD"
T = TypeVar("T")
LEGACY_WALLET, HASH = WALLET_KEYS[-1], CONTENT_KEYS[0]


@pytest.fixture
async def chains() -> AsyncIterator[list[UnstoppableChain]]:
    """Three chains, in the order in which they are believed."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running_chain()) for _ in range(3)]


@pytest.fixture
def names(outbound: HttpClient, chains: list[UnstoppableChain]) -> UnstoppableNames:
    return service(outbound, chains, seconds=2)


def service(
    outbound: HttpClient, chains: list[UnstoppableChain], *, seconds: float
) -> UnstoppableNames:
    """The service over these chains, each of which has so many seconds to answer."""
    return UnstoppableNames(
        [
            Chain(f"chain {n}", EthereumRpc(outbound, [chain.url], seconds=seconds), PROXY_READER)
            for n, chain in enumerate(chains)
        ],
        TLDS,
    )


def calls(chains: list[UnstoppableChain]) -> list[int]:
    """How many `eth_call` each chain was asked."""
    return [chain.eth_calls for chain in chains]


# -- which chain holds a name ---------------------------------------------------------------


@pytest.mark.parametrize("holder", [0, 1, 2])
async def test_the_chain_that_holds_a_name_answers(
    names: UnstoppableNames, chains: list[UnstoppableChain], holder: int
) -> None:
    """Wallet and content come with one call, on whichever chain the name lives."""
    chains[holder].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET, HASH: CID_TEXT})
    assert await names.resolve(BRAD) == Records(WALLET, CONTENT)
    assert max(calls(chains)) == 1
    assert all(chain.eth_calls == 1 for chain in chains[: holder + 1])


async def test_the_earlier_chain_wins(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """A name on two chains belongs to the first, even when the second is quicker to answer."""
    chains[1].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET})
    chains[2].names["brad.crypto"] = Name(OTHER, {LEGACY_WALLET: OTHER, HASH: CID_TEXT})
    chains[1].delay = 0.1
    assert await names.resolve(BRAD) == Records(WALLET, None)


async def test_all_chains_are_asked_at_once(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """No chain waits for another: each is asked while none has answered."""
    for chain in chains:
        chain.misbehave("hang")
    resolving = asyncio.create_task(names.resolve(BRAD))
    await until(lambda: calls(chains) == [1, 1, 1])
    with pytest.raises(UpstreamTimeout):
        await resolving


async def test_absence_takes_one_call_on_every_chain(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """That nobody holds the name is known once all have said so."""
    with pytest.raises(NameNotFound):
        await names.resolve(BRAD)
    assert calls(chains) == [1, 1, 1]


def test_other_endings_are_not_covered(names: UnstoppableNames) -> None:
    """Whether a name whose last label is not ours exists is for others to say."""
    for text in ("vitalik.eth", "crypto.example", "brad.crypto.eth"):
        assert not names.covers(DomainName.parse(text))
    assert names.covers(BRAD)
    assert names.covers(DomainName.parse("pay.brad.crypto"))


async def test_names_below_a_name_are_names(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """A third label is hashed like any other (EIP-137), and upper case is normalised before."""
    chains[0].names["pay.brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET})
    assert (await names.resolve(DomainName.parse("Pay.Brad.CRYPTO"))).wallet == WALLET


async def test_without_chains_nothing_is_known() -> None:
    """Without chains it is UpstreamUnavailable, never NameNotFound."""
    with pytest.raises(UpstreamUnavailable):
        await UnstoppableNames([], TLDS).resolve(BRAD)


# -- when chains fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("dark", UpstreamUnavailable),
        ("hang", UpstreamTimeout),
        ("empty", InvalidUpstreamResponse),
        ("error", UpstreamUnavailable),
        ("revert", InvalidUpstreamResponse),
    ],
)
@pytest.mark.parametrize("failing", [1, 2])
async def test_a_chain_that_fails_might_have_held_the_name(
    names: UnstoppableNames,
    chains: list[UnstoppableChain],
    mood: Mood,
    error: type[UpstreamError],
    failing: int,
) -> None:
    """One of three is enough that nothing can be known, whatever a chain behind it holds."""
    chains[failing].misbehave(mood)
    with pytest.raises(error):
        await names.resolve(BRAD)
    chains[2].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET})
    with pytest.raises(error):
        await names.resolve(BRAD)


@pytest.mark.parametrize("mood", ["dark", "hang", "lie", "revert"])
async def test_a_chain_behind_the_holder_may_fail(
    outbound: HttpClient, chains: list[UnstoppableChain], mood: Mood
) -> None:
    """Once the name is found, nobody waits for the chains behind, or minds what they say."""
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET})
    chains[1].misbehave("hang")
    chains[2].misbehave(mood)
    names = service(outbound, chains, seconds=1000)  # to wait for a chain is to fail
    assert await names.resolve(BRAD) == Records(WALLET, None)


# -- wallets --------------------------------------------------------------------------------


async def test_the_owner_stands_in_for_a_missing_wallet(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """Content without a wallet: the owner came with the same call, is told, and marked."""
    chains[0].names["brad.crypto"] = Name(OWNER, {HASH: CID_TEXT})
    assert await names.resolve(BRAD) == Records(OWNER, CONTENT, wallet_is_owner=True)
    assert max(calls(chains)) == 1


@pytest.mark.parametrize("owner", [DEAD, "0x932532aA4c0174b8453839A6E44eE09Cc615F2b7"])
async def test_nobodys_wallet_is_never_told(
    names: UnstoppableNames, chains: list[UnstoppableChain], owner: str
) -> None:
    """What is sent to the owner of a burnt name, or to the bridge to Polygon, is lost."""
    chains[0].names["brad.crypto"] = Name(owner, {HASH: CID_TEXT})
    assert await names.resolve(BRAD) == Records(None, CONTENT, wallet_is_owner=False)


@pytest.mark.parametrize("records", [{}, {LEGACY_WALLET: NOBODY}])
async def test_a_name_without_records_is_absent(
    names: UnstoppableNames, chains: list[UnstoppableChain], records: dict[str, str]
) -> None:
    """A name with neither wallet nor content is not found, whoever owns it."""
    chains[0].names["brad.crypto"] = Name(OWNER, records)
    with pytest.raises(NameNotFound):
        await names.resolve(BRAD)


UNREADABLE = Failed(ResolverFailed, "The name's wallet record is not an address.")
TOO_LARGE = Failed(AnswerTooLarge, "The name's resolver gave more than is read of one record.")
NOVEL = "a" * MAX_ANSWER_BYTES


async def test_a_wallet_that_cannot_be_read_is_not_the_owners(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """A record that is no address has failed; the owner's wallet does not replace it."""
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET[:-1], HASH: CID_TEXT})
    assert await names.resolve(BRAD) == Records(UNREADABLE, CONTENT)
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: "soon"})
    with pytest.raises(ResolverFailed, match="not an address"):
        await names.resolve(BRAD)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({LEGACY_WALLET: WALLET, HASH: NOVEL}, Records(WALLET, TOO_LARGE)),
        ({LEGACY_WALLET: NOVEL, HASH: CID_TEXT}, Records(TOO_LARGE, CONTENT)),
    ],
)
async def test_a_record_that_is_too_large_hides_no_other(
    names: UnstoppableNames,
    chains: list[UnstoppableChain],
    records: dict[str, str],
    expected: Records,
) -> None:
    """What an owner can write is asked for by itself then: two calls more, and no owner told. Where
    all are too large nothing is known, and that is no absence."""
    chains[0].names["brad.crypto"] = Name(OWNER, records)
    assert await names.resolve(BRAD) == expected
    assert chains[0].eth_calls == 3
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: NOVEL, HASH: NOVEL})
    with pytest.raises(AnswerTooLarge):
        await names.resolve(BRAD)


async def test_another_coin_is_not_asked_for(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """Asked for another coin, Ethereum's address is not passed off as it, nor absence claimed."""
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET, HASH: CID_TEXT})
    chains[0].names["site.crypto"] = Name(OWNER, {HASH: CID_TEXT})
    chains[0].names["pay.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET})
    for coin in (0, 61, 501, 0x80000000 | 8453):
        for text in ("brad.crypto", "site.crypto", "pay.crypto", "nobody.crypto"):
            with pytest.raises(InvalidCoinType):
                await names.resolve(DomainName.parse(text), CoinType(coin))
    assert calls(chains) == [0, 0, 0]


async def test_a_text_is_the_record_of_that_key(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """In the same call; of addresses only Ethereum's are read, which is said of the others."""
    held: dict[str, str | bytes] = {
        LEGACY_WALLET: WALLET,
        "social.picture.value": "x",
        "bad": b"\xff",
    }
    chains[1].names["brad.crypto"] = Name(OWNER, held)
    keys = "text.social.picture.value,text.none,text.bad,addr.60,addr.0"
    more = parse_record_keys(f"{keys},text.{LEGACY_WALLET}")
    records = await names.resolve(BRAD, more=more)
    values = dict(records.more)
    assert records.wallet == values["addr.60"] == values[f"text.{LEGACY_WALLET}"] == WALLET
    assert values["text.social.picture.value"] == "x"
    assert values["text.none"] is None
    assert isinstance(values["text.bad"], Failed)
    assert isinstance(values["addr.0"], Failed)
    assert records.resolver is not None
    assert records.resolver.lower() == "0x" + "ab" * 20
    assert calls(chains) == [1, 1, 1]


async def test_a_text_that_is_too_large_hides_no_other(
    names: UnstoppableNames, chains: list[UnstoppableChain]
) -> None:
    """Each is asked for by itself then."""
    chains[0].names["brad.crypto"] = Name(OWNER, {LEGACY_WALLET: WALLET, "a": NOVEL, "b": "x"})
    records = await names.resolve(BRAD, more=parse_record_keys("text.a,text.b"))
    assert records.wallet == WALLET
    assert dict(records.more) == {"text.a": TOO_LARGE, "text.b": "x"}
    assert chains[0].eth_calls == 5
