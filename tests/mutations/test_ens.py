"""ENS on the chain: spoilt answers of a node, to each question that is asked about a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pytest
from eth_abi.abi import encode

from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.net.http_client import Answer
from tests.fakes.ethereum import Name, selector
from tests.mutations.cases import Case, run, share
from tests.mutations.chain import Chain
from tests.mutations.contents import Unreadable
from tests.mutations.meanings import meaning
from tests.mutations.oracle import Said
from tests.mutations.rpc import respelt, spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

WALLET: Final = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
OWNER: Final = "0x5B38Da6a701c568545dCfcB03FcB875f56beddC4"
# docs/facts/names.md, contenthash.
IPFS: Final = bytes.fromhex(
    "e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
)
CID: Final = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
KEY: Final = bytes.fromhex(
    "e50101720024080112205cbd1cc86ac20d6640795809c2a185bb2504538a2de8076da5a6971b8acb4715"
)
KEY_NAME: Final = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
DOMAIN: Final = bytes.fromhex("e5010170000f6170702e756e69737761702e6f7267")
SWARM: Final = bytes.fromhex(
    "e40101fa011b20d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162"
)
OPTIMISM: Final = CoinType(0x8000000A)
SOLANA: Final = CoinType(501)
SOLANA_ADDRESS: Final = bytes.fromhex(
    "8a11e71b96cabbe3216e3153b09694f39fc85022cbc076f79846a3ab4d8c1991"
)


@dataclass(frozen=True)
class Subject:
    """A name on the chain, the truth about it (None: ENS cannot say), and the coin asked for."""

    name: Name | None
    truth: Said | None
    coin: CoinType = ETHEREUM


def refusing(signature: str, *arguments: bytes) -> Name:
    """A name for which the Universal Resolver reverts."""
    types = signature.partition("(")[2].removesuffix(")").split(",")
    return Name(refusal=selector(signature) + encode(types, arguments))


_UNSUPPORTED: Final = selector("UnsupportedResolverProfile(bytes4)") + encode(["bytes4"], [b"abcd"])
_ERROR: Final = selector("Error(string)") + encode(["string"], ["not today"])
_WRAPPED: Final = selector("ResolverError(bytes)") + encode(["bytes"], [_ERROR])
SUBJECTS: Final[Mapping[str, Subject]] = {
    "both": Subject(Name(WALLET, IPFS), Said(WALLET, ("ipfs", CID))),
    "wallet": Subject(Name(WALLET), Said(WALLET)),
    "key": Subject(Name(WALLET, KEY), Said(WALLET, ("ipns", KEY_NAME))),
    "domain": Subject(Name(WALLET, DOMAIN), Said(WALLET, ("ipns", "app.uniswap.org"))),
    "swarm": Subject(Name(WALLET, SWARM), Said(WALLET, ("swarm", SWARM[-32:].hex()))),
    "owned": Subject(Name(None, IPFS, OWNER), Said(OWNER, ("ipfs", CID), by_owner=True)),
    "wrapped": Subject(
        Name(None, KEY, OWNER, wrapped=True), Said(OWNER, ("ipns", KEY_NAME), by_owner=True)
    ),
    "nobody": Subject(Name(None, IPFS), Said(None, ("ipfs", CID))),
    "unset": Subject(Name(None, None, OWNER), Said()),
    "absent": Subject(None, Said()),
    "profile": Subject(
        Name(WALLET, contenthash_error=_UNSUPPORTED, address_error=_UNSUPPORTED), Said()
    ),
    "refused": Subject(refusing("ResolverError(bytes)", _UNSUPPORTED), Said()),
    "failed": Subject(refusing("ResolverError(bytes)", b"\x08\xc3\x79\xa0"), None),
    "gone": Subject(
        Name(WALLET, IPFS, address_error=selector("HttpError(uint16,string)")),
        Said(None, ("ipfs", CID), failed=frozenset({"wallet"})),
    ),
    "silent": Subject(
        Name(None, IPFS, OWNER, address_error=b""),
        Said(None, ("ipfs", CID), failed=frozenset({"wallet"})),
    ),
    "alone": Subject(
        Name(None, IPFS, OWNER, address_error=b"", address_alone=bytes(32)),
        Said(OWNER, ("ipfs", CID), by_owner=True),
    ),
    "whole": Subject(
        Name(WALLET, contenthash_error=_ERROR, multicall_refusal=_WRAPPED),
        Said(WALLET, failed=frozenset({"content"})),
    ),
    "fname": Subject(
        Name(WALLET, contenthash_error=selector("ResolverFunctionNotSupported()")), Said(WALLET)
    ),
    "dns": Subject(
        Name(
            address_error=selector("CouldNotResolve(bytes)"),
            contenthash_error=selector("CouldNotResolve(bytes)"),
        ),
        Said(),
    ),
    "optimism": Subject(
        Name(WALLET, IPFS, addresses={OPTIMISM: bytes.fromhex(OWNER[2:])}),
        Said(OWNER, ("ipfs", CID)),
        OPTIMISM,
    ),
    "solana": Subject(
        Name(WALLET, addresses={SOLANA: SOLANA_ADDRESS}),
        Said("AHy6YZA8BsHgQfVkk7MbwpAN94iyN7Nf1zN4nPqUN32Q"),
        SOLANA,
    ),
}


def chain() -> Chain:
    """A node that holds all of the subjects."""
    made = Chain()
    for label, subject in SUBJECTS.items():
        if subject.name is not None:
            made.names[f"{label}.eth"] = subject.name
    return made


@pytest.fixture
def world() -> World:
    """One node."""
    return World({"node": chain()}, ens__rpc_urls=["http://127.0.0.1:40001"])


@pytest.mark.parametrize("label", SUBJECTS)
async def test_an_honest_answer_is_told_as_it_is(world: World, label: str) -> None:
    """What is spoilt below is right before: the service, the oracle and the truth agree; and the
    same answer in other words is the same answer."""
    subject = SUBJECTS[label]

    async def one(case: Case) -> int:
        spoil = None if case.name.endswith("/0") else lambda _, answer: respelt(case, answer)
        outcome = await world.resolve(f"{label}.eth", spoil, coin=subject.coin)
        found = meaning(world.outbound.heard(), subject.coin)
        if subject.truth is None:
            assert isinstance(found, Unreadable)
            assert outcome.status in (502, 503)
        else:
            assert found == subject.truth
            assert outcome.status == (404 if subject.truth.is_absence else 200)
            assert outcome.status == 404 or tells(outcome, subject.truth)
        return outcome.status

    (await run("ens", f"honest {label}", share("ens", of=24 * 20), one)).check()


@pytest.mark.parametrize("label", SUBJECTS)
async def test_no_spoilt_answer_becomes_a_wrong_one(world: World, label: str) -> None:
    """Whichever answer of the node is spoilt, and however: what comes out is what the spoilt bytes
    say, read by others, or an upstream's error; and a name is absent only if they say so."""
    subject = SUBJECTS[label]
    await world.resolve(f"{label}.eth", coin=subject.coin)
    honest = world.outbound.heard()
    roles = sorted(honest, key=lambda role: role.what, reverse=True)
    others = await honest_answers(world)

    async def one(case: Case) -> int:
        target = case.rng.choice(roles)

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer, others) if role == target else answer

        outcome = await world.resolve(f"{label}.eth", spoil, coin=subject.coin)
        return judge(case, outcome, meaning(world.outbound.heard(), subject.coin))

    tally = await run("ens", label, share("ens", of=24), one)
    tally.check(
        502, 503, *([] if subject.truth is None else [404 if subject.truth.is_absence else 200])
    )


