"""CCIP-Read: spoilt lookups, spoilt answers of gateways, spoilt answers to the callback.

Two names are kept by the same two gateways. The contract of one checks what they say, as contracts
in use do: of that name only the truth may ever be told. The other contract believes anything, so
that what its gateway says is what there is to tell."""

from collections.abc import Mapping
from typing import Final

import pytest

from content_gateway.model.wallet import ETHEREUM
from content_gateway.net.http_client import Answer
from tests.fakes.gateway import Gateway
from tests.mutations.cases import Case, run, share
from tests.mutations.chain import Chain, Offchain, give
from tests.mutations.contents import Unreadable
from tests.mutations.meanings import ELSEWHERE, meaning, with_owner
from tests.mutations.oracle import (
    Content,
    Mark,
    Said,
    Wallet,
    content_in,
    gateway_data,
    refusal,
    wallet_of,
)
from tests.mutations.rpc import respelt, spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.test_ens import CID, IPFS, WALLET
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

TRUTH: Final = Said(WALLET, ("ipfs", CID))
RESOLVE: Final = Role("node", "resolve")
CALLBACK: Final = Role("node", "resolveCallback")
ASKED: Final = ("addr", "contenthash")


@pytest.fixture
def world() -> World:
    """A node, two gateways behind each other, and a third that holds the records of nobody."""
    node, near, far = Chain(), Gateway(), Gateway()
    world = World(
        {"node": node}, {"near": near, "far": far}, ens__rpc_urls=["http://127.0.0.1:40001"]
    )
    for name, seal in (("sealed.eth", True), ("trusting.eth", False)):
        node.offchain[name] = Offchain((near.by_get, far.by_post), seal)
        for gateway in (near, far):
            give(gateway, name, WALLET, IPFS, seal=seal)
    return world


def heard_in(world: World) -> dict[Role, Answer]:
    """What was served, by node and gateways."""
    return {**world.outbound.heard(), **world.gateways.heard()}


def said_by_gateways(heard: Mapping[Role, Answer]) -> Said | Unreadable:
    """What the contract that believes anything was told: by the near gateway, or else by the far
    one, if that was asked."""
    words: dict[str, bytes | None] = {}
    for what in ASKED:
        words[what] = None
        for gateway in ("far", "near"):
            answer = heard.get(Role(gateway, what))
            if answer is None:
                continue
            try:
                words[what] = gateway_data(answer.status, answer.body)
            except Unreadable:
                continue
    address, content = words["addr"], words["contenthash"]
    # An address that was empty is asked for alone: what was heard last is the answer to that.
    is_alone = Role("node", "resolveCallback addr") in heard
    wallet: Wallet = Mark.FAILED
    if address is not None and is_alone and (not address or len(address) % 32):
        wallet = refusal(address)  # the Universal Resolver reverts with it
    elif address is not None:
        wallet = wallet_of(address, ETHEREUM, in_multicall=not is_alone)
    told: Content = Mark.FAILED
    if content is not None:
        told = content_in(content, in_multicall=True)
    try:
        return with_owner(wallet, told, ETHEREUM, lambda: None)  # nobody owns these names
    except Unreadable as nothing:
        return nothing


@pytest.mark.parametrize("name", ["sealed.eth", "trusting.eth"])
async def test_an_honest_lookup_is_told_as_it_is(world: World, name: str) -> None:
    """One lookup, two questions, one callback; respelt answers change nothing."""
    outcome = await world.resolve(name)
    assert tells(outcome, TRUTH)
    assert [exchange.role for exchange in world.outbound.served] == [RESOLVE, CALLBACK]
    assert [exchange.role for exchange in world.gateways.served] == [
        Role("near", "addr"),
        Role("near", "contenthash"),
    ]
    assert meaning(heard_in(world), what=CALLBACK.what) == TRUTH

    async def one(case: Case) -> int:
        outcome = await world.resolve(name, lambda _, answer: respelt(case, answer))
        assert tells(outcome, TRUTH)
        return outcome.status

    (await run("off-chain", f"honest {name}", share("off-chain", of=160), one)).check()


@pytest.mark.parametrize(
    "target",
    [RESOLVE, CALLBACK, *(Role("near", what) for what in ASKED)],
    ids=lambda role: role.what,
)
async def test_of_a_sealed_name_only_the_truth_is_told(world: World, target: Role) -> None:
    """Whatever is spoilt between the contract and us: the true records, one of them while the other
    has failed, or an error; absence only where the node itself says so."""

    async def one(case: Case) -> int:
        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role == target else answer

        outcome = await world.resolve("sealed.eth", spoil)
        heard = heard_in(world)
        if target.server != "node":
            return judge(case, outcome, TRUTH)
        said = meaning(heard, what=target.what)
        return judge(case, outcome, TRUTH if said == ELSEWHERE else said)

    tally = await run("off-chain", f"sealed {target.what}", share("off-chain", of=7), one)
    # What a gateway spoils is one record: the other is told.
    tally.check(200, *([502] if target.server == "node" else []))


@pytest.mark.parametrize(
    "target", [Role("near", what) for what in ASKED], ids=lambda role: role.what
)
async def test_of_a_trusting_name_what_its_gateway_says(world: World, target: Role) -> None:
    """The gateway's answer as others read it; if they cannot, the next gateway's, or an error."""

    async def one(case: Case) -> int:
        others = [exchange.answer.body for exchange in world.gateways.served]

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer, others) if role == target else answer

        outcome = await world.resolve("trusting.eth", spoil)
        return judge(case, outcome, said_by_gateways(heard_in(world)))

    tally = await run("off-chain", f"trusting {target.what}", share("off-chain", of=7), one)
    tally.check(200)


async def test_when_everything_is_spoilt_at_once_nothing_false_comes_of_it(world: World) -> None:
    """Every answer on the way, of node and gateways alike, with a mistake in about half of them."""

    async def one(case: Case) -> int:
        target = case.rng.choice((RESOLVE, CALLBACK, Role("near", "addr")))

        def spoil(role: Role, answer: Answer) -> Answer:
            if role == target or case.rng.random() < 0.4:
                return spoil_rpc(case, answer)
            return answer

        outcome = await world.resolve("sealed.eth", spoil)
        heard = heard_in(world)
        roles = [role for role in (RESOLVE, CALLBACK) if role in heard]
        # A spoilt lookup may pass for another one, so that not all that was heard is kept; the
        # truth, or a part of it, is never false.
        return judge(case, outcome, TRUTH, *(meaning(heard, what=role.what) for role in roles))

    tally = await run("off-chain", "everything", share("off-chain", of=7), one)
    tally.check(200, 502)
