"""The Universal Resolver of the wrong time or place: said aloud, and never taken for absence."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from eth_abi.abi import encode
from structlog.testing import capture_logs

from content_gateway.errors import InvalidUpstreamResponse, NameNotFound
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.records import Records
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names.ens import EnsNames
from content_gateway.names.universal_resolver import Backoff, UniversalResolverCheck
from content_gateway.net.http_client import HttpClient
from tests.ethereum.nodes import work_of_ours
from tests.fakes.ethereum import REGISTRY, UNIVERSAL_RESOLVER, Ethereum, Name, Revert
from tests.fakes.miniature import Mood
from tests.samples import SITE, WALLET
from tests.waiting import until

SOON = Backoff(first=0.01, longest=0.02)
EMPTY = "0x" + "77" * 20  # nothing is deployed there


@asynccontextmanager
async def checked(
    outbound: HttpClient, ethereum: Ethereum, address: str = UNIVERSAL_RESOLVER
) -> AsyncIterator[tuple[EnsNames, UniversalResolverCheck]]:
    """ENS before a node, with the check under way."""
    rpc = EthereumRpc(outbound, [ethereum.url], seconds=5)
    check = UniversalResolverCheck(rpc, address, backoff=SOON)
    check.start()
    try:
        ens = EnsNames(rpc, universal_resolver=address, registry=REGISTRY, require=check.require)
        yield ens, check
    finally:
        await check.close()


def fault(check: UniversalResolverCheck) -> Callable[[], bool]:
    """Whether names are refused by now."""

    def is_known() -> bool:
        try:
            check.require()
        except InvalidUpstreamResponse:
            return True
        return False

    return is_known


async def test_one_of_today_is_asked_once(outbound: HttpClient, ethereum: Ethereum) -> None:
    """After one positive answer the task ends, and names are resolved."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    async with checked(outbound, ethereum) as (ens, _):
        await until(lambda: not work_of_ours(), seconds=60)
        assert await ens.resolve(SITE) == Records(WALLET)
    assert ethereum.eth_calls == 2


async def test_an_older_one_is_an_error_and_no_absence(
    outbound: HttpClient, ethereum: Ethereum
) -> None:
    """502 with words that say what to set, in the log as well, once; another address is right."""
    ethereum.is_of_today = False
    with capture_logs() as logs:
        async with checked(outbound, ethereum) as (ens, check):
            await until(fault(check), seconds=60)
            asked = ethereum.eth_calls
            with pytest.raises(InvalidUpstreamResponse, match=r"ENSIP-23.*ens\.universal_resolver"):
                await ens.resolve(SITE)
            with pytest.raises(InvalidUpstreamResponse, match=r"ens\.universal_resolver"):
                await ens.address(SITE, ETHEREUM)
            await until(lambda: ethereum.eth_calls > asked + 3, seconds=60)
            assert {data[:4].hex() for _, data in ethereum.calls} == {"01ffc9a7"}
            # It stands behind a proxy, and may be upgraded.
            ethereum.is_of_today = True
            await until(lambda: not fault(check)(), seconds=60)
            with pytest.raises(NameNotFound):
                await ens.resolve(SITE)
    assert [line["address"] for line in logs if line["log_level"] == "error"] == [
        UNIVERSAL_RESOLVER
    ]


async def test_no_contract_is_an_error(outbound: HttpClient, ethereum: Ethereum) -> None:
    """The wrong chain, or the wrong address."""
    async with checked(outbound, ethereum, EMPTY) as (ens, check):
        await until(fault(check), seconds=60)
        with pytest.raises(InvalidUpstreamResponse, match=r"no contract.*ens\.universal_resolver"):
            await ens.resolve(SITE)


async def test_a_contract_without_erc_165_is_an_error(
    outbound: HttpClient, ethereum: Ethereum
) -> None:
    """`supportsInterface` reverts, so it is not ENSIP-23's."""

    def refuse(_: bytes) -> bytes:
        raise Revert(b"")

    ethereum.contracts[EMPTY] = refuse
    async with checked(outbound, ethereum, EMPTY) as (_, check):
        await until(fault(check), seconds=60)


@pytest.mark.parametrize("mood", ["dark", "html", "500", "error", "limited", "lie"])
async def test_an_outage_at_the_start_blocks_no_name(
    outbound: HttpClient, ethereum: Ethereum, mood: Mood
) -> None:
    """While nobody can be asked nothing is held against it; it is asked until it has answered."""
    ethereum.names["site.eth"] = Name(address=WALLET)
    ethereum.misbehave(mood)
    async with checked(outbound, ethereum) as (ens, check):
        await until(lambda: ethereum.posts > 2, seconds=60)
        assert not fault(check)()
        ethereum.come_back()
        await until(lambda: not work_of_ours(), seconds=60)
        assert await ens.resolve(SITE) == Records(WALLET)


async def test_what_is_neither_yes_nor_no_is_no_answer(
    outbound: HttpClient, ethereum: Ethereum
) -> None:
    """A result that is no boolean is a broken node's: it is asked again."""
    ethereum.contracts[EMPTY] = lambda _: encode(["uint256"], [2])
    async with checked(outbound, ethereum, EMPTY) as (_, check):
        await until(lambda: ethereum.eth_calls > 2, seconds=60)
        assert not fault(check)()
