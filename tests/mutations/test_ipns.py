"""IPNS: spoilt records of routers, gateways and Kubo; what is not signed changes nothing.

The oracle is liberal where ours is strict: whatever a reader might take for the signed data, the
signature and the key decides. Only where all of them are those of a genuine record, byte for byte,
may its CID come out; and no genuine record is ever gone back from."""

import base64
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, Final

import pytest
from Crypto.PublicKey import RSA
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from content_gateway.denylist.denylist import Denylist
from content_gateway.http.operations.domain_answers import resolution_body
from content_gateway.model.domain import DomainName
from content_gateway.model.records import IpnsContent, Records, StoredEntry
from content_gateway.names.cache import Cache
from content_gateway.names.directory import Directory
from content_gateway.net.http_client import Answer
from content_gateway.wiring.names import ipns_resolver
from tests.clock import let_tasks_run
from tests.fakes.origin import Origin
from tests.ipns.signing import DATA, SIGNATURE_V2, RsaSigner, Signer, data, field, when
from tests.ipns.sources import Memory as IpnsMemory
from tests.mutations.cases import Case, Wrong, run, share
from tests.mutations.changes import respell, spoil_bytes
from tests.mutations.json_changes import spoil_json
from tests.mutations.oracle import Said
from tests.mutations.record_changes import Makings, fields_of, spoil_record
from tests.mutations.standin import Role, Spoil, StandIn
from tests.mutations.test_ens import WALLET
from tests.mutations.world import Outcome, settings_of, tells
from tests.names.services import Memory, Zone

pytestmark = pytest.mark.deep

SOURCES: Final = ("router", "gateway", "kubo")
URLS: Final = {name: f"http://127.0.0.1:{40_001 + n}" for n, name in enumerate(SOURCES)}
# One CID for each sequence number; the highest record has expired.
CIDS: Final = {
    6: "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",
    7: "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4",
    8: "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
}
EXPIRED: Final = 9
FORGED: Final = b"bafkreigm3u2rncvuot5fozffe3h3qnrbgupcg2bmkb23fymnk2657fvkga"


def signed(sequence: int) -> dict[str, Any]:
    """The values that the record with this number signs."""
    until = (
        datetime(2020, 1, 1, tzinfo=UTC)
        if sequence == EXPIRED
        else datetime(2199, 1, 1, tzinfo=UTC)
    )
    path = f"/ipfs/{CIDS.get(sequence, CIDS[6])}".encode()
    return data(Sequence=sequence, Value=path, Validity=when(until))


@dataclass(frozen=True)
class Publisher:
    """A key, and its genuine records by sequence number."""

    signer: Signer
    records: Mapping[int, bytes]

    @cached_property
    def proofs(self) -> dict[tuple[Any, Any], int]:
        """Signed data and signature of each record, and its number."""
        found = {}
        for sequence, record in self.records.items():
            fields = dict(fields_of(record) or [])
            found[fields[DATA], fields[SIGNATURE_V2]] = sequence
        return found

    @cached_property
    def makings(self) -> Makings:
        """What a forger of its records has."""
        forged = signed(8) | {"Sequence": 99, "Value": b"/ipfs/" + FORGED}
        # A forger needs a key of the same kind: another one would not even be looked at.
        forger = SeededRsaSigner(6) if isinstance(self.signer, RsaSigner) else Signer(6)
        return Makings(list(self.records.values()), signed(8), forger, forged)

    def genuine(self, answer: Answer) -> set[int]:
        """The numbers of the genuine records that *answer* might be taken to hold."""
        found = set()
        for record in (answer.body, *_extras(answer.body)):
            held: dict[int, set[Any]] = {}
            for number, value in fields_of(record) or []:
                held.setdefault(number, set()).add(value)
            for (payload, signature), sequence in self.proofs.items():
                if payload in held.get(DATA, ()) and signature in held.get(SIGNATURE_V2, ()):
                    found.add(sequence)
        return found - {EXPIRED}


class SeededRsaSigner(RsaSigner):
    """An RSA key that is the same in every run, so that every case is."""

    def __init__(self, seed: int = 5) -> None:
        super().__init__()
        numbers = RSA.generate(2048, randfunc=random.Random(seed).randbytes).export_key("DER")
        key = serialization.load_der_private_key(numbers, None)
        assert isinstance(key, rsa.RSAPrivateKey)
        self._rsa = key
        der = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.protobuf = field(1, 0) + field(2, der)
        self.name = self.named()


PUBLISHERS: Final = ("ed25519", "ed25519 with v1", "rsa with v1")


def publisher_of(signer: Signer, *, v1: bool = False) -> Publisher:
    """The publisher that signs with this key."""
    return Publisher(signer, {n: signer.record(signed(n), v1=v1) for n in (6, 7, 8, EXPIRED)})


@cache
def publisher(kind: str) -> Publisher:
    """A publisher of this kind."""
    signer = SeededRsaSigner() if kind.startswith("rsa") else Signer(5)
    return publisher_of(signer, v1="v1" in kind)


