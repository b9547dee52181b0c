"""SPACE ID: spoilt answers of Gnosis, of the registry or of the resolver behind it."""

from typing import Final

import pytest

from content_gateway.model.wallet import ETHEREUM
from content_gateway.net.http_client import Answer
from tests.fakes.ethereum import Name
from tests.fakes.gnosis import Gnosis
from tests.mutations.cases import Case, run, share
from tests.mutations.contents import Unreadable
from tests.mutations.meanings import Heard, content_there, registered, with_owner
from tests.mutations.oracle import (
    Abi,
    Mark,
    Refused,
    Said,
    Wallet,
    address_text,
    refusal,
    returned,
)
from tests.mutations.rpc import spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.test_ens import CID, IPFS, KEY, KEY_NAME, OWNER, WALLET
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

TRUTHS: Final = {
    "wallet.gno": Said(WALLET, ("ipfs", CID)),
    "both.gno": Said(WALLET, ("ipfs", CID)),
    "owned.gno": Said(OWNER, ("ipns", KEY_NAME), by_owner=True),
    "absent.gno": Said(),
}
STATUSES: Final = {
    "wallet.gno": (200, 502),
    "both.gno": (200, 502),
    "owned.gno": (200, 502),
    "absent.gno": (404, 502),
}


@pytest.fixture
def world() -> World:
    """Gnosis, which holds all of a name."""
    node = Gnosis()
    node.names["wallet.gno"] = Name(WALLET, contenthash=IPFS, owner=OWNER)
    node.names["both.gno"] = Name(
        OWNER, contenthash=IPFS, addresses={ETHEREUM: bytes.fromhex(WALLET[2:])}
    )
    node.names["owned.gno"] = Name(contenthash=KEY, owner=OWNER)
    return World({"gnosis": node}, gnosis__rpc_urls=["http://127.0.0.1:40001"])


def meaning(heard: Heard) -> Said | Unreadable:
    """What the answers say together; Unreadable where they say nothing."""
    resolver = registered(heard, "gnosis", "resolver")
    if resolver is Mark.NONE:
        return Said()
    if resolver is Mark.FAILED:
        return Unreadable("the registry failed")

    def whose() -> str | None:
        owner = registered(heard, "gnosis", "owner")
        if owner is Mark.FAILED:
            raise Unreadable("the registry failed")
        return owner if isinstance(owner, str) else None

    try:
        return with_owner(_wallet(heard), content_there(heard, "gnosis"), ETHEREUM, whose)
    except Unreadable as nothing:
        return nothing


def _wallet(heard: Heard) -> Wallet:
    """The address under Ethereum's number, and where none is there, the one without a number."""
    by_number = _address(heard, "addr by number")
    if by_number not in (Mark.NONE, Mark.ZERO, Mark.EMPTY):
        return by_number
    plain = _address(heard, "addr")
    # Every resolver has that function: silence is no word.
    return Mark.FAILED if plain is Mark.EMPTY else plain


def _address(heard: Heard, what: str) -> Wallet:
    answer = heard.get(Role("gnosis", what))
    if answer is None:
        return Mark.FAILED
    try:
        data = Abi(returned(answer.status, answer.body))
        raw = data.address() if what == "addr" else data.string()
        return address_text(ETHEREUM, raw) or Mark.ZERO
    except Unreadable:
        return Mark.FAILED
    except Refused as refused:
        return refusal(refused.data) if refused.data else Mark.EMPTY


@pytest.mark.parametrize("name", TRUTHS)
async def test_no_spoilt_answer_becomes_a_wrong_one(world: World, name: str) -> None:
    """Whichever answer is spoilt: what all of them say together, or an error."""
    truth = TRUTHS[name]
    honest = await world.resolve(name)
    assert meaning(world.outbound.heard()) == truth
    assert honest.status == 404 if truth.is_absence else tells(honest, truth)
    roles = sorted(world.outbound.heard(), key=lambda role: role.what)

    async def one(case: Case) -> int:
        target = case.rng.choice(roles)

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role == target else answer

        outcome = await world.resolve(name, spoil)
        return judge(case, outcome, meaning(world.outbound.heard()))

    tally = await run("space-id", name, share("space-id", of=4), one)
    tally.check(*STATUSES[name])
