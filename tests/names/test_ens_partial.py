"""EnsNames where a resolver fails: each record by itself, and nobody's wallet for another's."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from eth_abi.abi import encode

from content_gateway.errors import (
    AnswerTooLarge,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import MAX_ANSWER_BYTES
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.record_keys import parse_record_keys
from content_gateway.model.records import Failed, Records
from content_gateway.model.wallet import CoinType
from content_gateway.names.ens import EnsNames
from content_gateway.net.http_client import HttpClient
from tests.fakes.ethereum import (
    REGISTRY,
    UNIVERSAL_RESOLVER,
    Ethereum,
    Name,
    running_ethereum,
    selector,
)
from tests.samples import BASE, CONTENT, IPFS, OWNER, SITE, WALLET

ADDRESS: Final = encode(["address"], [WALLET])
ZERO: Final = bytes(32)
NOT_SUPPORTED: Final = selector("ResolverFunctionNotSupported()")  # Farcaster
NOT_IMPLEMENTED: Final = selector("NotImplemented()")  # ExtendedDNSResolver
NO_PROFILE: Final = selector("UnsupportedResolverProfile(bytes4)") + bytes(32)
COULD_NOT: Final = selector("CouldNotResolve(bytes)") + encode(["bytes"], [b"\3com\0"])
OUT_OF_LUCK: Final = selector("Error(string)") + encode(["string"], ["out of luck"])
HUGE: Final = b"\xe3" * MAX_ANSWER_BYTES  # as hexadecimal, twice as much
TOO_LARGE: Final = Failed(
    AnswerTooLarge, "The name's resolver gave more than is read of one record."
)


def http_error(status: int) -> bytes:
    """What stands for a gateway that failed."""
    return selector("HttpError(uint16,string)") + encode(["uint16", "string"], [status, "x"])


def reverted(how: str) -> Failed:
    """A record whose resolver reverted so."""
    return Failed(ResolverFailed, f"The name's resolver reverted {how}.")


@pytest.fixture
async def ens(outbound: HttpClient, ethereum: Ethereum) -> EnsNames:
    return service(outbound, ethereum)


def service(outbound: HttpClient, *nodes: Ethereum) -> EnsNames:
    """ENS over these nodes, the first that is well."""
    rpc = EthereumRpc(outbound, [node.url for node in nodes], seconds=5)
    return EnsNames(rpc, universal_resolver=UNIVERSAL_RESOLVER, registry=REGISTRY)


# -- each record by itself ------------------------------------------------------------------


@pytest.mark.parametrize("error", [NOT_SUPPORTED, NOT_IMPLEMENTED, NO_PROFILE, COULD_NOT])
async def test_a_function_that_is_not_there_is_a_record_that_is_not_set(
    ens: EnsNames, ethereum: Ethereum, error: bytes
) -> None:
    """Errors of resolvers in use for a missing function; the same call reads the other record."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash_error=error)
    assert await ens.resolve(SITE) == Records(WALLET)
    ethereum.names["site.eth"] = Name(address_error=error, contenthash=IPFS, owner=OWNER)
    assert await ens.resolve(SITE) == Records(None, CONTENT), "the owner's wallet is a guess"
    assert ethereum.eth_calls == 2
    ethereum.names["site.eth"] = Name(address_error=error, contenthash_error=error)
    with pytest.raises(NameNotFound):
        await ens.resolve(SITE)


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (OUT_OF_LUCK, reverted('with "out of luck"')),
        (selector("InvalidOperation()"), reverted("with InvalidOperation()")),
        (selector("Nobody()"), reverted(f"with the unknown error 0x{selector('Nobody()').hex()}")),
        (
            http_error(404),
            Failed(ResolverFailed, "The name's off-chain gateway answered 404."),
        ),
        (http_error(500), Failed(UpstreamUnavailable, "The name's off-chain gateway failed.")),
        (
            http_error(504),
            Failed(UpstreamTimeout, "The name's off-chain gateway did not answer in time."),
        ),
    ],
)
async def test_what_is_known_is_told_and_what_failed_is_said(
    ens: EnsNames, ethereum: Ethereum, error: bytes, failed: Failed
) -> None:
    """Whichever of the two it is; nothing is known, and it is an error, where both fail or the
    other is not set."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash_error=error)
    assert await ens.resolve(SITE) == Records(WALLET, failed)
    ethereum.names["site.eth"] = Name(address_error=error, contenthash=IPFS, owner=OWNER)
    assert await ens.resolve(SITE) == Records(failed, CONTENT)
    assert ethereum.eth_calls == 2
    for nothing in (
        Name(address_error=error, contenthash_error=error),
        Name(address_error=error),
        Name(contenthash_error=error, owner=OWNER),
        Name(address_error=error, contenthash_error=NOT_IMPLEMENTED),
    ):
        ethereum.names["site.eth"] = nothing
        with pytest.raises(failed.kind) as told:
            await ens.resolve(SITE)
        assert told.value.detail == failed.reason


async def test_of_two_failures_the_one_that_may_pass_is_told(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """503 rather than 502: a later request may succeed."""
    ethereum.names["site.eth"] = Name(address_error=OUT_OF_LUCK, contenthash_error=http_error(503))
    with pytest.raises(UpstreamUnavailable):
        await ens.resolve(SITE)


@pytest.mark.parametrize("refusal", [OUT_OF_LUCK, b"", http_error(400)])
async def test_a_multicall_that_fails_as_a_whole_is_asked_one_by_one(
    ens: EnsNames, ethereum: Ethereum, refusal: bytes
) -> None:
    """A resolver of whole multicalls (ENSIP-22) may refuse both for the sake of one."""
    wrapped = selector("ResolverError(bytes)") + encode(["bytes"], [refusal])
    ethereum.names["site.eth"] = Name(
        address=WALLET, multicall_refusal=wrapped, contenthash_error=OUT_OF_LUCK
    )
    assert await ens.resolve(SITE) == Records(WALLET, reverted('with "out of luck"'))
    assert ethereum.eth_calls == 3


# -- an address that is empty is not one that is zero ---------------------------------------


async def test_an_address_that_fails_without_a_word_is_nobodys(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """INVALID, no gas left and a bare revert leave an empty element: asked alone, it has failed,
    and the owner's wallet is not told. One more round trip, in all."""
    ethereum.names["site.eth"] = Name(address_error=b"", contenthash=IPFS, owner=OWNER)
    assert await ens.resolve(SITE) == Records(reverted("without a reason"), CONTENT)
    assert ethereum.eth_calls == 4


