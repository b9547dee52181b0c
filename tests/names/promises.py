"""What every name service promises, whatever it asks: one suite of tests over all of them.

Knows the NameService port and a Bench: a service with a world around it that a test can change. How
each service's world is built is left to benches.py. A zone file is no name service: it asks nobody,
and test_zone.py has its promises."""

import asyncio
from typing import Protocol

import pytest

from content_gateway.errors import (
    InvalidCoinType,
    InvalidUpstreamResponse,
    NameNotFound,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.domain import DomainName
from content_gateway.model.records import IpfsContent, Records
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cached_services import NameService
from tests.ethereum.nodes import work_of_ours
from tests.fakes.miniature import Mood
from tests.samples import CONTENT, OWNER, WALLET

COINS = [CoinType(0), CoinType(2), CoinType(501), CoinType(0x80000000 | 8453)]
# A server that cannot be asked is unavailable, one that says something else is invalid; "hang" has
# a test of its own.
FAILURES: dict[Mood, type[UpstreamError]] = {
    "dark": UpstreamUnavailable,
    "cut": UpstreamUnavailable,
    "404": InvalidUpstreamResponse,
    "429": UpstreamUnavailable,
    "500": UpstreamUnavailable,
    "503": UpstreamUnavailable,
    "504": UpstreamUnavailable,
    "redirect": InvalidUpstreamResponse,
    "html": InvalidUpstreamResponse,
    "huge": InvalidUpstreamResponse,
    "garbage": InvalidUpstreamResponse,
    "empty": InvalidUpstreamResponse,
    "error": UpstreamUnavailable,
    "limited": UpstreamUnavailable,
    "revert": InvalidUpstreamResponse,
    "lie": InvalidUpstreamResponse,
}
PATIENCE = 30.0  # seconds; each service has a deadline of half a second


class Bench(Protocol):
    """A service under test and the world around it."""

    @property
    def service(self) -> NameService:
        """The adapter under test, which gives up on a server after half a second."""

    @property
    def name(self) -> DomainName:
        """A name that it covers, and that does not exist yet."""

    @property
    def foreign(self) -> DomainName | None:
        """A name that it does not cover; None where it covers all."""

    def put(self, wallet: str | None, content: IpfsContent | None) -> None:
        """Let the name exist from now on, with these records and nobody for its owner."""

    def misbehave(self, mood: Mood) -> None:
        """Whatever the service asks fails in this way from now on; "well" ends it."""


async def resolve(bench: Bench, coin: CoinType = ETHEREUM) -> Records:
    async with asyncio.timeout(PATIENCE):
        return await bench.service.resolve(bench.name, coin)


class Promises:
    """The suite. A test file inherits it and has a fixture `bench`."""

    @pytest.mark.parametrize(
        ("wallet", "content"), [(WALLET, CONTENT), (WALLET, None), (None, CONTENT)]
    )
    async def test_it_says_what_a_name_points_at(
        self, bench: Bench, wallet: str | None, content: IpfsContent | None
    ) -> None:
        """Wallet and content, or the one of them that is set."""
        bench.put(wallet, content)
        assert await resolve(bench) == Records(wallet, content)

    async def test_a_change_is_seen_at_once(self, bench: Bench) -> None:
        """A service keeps nothing: freshness is the directory's business."""
        bench.put(WALLET, None)
        await resolve(bench)
        bench.put(OWNER, CONTENT)
        assert await resolve(bench) == Records(OWNER, CONTENT)

    async def test_what_does_not_exist_is_not_found(self, bench: Bench) -> None:
        """Neither a name that nobody has, nor one without any record."""
        with pytest.raises(NameNotFound):
            await resolve(bench)
        bench.put(None, None)
        with pytest.raises(NameNotFound):
            await resolve(bench)

    @pytest.mark.parametrize("exists", [True, False])
    @pytest.mark.parametrize("mood", FAILURES)
    async def test_a_failure_is_neither_absence_nor_an_answer(
        self, bench: Bench, mood: Mood, exists: bool
    ) -> None:
        """However the servers fail, and whether or not there is a name; then it is found again."""
        if exists:
            bench.put(WALLET, CONTENT)
        bench.misbehave(mood)
        with pytest.raises(FAILURES[mood]):
            await resolve(bench)
        bench.misbehave("well")
        if exists:
            assert await resolve(bench) == Records(WALLET, CONTENT)

    async def test_silence_ends_at_the_deadline(self, bench: Bench) -> None:
        """A server that takes the question and never answers is a timeout."""
        bench.put(WALLET, CONTENT)
        bench.misbehave("hang")
        with pytest.raises(UpstreamTimeout):
            await resolve(bench)

    @pytest.mark.parametrize("coin", COINS, ids=str)
    async def test_a_wallet_is_never_that_of_another_coin(
        self, bench: Bench, coin: CoinType
    ) -> None:
        """An address that is not set on that chain is absent, and not Ethereum's."""
        bench.put(WALLET, CONTENT)
        try:
            records = await resolve(bench, coin)
        except InvalidCoinType:
            return  # a coin that the service does not read
        assert records == Records(None, CONTENT)

    async def test_a_caller_who_leaves_leaves_no_work_behind(self, bench: Bench) -> None:
        """A cancelled look-up ends what it has begun."""
        bench.put(WALLET, CONTENT)
        bench.misbehave("hang")
        before = work_of_ours()
        resolving = asyncio.create_task(resolve(bench))
        await asyncio.sleep(0.1)
        resolving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resolving
        assert work_of_ours() == before

    async def test_it_covers_its_names_only(self, bench: Bench) -> None:
        """So that the directory asks those who can know."""
        assert bench.service.covers(bench.name)
        if bench.foreign is not None:
            assert not bench.service.covers(bench.foreign)
