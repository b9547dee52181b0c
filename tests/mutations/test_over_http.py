"""The same over real sockets: the service as it runs, miniatures that spoil what they send.

Every answer is held against spec.yaml as well. Each spoilt answer is about a name that nobody has
asked for before, and honest ones come between, so that neither the cache nor a breaker keeps the
mistakes from being read."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.net.http_client import Answer
from tests.fakes.ethereum import Name
from tests.fakes.gateway import Gateway
from tests.fakes.miniature import Miniature, Mood, running
from tests.fakes.origin import Origin
from tests.ipns.signing import Signer, field
from tests.mutations.cases import ERRORS, Case, Tally, Wrong, run, share
from tests.mutations.chain import Chain, Offchain, give
from tests.mutations.meanings import ELSEWHERE, meaning
from tests.mutations.oracle import Said
from tests.mutations.rpc import spoil_rpc
from tests.mutations.standin import Role, Spoil, what_is_asked
from tests.mutations.test_ens import CID, IPFS, SUBJECTS, WALLET
from tests.mutations.test_ipns import CIDS, publisher_of, spoil_answer
from tests.mutations.world import Outcome, judge, tells
from tests.service import Service, running_service

pytestmark = pytest.mark.deep

TRUTH: Final = Said(WALLET, ("ipfs", CID))
MOODS: Final[tuple[Mood, ...]] = (
    "dark",
    "huge",
    "garbage",
    "cut",
    "redirect",
    "html",
    "503",
    "404",
)
BOTH: Final = Name(WALLET, IPFS)
OWNERS: Final = {"owned": ("owner",), "nobody": ("owner",), "wrapped": ("owner", "ownerOf")}
LABELS: Final = tuple(label for label in SUBJECTS if label not in ("optimism", "solana"))


class Spoiling(Miniature):
    """A server whose answers go through `spoil`; remembers what it has sent."""

    called = ""

    def __init__(self) -> None:
        super().__init__()
        self.spoil: Spoil | None = None
        self.sent: dict[Role, Answer] = {}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response: Any = await super().answer(request)
        except (ValueError, AssertionError):  # a question that it cannot read
            response = web.Response(status=500)
        role = Role(self.called, what_is_asked(request.path_qs, await request.read()))
        answer = Answer(response.status, response.content_type, bytes(response.body or b""))
        if self.spoil is not None:
            answer = self.spoil(role, answer)
        self.sent[role] = answer
        kind = {"Content-Type": answer.content_type} if answer.content_type else {}
        return web.Response(status=answer.status, body=answer.body, headers=kind)


class Node(Spoiling, Chain):
    """A node."""

    called = "node"


class Near(Spoiling, Gateway):
    """The gateway that is asked first."""

    called = "near"


class Router(Spoiling, Origin):
    """A router of IPNS records."""

    called = "router"


class Numbered(Signer):
    """An Ed25519 key of its own for each case."""

    def __init__(self, name: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
        self.protobuf = field(1, 1) + field(2, self._key.public_key().public_bytes_raw())
        self.name = self.named()


class Street:
    """The service and its neighbours."""

    def __init__(self, service: Service, node: Node, near: Near, far: Gateway, router: Router):
        self.service = service
        self.node, self.near, self.far, self.router = node, near, far, router
        self._honest = 0

    async def resolve(self, name: str, spoil: Spoil | None = None) -> Outcome:
        """The answer to a resolve request, while every neighbour spoils what it says."""
        for one in (self.node, self.near, self.router):
            one.spoil, one.sent = spoil, {}
        answer = await self.service.resolve(name)
        if answer.status != 200:
            return Outcome(answer.status)
        by_owner = answer.headers.get("content-gateway-wallet") == "owner"
        failed = answer.headers.get("content-gateway-failed", "").split(", ")
        return Outcome(200, answer.json, by_owner, frozenset(filter(None, failed)))

    @property
    def heard(self) -> dict[Role, Answer]:
        """What the neighbours have sent."""
        return {**self.node.sent, **self.near.sent, **self.router.sent}

    async def be_honest(self, after: Outcome) -> None:
        """Let two honest answers be given, and see that they come out as they are.

        Not needed where the outcome before was an answer, not an error."""
        self.node.spoil = None
        for _ in range(2 if after.status in ERRORS else 0):
            self._honest += 1
            name = f"honest-{self._honest}.eth"
            self.node.names = {name: BOTH}
            # Not held against spec.yaml: that takes longer than all the rest.
            url, key = f"{self.service.url}/domain/resolve/{name}", {"x-api-key": "me"}
            async with self.service.session.get(url, headers=key) as response:
                outcome = Outcome(response.status, await response.json())
            if not tells(outcome, TRUTH):
                raise Wrong(f"after that, an honest answer became {outcome}")


@asynccontextmanager
async def running_street(folder: Path, **chosen: Any) -> AsyncIterator[Street]:
    """The service, a node, two CCIP-Read gateways and a router, listening."""
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(running(Node()))
        near = await stack.enter_async_context(running(Near()))
        far = await stack.enter_async_context(running(Gateway()))
        router = await stack.enter_async_context(running(Router()))
        settings = {
            "ens__rpc_urls": [node.url],
            "ens__local_gateways": [near.url, far.url],
            "ipns__routers": [router.url],
            **chosen,
        }
        service = await stack.enter_async_context(running_service(folder, **settings))
        yield Street(service, node, near, far, router)


def live(work: Callable[[Street], Awaitable[Tally]], folder: Path, **chosen: Any) -> Tally:
    """What *work* makes of a street, on the event loop of the service in production."""

    async def day() -> Tally:
        async with running_street(folder, **chosen) as street:
            return await work(street)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loose: list[Any] = []
        runner.get_loop().set_exception_handler(lambda _, context: loose.append(context))
        tally = runner.run(day())
    assert not loose, loose[:3]
    return tally


async def spoilt_node(street: Street) -> Tally:
    """Answers about names on the chain, each of another name."""

    async def one(case: Case) -> int:
        label = case.rng.choice(LABELS)
        name = f"{label}-{case.name.rpartition('/')[2]}.eth"
        subject = SUBJECTS[label].name
        street.node.names = {} if subject is None else {name: subject}
        target = case.rng.choice(("resolve", *OWNERS.get(label, ())))

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role.what == target else answer

        outcome = await street.resolve(name, spoil)
        said = meaning(street.heard)
        await street.be_honest(after=outcome)
        return judge(case, outcome, said)

    return await run("http", "node", share("http", of=2), one)


async def spoilt_lookups(street: Street) -> Tally:
    """A lookup, a gateway's answer or the callback's, of a name that is sealed."""
    targets = [Role("node", "resolve"), Role("node", "resolveCallback"), Role("near", "addr")]

    async def one(case: Case) -> int:
        name = f"sealed-{case.name.rpartition('/')[2]}.eth"
        near, far = street.near, street.far
        street.node.offchain = {name: Offchain((near.by_get, far.by_post), sealed=True)}
        for gateway in (near, far):
            gateway.answers.clear()
            give(gateway, name, WALLET, IPFS, seal=True)
        target = case.rng.choice(targets)

        def spoil(role: Role, answer: Answer) -> Answer:
            return spoil_rpc(case, answer) if role == target else answer

        outcome = await street.resolve(name, spoil)
        said = meaning(street.heard, what=target.what) if target.server == "node" else TRUTH
        await street.be_honest(after=outcome)
        return judge(case, outcome, TRUTH if said == ELSEWHERE else said)

    return await run("http", "off-chain", share("http", of=4), one)


async def spoilt_records(street: Street) -> Tally:
    """Records of keys that nobody has asked for before; a task has to say the same."""

    async def one(case: Case) -> int:
        name = f"site-{case.name.rpartition('/')[2]}.eth"
        publisher = publisher_of(Numbered(case.name), v1=case.rng.random() < 0.5)
        key = publisher.signer.name
        street.router.records = {key.text: publisher.records[8]}
        contenthash = b"\xe5\x01\x01\x72" + key.multihash
        street.node.names = {name: replace(BOTH, contenthash=contenthash)}

        def spoil(role: Role, answer: Answer) -> Answer:
            if role.server != "router":
                return answer
            return spoil_answer(case, role, answer, publisher.makings)

        outcome = await street.resolve(name, spoil)
        numbers = {n for answer in street.router.sent.values() for n in publisher.genuine(answer)}
        told = [
            n
            for n in (0, *numbers)
            if tells(outcome, Said(WALLET, ("ipns", key.text)), CIDS.get(n))
        ]
        if not told:
            raise Wrong(f"{outcome} where {numbers} may be told")
        task = (await street.service.ask("POST", f"/ipns/resolve/{key}")).json["result"]
        ended = (await street.service.ask("GET", f"/ipns/result/{task['taskId']}")).json["result"]
        for result in (task, ended):
            if result.get("ipnsCache") != CIDS.get(told[0]):
                raise Wrong(f"the task says {result}")
        return told[0]

    return await run("http", "router", share("http", of=4), one)


async def moody_node(street: Street) -> Tally:
    """Connections that are dropped, floods, pages and bytes that are not HTTP; once, silence."""

    async def one(case: Case) -> int:
        mood: Mood = "hang" if case.name.endswith("/0") else case.rng.choice(MOODS)
        name = f"moody-{case.name.rpartition('/')[2]}.eth"
        street.node.names = {name: BOTH}
        street.node.misbehave(mood)
        outcome = await street.resolve(name)
        street.node.come_back()
        if outcome.status not in ERRORS or (mood == "hang" and outcome.status != 504):
            raise Wrong(f"{mood} became {outcome}")
        return outcome.status

    return await run("http", "moods", 40, one)


def test_spoilt_answers_of_a_node(tmp_path: Path) -> None:
    """A client gets what the spoilt bytes say, or the problem document of an upstream's error."""
    live(spoilt_node, tmp_path).check(200, 404, 502, 503)


def test_spoilt_answers_on_the_way_off_the_chain(tmp_path: Path) -> None:
    """Of a sealed name the truth is told, or nothing."""
    live(spoilt_lookups, tmp_path).check(200, 502)


def test_spoilt_records_of_a_router(tmp_path: Path) -> None:
    """`ipnsCache` is told for a genuine record only."""
    live(spoilt_records, tmp_path).check(0, 8)


def test_a_node_that_breaks_off_is_an_error(tmp_path: Path) -> None:
    """Whatever a connection can suffer is 502 or 503; silence is 504."""
    live(moody_node, tmp_path, ens__timeout=0.5).check(503, 504)