class Sources:
    """A router, a gateway and a Kubo, and the service in front of them."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.name = publisher.signer.name
        self.makings = publisher.makings
        self.origins = {name: Origin() for name in SOURCES}
        for name, origin in self.origins.items():
            origin.url = URLS[name]
        self.settings = settings_of(
            ipns__routers=[URLS["router"]],
            ipns__gateways=[URLS["gateway"]],
            ipns__kubo_url=URLS["kubo"],
        )

    def hold(self, **sequences: int) -> None:
        """Let each of these sources, and no other, hold the record with that number."""
        for name, origin in self.origins.items():
            origin.records.clear()
            if name in sequences:
                origin.records[self.name.text] = self.publisher.records[sequences[name]]

    async def ask(self, spoil: Spoil, *, known: int) -> tuple[Outcome, str | None]:
        """The answer to a resolve request, and the CID that is known once all sources have spoken.

        The record with the number *known* was verified an hour ago; 0: none ever was."""
        outbound, memory = StandIn(self.origins), IpnsMemory()
        outbound.spoil = spoil
        if known:
            link = StoredEntry(f"/ipfs/{CIDS[known]}", _before(), self.publisher.records[known])
            memory.kept[self.name] = link
        resolver = ipns_resolver(self.settings, outbound, memory, Denylist(None, None))
        directory = Directory(
            local=[Zone(site=Records(WALLET, IpnsContent(self.name)))],
            services=[],
            ipns=resolver,
            denylist=Denylist(None, None),
            cache=Cache(Memory()),
        )
        try:
            resolution = await directory.resolve(DomainName.parse("site.eth"), force_refresh=True)
            await let_tasks_run()
            final = await resolver.known(self.name)
        finally:
            await resolver.close()
        outcome = Outcome(200, json.loads(resolution_body(resolution)))
        return outcome, None if final is None else str(final.cid)


def _before() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)


def _extras(body: bytes) -> Iterator[bytes]:
    """What Kubo's events hold in base64, in any line, of any type."""
    for line in body.splitlines():
        try:
            yield base64.b64decode(json.loads(line)["Extra"])
        except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
            continue


def spoil_answer(case: Case, role: Role, answer: Answer, makings: Makings) -> Answer:
    """What a source answers, with a mistake in the record or around it."""
    what, spoilt = _spoilt(case.rng, role, answer, makings)
    while spoilt == answer:  # what was changed was so before
        what, spoilt = _spoilt(case.rng, role, answer, makings)
    kind = spoilt.content_type
    case.note(f"{role.server}: {what}: {spoilt.status} {kind} {spoilt.body!r}")
    return spoilt


def _spoilt(rng: random.Random, role: Role, answer: Answer, makings: Makings) -> tuple[str, Answer]:
    dice = rng.random()
    if dice < 0.08:
        status = rng.choice((200, 204, 301, 400, 404, 406, 429, 500, 503))
        kind = rng.choice((answer.content_type, "text/html", "application/json", ""))
        body = rng.choice((answer.body, b"routing: not found", b""))
        return "http", Answer(status, kind, body)
    if dice < 0.14:
        what, body = respell(rng, answer.body)
    elif role.server != "kubo":
        what, body = spoil_record(rng, answer.body, makings)
    elif dice < 0.4:
        what, body = rng.choice((spoil_json, spoil_bytes))(rng, answer.body)
    else:
        event = json.loads(answer.body)
        what, record = spoil_record(rng, base64.b64decode(event["Extra"]), makings)
        event["Extra"] = base64.b64encode(record).decode()
        body = json.dumps(event).encode()
    return what, replace(answer, body=body)


def check(
    sources: Sources, found: tuple[Outcome, str | None], told: set[int], final: set[int]
) -> int:
    """The number of the record whose CID is in the answer, 0 for none.

    Raises Wrong unless that is one of *told*, and the one known in the end one of *final*."""
    outcome, known = found
    said = Said(WALLET, ("ipns", sources.name.text))
    if known not in {CIDS.get(number) for number in final}:
        raise Wrong(f"{known} is known where {final} may be")
    for number in told:
        if tells(outcome, said, CIDS.get(number)):
            return number
    raise Wrong(f"{outcome.body} where {told} may be told")


SITUATIONS: Final = {
    # What was known (0: nothing), who holds record 8 beside the spoilt source, and what is told.
    "alone": (7, (), (7, 8)),
    "first": (0, (), (0, 8)),
    "among others": (7, SOURCES, (8,)),
    "behind": (8, (), (8,)),
}


@pytest.mark.parametrize("kind", PUBLISHERS)
async def test_honest_sources_are_believed(kind: str) -> None:
    """What is spoilt below is right before, and each source by itself is enough."""
    sources = Sources(publisher(kind))
    for name in SOURCES:
        for known in (0, 7, 8):
            sources.hold(**{name: 8})
            found = await sources.ask(lambda _, answer: answer, known=known)
            assert check(sources, found, {8}, {8}) == 8
        sources.hold(**{name: EXPIRED})
        check(sources, await sources.ask(lambda _, answer: answer, known=7), {7}, {7})


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", PUBLISHERS)
async def test_a_spoilt_record_changes_nothing(kind: str, situation: str) -> None:
    """One source spoils what it holds: `ipnsCache` stays as it was, unless a genuine and newer
    record is still in there; and with honest sources beside it, the newest record is found."""
    sources = Sources(publisher(kind))
    known, others, ends = SITUATIONS[situation]

    async def one(case: Case) -> int:
        target = case.rng.choice(SOURCES)
        sources.hold(**dict.fromkeys((target, *others), 8))
        served: list[Answer] = []

        def spoil(role: Role, answer: Answer) -> Answer:
            if role.server != target:
                return answer
            served.append(spoil_answer(case, role, answer, sources.makings))
            return served[-1]

        found = await sources.ask(spoil, known=known)
        numbers = {number for answer in served for number in sources.publisher.genuine(answer)}
        told = {known, *(number for number in numbers if number > known)}
        return check(sources, found, told | {8} if others else told, {8} if others else told)

    tally = await run("ipns", f"{kind} {situation}", share("ipns", of=12), one)
    tally.check(*ends)
