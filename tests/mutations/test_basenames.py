"""Basenames: spoilt answers of either chain, of which each knows half of a name."""

from typing import Final

import pytest

from content_gateway.model.wallet import ETHEREUM
from content_gateway.net.http_client import Answer
from tests.fakes.ethereum import Name
from tests.mutations.cases import Case, run, share
from tests.mutations.chain import Base, Chain
from tests.mutations.contents import Unreadable
from tests.mutations.meanings import (
    Heard,
    content_there,
    registered,
    wallet_alone,
    with_owner,
)
from tests.mutations.oracle import (
    Content,
    Mark,
    Said,
    Wallet,
)
from tests.mutations.rpc import spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.test_ens import CID, IPFS, KEY, KEY_NAME, OWNER, WALLET
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

TRUTHS: Final = {
    "wallet.base.eth": Said(WALLET, ("ipfs", CID)),
    "owned.base.eth": Said(OWNER, ("ipns", KEY_NAME), by_owner=True),
    "absent.base.eth": Said(),
}

STATUSES: Final = {
    "wallet.base.eth": (200,),
    "owned.base.eth": (200, 502),
    "absent.base.eth": (404, 502),
}


@pytest.fixture
def world() -> World:
    """Ethereum, which holds one wallet, and Base, which holds content and owners."""
    node, base = Chain(), Base()
    node.names["wallet.base.eth"] = Name(WALLET)
    base.names["wallet.base.eth"] = Name(contenthash=IPFS, owner=OWNER)
    node.names["owned.base.eth"] = Name()
    base.names["owned.base.eth"] = Name(contenthash=KEY, owner=OWNER)
    return World(
        {"node": node, "base": base},
        ens__rpc_urls=["http://127.0.0.1:40001"],
        basenames__rpc_urls=["http://127.0.0.1:40002"],
    )


def both(heard: Heard) -> Said | Unreadable:
    """What the two chains say together; where one cannot be read, what the other says."""
    content, owner = _on_base(heard)

    def whose() -> str | None:
        if owner is Mark.FAILED:
            raise Unreadable("the registry failed")
        return owner if isinstance(owner, str) else None

    try:
        return with_owner(wallet_alone(heard, ETHEREUM, "node"), content, ETHEREUM, whose)
    except Unreadable as nothing:
        return nothing


def _on_base(heard: Heard) -> tuple[Content, Wallet]:
    """The content, and who stands in for a wallet that is unset: each by itself."""
    resolver, owner = registered(heard, "base", "resolver"), registered(heard, "base", "owner")
    if resolver is Mark.NONE:
        return Mark.NONE, Mark.NONE
    return (Mark.FAILED if resolver is Mark.FAILED else content_there(heard, "base")), owner


@pytest.mark.parametrize("name", TRUTHS)
async def test_no_spoilt_answer_becomes_a_wrong_one(world: World, name: str) -> None:
    """Whichever of the chains' answers is spoilt: what both say together, or an error."""
    truth = TRUTHS[name]
    honest = await world.resolve(name)
    assert both(world.outbound.heard()) == truth
    assert honest.status == 404 if truth.is_absence else tells(honest, truth)
    roles = sorted(world.outbound.heard(), key=lambda role: (role.server, role.what))

    async def one(case: Case) -> int:
        target = case.rng.choice(roles)

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role == target else answer

        outcome = await world.resolve(name, spoil)
        return judge(case, outcome, both(world.outbound.heard()))

    tally = await run("basenames", name, share("basenames", of=3), one)
    # What has both a wallet and content of its own keeps one, whichever answer is spoilt.
    tally.check(*STATUSES[name])