@pytest.mark.parametrize("label", ["both", "owned", "absent"])
async def test_behind_a_spoilt_node_an_honest_one_is_asked(label: str) -> None:
    """With a second node, what comes out is what the spoilt bytes say, if they can be read, or
    else the truth."""
    subject = SUBJECTS[label]
    urls = ["http://127.0.0.1:40001", "http://127.0.0.1:40002"]
    world = World({"first": chain(), "second": chain()}, ens__rpc_urls=urls)
    await world.resolve(f"{label}.eth")
    roles = sorted(world.outbound.heard(), key=lambda role: role.what)
    told_truth = 0

    async def one(case: Case) -> int:
        nonlocal told_truth
        target = case.rng.choice(roles)

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role == target else answer

        outcome = await world.resolve(f"{label}.eth", spoil)
        assert subject.truth is not None
        said = meaning(world.outbound.heard(), ETHEREUM, "first")
        told_truth += tells(outcome, subject.truth) or outcome.status == 404
        return judge(case, outcome, said, subject.truth)

    tally = await run("ens", f"two {label}", share("ens", of=24), one)
    tally.check(404 if subject.truth == Said() else 200)
    assert told_truth > tally.ends.total() / 2


async def honest_answers(world: World) -> list[bytes]:
    """Every honest answer, for the wrong question."""
    bodies = []
    for label, subject in SUBJECTS.items():
        await world.resolve(f"{label}.eth", coin=subject.coin)
        bodies += [exchange.answer.body for exchange in world.outbound.served]
    return bodies