@pytest.mark.parametrize(
    ("alone", "expected"),
    [
        (ZERO, Records(OWNER, CONTENT, True)),
        (ADDRESS, Records(WALLET, CONTENT)),
        (NO_PROFILE, Records(None, CONTENT)),
        (NOT_SUPPORTED, Records(None, CONTENT)),
        (OUT_OF_LUCK, Records(reverted('with "out of luck"'), CONTENT)),
        (
            http_error(503),
            Records(Failed(UpstreamUnavailable, "The name's off-chain gateway failed."), CONTENT),
        ),
    ],
)
async def test_asked_alone_an_empty_address_is_told_apart(
    ens: EnsNames, ethereum: Ethereum, alone: bytes, expected: Records
) -> None:
    """Only a zero is unset, and only then does the owner stand in."""
    ethereum.names["site.eth"] = Name(
        address_error=b"", address_alone=alone, contenthash=IPFS, owner=OWNER
    )
    assert await ens.resolve(SITE) == expected


@pytest.mark.parametrize(
    ("alone", "error"), [(ZERO, NameNotFound), (NO_PROFILE, NameNotFound), (b"", ResolverFailed)]
)
async def test_a_name_without_content_is_absent_only_if_its_address_is(
    ens: EnsNames, ethereum: Ethereum, alone: bytes, error: type[Exception]
) -> None:
    """We did not find out whether there is a wallet: that is not 'not found'."""
    ethereum.names["site.eth"] = Name(address_error=b"", address_alone=alone, owner=OWNER)
    with pytest.raises(error):
        await ens.resolve(SITE)
    assert ethereum.eth_calls == 2


