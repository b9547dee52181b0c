"""A quorum of two among three nodes, one of which spoils whatever it says: only truth comes out."""

from collections.abc import Callable

import pytest

from content_gateway.net.http_client import Answer
from tests.mutations.cases import Case, Wrong, run, share
from tests.mutations.rpc import spoil_rpc
from tests.mutations.standin import Role
from tests.mutations.test_ens import SUBJECTS, chain, honest_answers
from tests.mutations.world import World, judge, tells

pytestmark = pytest.mark.deep

NODES = ("one", "two", "three")
LABELS = ("both", "owned", "wrapped", "nobody", "unset", "absent", "refused", "failed")


def world_of(quorum: int) -> World:
    """Three nodes of one chain."""
    urls = [f"http://127.0.0.1:{port}" for port in (40_001, 40_002, 40_003)]
    servers = {name: chain() for name in NODES}
    return World(servers, ens__rpc_urls=urls, ens__quorum=quorum)


def spoilt_by(case: Case, lies: list[bytes], *liars: str) -> Callable[[Role, Answer], Answer]:
    """What the *liars* say is spoilt, or one of the *lies*; one thing at least that they say."""
    always = case.rng.choice(("eth_blockNumber", "resolve"))

    def spoil(role: Role, answer: Answer) -> Answer:
        if role.server not in liars or (role.what != always and case.rng.random() < 0.3):
            return answer
        case.note(f"{role.server}, asked for {role.what}:")
        return spoil_rpc(case, answer, lies)

    return spoil


@pytest.mark.parametrize("label", LABELS)
async def test_one_liar_of_three_changes_nothing(label: str) -> None:
    """Two honest nodes agree, and what they agree on is told: the third can neither change it nor
    keep it from anybody."""
    world = world_of(quorum=2)
    truth = SUBJECTS[label].truth
    honest = await world.resolve(f"{label}.eth")
    lies = await honest_answers(world)

    async def one(case: Case) -> int:
        liar = case.rng.choice(NODES)
        outcome = await world.resolve(f"{label}.eth", spoilt_by(case, lies, liar))
        if outcome != honest:
            raise Wrong(f"{outcome} instead of {honest}")
        return outcome.status

    tally = await run("quorum", label, share("quorum", of=10), one)
    tally.check(honest.status)
    assert truth is None or honest.status == 404 or tells(honest, truth)


@pytest.mark.parametrize("label", ["both", "absent"])
async def test_where_all_must_agree_a_liar_leaves_the_truth_or_nothing(label: str) -> None:
    """With a quorum of three one liar may keep the answer from us, and can do no more; nor can two
    who do not lie alike."""
    world = world_of(quorum=3)
    truth = SUBJECTS[label].truth
    assert truth is not None
    lies = await honest_answers(world)

    async def one(case: Case) -> int:
        liars = case.rng.sample(NODES, case.rng.choice((1, 2)))
        outcome = await world.resolve(f"{label}.eth", spoilt_by(case, lies, *liars))
        return judge(case, outcome, truth)

    tally = await run("quorum", f"all {label}", share("quorum", of=10), one)
    tally.check(502, 503)
