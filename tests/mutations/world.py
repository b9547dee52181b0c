"""The service without its sockets: the parts as wiring/ wires them, over stand-ins for the network.

Every case gets new parts, so that no breaker, cache or in-flight request of one case is felt by the
next. What comes out is turned into a status by the same table that the API uses, and into a body by
the same code that writes it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from content_gateway.denylist.denylist import Denylist
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.http.kinds import INTERNAL
from content_gateway.http.operations.domain_answers import resolution_body, resolution_headers
from content_gateway.http.problems import kind_of
from content_gateway.model.domain import DomainName
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cache import Cache
from content_gateway.names.directory import Directory, IpnsLookup
from content_gateway.net.ssrf_guard import Guard
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import load
from content_gateway.wiring.chains import Chains
from content_gateway.wiring.names import name_services
from tests.fakes.miniature import Miniature
from tests.mutations.cases import ERRORS, Case, Wrong
from tests.mutations.contents import UNREADABLE, Unreadable
from tests.mutations.oracle import Said
from tests.mutations.standin import Spoil, StandIn
from tests.names.services import Ipns, Memory
from tests.service import OFFLINE


@dataclass(frozen=True)
class Outcome:
    """What came out: a status, and for 200 the body, whether the wallet is the owner's, and which
    records failed."""

    status: int
    body: dict[str, Any] | None = None
    by_owner: bool = False
    failed: frozenset[str] = frozenset()


class World:
    """Servers that are asked by the service as *chosen* settings have it."""

    def __init__(
        self,
        servers: Mapping[str, Miniature],
        gateways: Mapping[str, Miniature] | None = None,
        **chosen: Any,
    ) -> None:
        for port, server in enumerate([*servers.values(), *(gateways or {}).values()], 40_001):
            server.url = server.url or f"http://127.0.0.1:{port}"
        self.settings = settings_of(**chosen)
        local = [gateway.url for gateway in (gateways or {}).values()]
        self.outbound = StandIn(servers)
        self.gateways = StandIn(gateways or {}, Guard(local_gateways=local))

    async def resolve(
        self,
        name: str,
        spoil: Spoil | None = None,
        *,
        coin: CoinType = ETHEREUM,
        ipns: IpnsLookup | None = None,
    ) -> Outcome:
        """What a client gets that asks for *name*; every server's answer goes through *spoil*."""
        for outbound in (self.outbound, self.gateways):
            outbound.spoil, outbound.served = spoil, []
        chains = Chains(self.settings, self.outbound)
        services = name_services(self.settings, chains, OffchainGateways(self.gateways))
        directory = Directory(
            local=[],
            services=services,
            ipns=ipns or Ipns(),
            denylist=Denylist(None, None),
            cache=Cache(Memory()),
        )
        try:
            resolution = await directory.resolve(DomainName.parse(name), coin)
        except Exception as error:
            status = kind_of(error)[0].status
            if status == INTERNAL.status:
                raise
            return Outcome(status)
        finally:
            await directory.close()
        fields = dict(resolution_headers(resolution))
        failed = fields.get(b"content-gateway-failed", b"").decode().split(", ")
        return Outcome(
            200,
            json.loads(resolution_body(resolution)),
            fields.get(b"content-gateway-wallet") == b"owner",
            frozenset(filter(None, failed)),
        )


def settings_of(**chosen: Any) -> Settings:
    """Settings for a service with open keys and no upstreams but the *chosen* ones."""
    values = OFFLINE | {"keys.mode": "open"}
    values |= {name.replace("__", "."): value for name, value in chosen.items()}
    return load(environ={}, command_line=values).settings


def body_of(said: Said, cached: str | None = None) -> dict[str, Any]:
    """The body, but for its message, of an answer that says *said*; *cached* is the CID behind an
    IPNS name."""
    body: dict[str, Any] = {}
    if said.wallet is not None:
        body["walletAddress"] = {"type": "address", "addr": said.wallet}
    kind, text = said.content or ("", "")
    if kind == "ipfs":
        body["content"] = {"type": "ipfs", "cid": text}
    elif kind == "ipns":
        body["content"] = {"type": "ipns", "name": text}
        if cached is not None:
            body["content"]["ipnsCache"] = cached
    elif text:
        body["other"] = {"type": kind, "value": text}
    return body


def tells(outcome: Outcome, said: Said, cached: str | None = None) -> bool:
    """Whether *outcome* is a 200 that says exactly *said*."""
    if outcome.body is None:
        return False
    body = dict(outcome.body)
    message = body.pop("message")
    kind = said.content[0] if said.content else ""
    other = kind if kind not in ("ipfs", "ipns", "") else None
    if kind == UNREADABLE and body.pop("other", {}).get("type") != kind:
        return False  # as what, is not in the oracle's words
    noted = f"of the type {other}," in message if other else "of the type" not in message
    failed = outcome.failed == said.failed and all(
        (f"its {record} could not be read" in message) == (record in said.failed)
        for record in ("wallet", "content")
    )
    return body == body_of(said, cached) and outcome.by_owner == said.by_owner and noted and failed


def _parts(said: Said) -> list[Said]:
    """The same with one of its records failed; whose the name is, is told beside content only."""
    parts = []
    if said.content is not None:
        failed = said.failed | {"wallet"}
        parts.append(replace(said, wallet=None, by_owner=False, failed=failed))
    if said.wallet is not None and not said.by_owner:
        parts.append(replace(said, content=None, failed=said.failed | {"content"}))
    return parts


def judge(case: Case, outcome: Outcome, *permitted: Said | Unreadable) -> int:
    """The status, if it is right: an error that is an upstream's, or one of the *permitted* words;
    or such words but for a record of which an error is told.

    Raises Wrong for everything else."""
    if outcome.status in ERRORS:
        return outcome.status
    for said in permitted:
        if isinstance(said, Unreadable):
            continue
        if outcome.status == 404 and said.is_absence:
            return 404
        if outcome.status == 200 and any(tells(outcome, told) for told in (said, *_parts(said))):
            return 200
    case.note(f"came out: {outcome}")
    raise Wrong(f"{outcome.status} where the bytes say {permitted}")