async def test_an_old_resolver_has_no_addresses_of_other_coins(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """It leaves an empty element for `addr(node, coinType)`: no question more, and no stand-in."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, owner=OWNER, knows_coins=False)
    assert await ens.resolve(SITE, BASE) == Records(None, CONTENT)
    assert ethereum.eth_calls == 1


# -- records that are too large -------------------------------------------------------------


async def test_a_contenthash_that_is_too_large_fails_alone(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """Its owner may write what fits in a block; the wallet is told, after three calls."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=HUGE)
    assert await ens.resolve(SITE) == Records(WALLET, TOO_LARGE)
    assert ethereum.eth_calls == 3


async def test_an_address_that_is_too_large_fails_alone(ens: EnsNames, ethereum: Ethereum) -> None:
    """The content is told, and the owner's wallet is not."""
    ethereum.names["site.eth"] = Name(contenthash=IPFS, owner=OWNER, addresses={BASE: HUGE})
    assert await ens.resolve(SITE, BASE) == Records(TOO_LARGE, CONTENT)


async def test_a_node_that_floods_is_no_absence(ens: EnsNames, ethereum: Ethereum) -> None:
    """Both records are unknown: an error, and not NameNotFound."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    ethereum.misbehave("huge")
    with pytest.raises(UpstreamError):
        await ens.resolve(SITE)


@pytest.fixture
async def others() -> AsyncIterator[list[Ethereum]]:
    async with running_ethereum() as second, running_ethereum() as third:
        yield [second, third]


async def test_nodes_agree_that_a_record_is_too_large(
    outbound: HttpClient, ethereum: Ethereum, others: list[Ethereum]
) -> None:
    """With a quorum, too, it takes away nothing but itself; and no node is to blame."""
    nodes = [ethereum, *others]
    urls = [node.url for node in nodes]
    quorum = EthereumQuorum(outbound, urls, seconds=5, quorum=2)
    ens = EnsNames(quorum, universal_resolver=UNIVERSAL_RESOLVER, registry=REGISTRY)
    for node in nodes:
        node.names["site.eth"] = Name(address=WALLET, contenthash=HUGE)
        node.names["other.eth"] = Name(address=WALLET)
    for _ in range(10):
        assert await ens.resolve(SITE) == Records(WALLET, TOO_LARGE)
    assert await ens.resolve(DomainName.parse("other.eth")) == Records(WALLET)


async def test_whoever_owns_large_records_takes_no_node_from_others(
    outbound: HttpClient, ethereum: Ethereum, others: list[Ethereum]
) -> None:
    """Each lookup of such a name asks every node three times at most, and trips no breaker."""
    nodes = [ethereum, *others]
    ens = service(outbound, *nodes)
    for node in nodes:
        node.names["site.eth"] = Name(address=WALLET, contenthash=HUGE)
        node.names["other.eth"] = Name(address=WALLET)
    for _ in range(20):
        assert await ens.resolve(SITE) == Records(WALLET, TOO_LARGE)
    # Without a hedge, which a busy machine may cause: 60, 40 and 40.
    assert all(40 <= node.eth_calls <= 60 for node in nodes)
    assert await ens.resolve(DomainName.parse("other.eth")) == Records(WALLET)


# -- more records ---------------------------------------------------------------------------


async def test_a_multicall_that_fails_leaves_each_record(ens: EnsNames, ethereum: Ethereum) -> None:
    """One call for each then, some at a time; whose they are is known all the same."""
    keys = [f"key{number}" for number in range(10)]
    more = parse_record_keys(",".join(f"text.{key}" for key in keys))
    refused = selector("ResolverError(bytes)") + encode(["bytes"], [OUT_OF_LUCK])
    ethereum.names["site.eth"] = Name(
        address=WALLET,
        contenthash=IPFS,
        multicall_refusal=refused,
        texts={"key3": OUT_OF_LUCK, **dict.fromkeys(keys[4:], "x")},
    )
    records = await ens.resolve(SITE, more=more)
    assert (records.wallet, records.content) == (WALLET, CONTENT)
    assert dict(records.more) == {
        **{f"text.{key}": None for key in keys[:3]},
        "text.key3": reverted('with "out of luck"'),
        **{f"text.{key}": "x" for key in keys[4:]},
    }
    assert records.resolver is not None
    assert ethereum.eth_calls == 13


@pytest.mark.parametrize(
    "returned",
    [encode(["string"], ["x"])[:32], encode(["bytes"], [b"\xff\xfe"]), b"\xff" * 64],
)
async def test_a_text_that_is_none_has_failed(
    ens: EnsNames, ethereum: Ethereum, returned: bytes
) -> None:
    """Cut short, not UTF-8, no ABI: its resolver's doing, and never an empty text."""
    ethereum.names["site.eth"] = Name(address=WALLET, texts={"a": returned})
    records = await ens.resolve(SITE, more=parse_record_keys("text.a"))
    ((_, value),) = records.more
    assert isinstance(value, Failed)
    assert value.kind is ResolverFailed


async def test_an_address_of_ethereum_beside_another_coin(
    ens: EnsNames, ethereum: Ethereum
) -> None:
    """Silence is no address that is unset, as it is not where that address is the wallet."""
    more = parse_record_keys("addr.60,addr.700")
    ethereum.names["site.eth"] = Name(address_error=b"", addresses={700: b"\x01"})
    records = await ens.resolve(SITE, CoinType(700), more=more)
    assert records.wallet == "0x01"
    values = dict(records.more)
    assert isinstance(values["addr.60"], Failed)
    assert values["addr.700"] == "0x01"
