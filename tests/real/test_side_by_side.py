"""viem, ethers and this service beside each other, asked for names of every kind on one chain.

Each record is the same, or stands in the table with the reason for which it is not: what a
specification says, or what a client cannot tell. Contracts are ENS's own and ours on a real node;
gateways are on loopback; each client is asked in one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from eth_utils.address import to_checksum_address

from content_gateway.codecs.multiformats import BASE58BTC
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName
from tests.service import Service, running_service
from tests.world.clients import ask_client
from tests.world.ens import EnsWorld
from tests.world.ethereum import running_anvil
from tests.world.kinds import WALLET, Furnisher

Question = tuple[str, int]
FAILED = "failed"
CLIENTS = ("viem", "ethers")

_ENSIP_7 = "ENSIP-7 has any CID; ethers reads two forms of it and calls the others unsupported"
_NOT_SERVED = "ENSIP-7 has other codecs; we tell which it is in words, ethers an error or a URL"
_ENSIP_23 = "ENSIP-23: an error is no absence; ethers takes every revert for 'not set'"
_EMPTY = "ENSIP-23: a function that is missing returns nothing, which is 'not set'; not to ethers"
_NOT_IMPLEMENTED = (
    "what ENS's own resolvers revert with where ENSIP-23 has UnsupportedResolverProfile"
)
_COULD_NOT = "CouldNotResolve(bytes): there is no such record in DNS, which is absence; not to viem"
_LABEL = "ENSIP-10: a label of more than 255 bytes cannot be written; invalid here, absent to them"
# Where two differ: the name, who differs, in which record, and why. The name is a pattern.
EXPLAINED = [
    ("old.eth", "ethers", "content", _EMPTY),
    ("content-ipfs-raw.eth", "ethers", "content", _ENSIP_7),
    ("content-ipfs-of-key.eth", "ethers", "content", _ENSIP_7),
    ("content-dnslink.eth", "ethers", "content", _ENSIP_7),
    ("content-swarm.eth", "ethers", "content", _NOT_SERVED),
    ("content-arweave.eth", "ethers", "content", _NOT_SERVED),
    ("content-skynet.eth", "ethers", "content", _NOT_SERVED),
    ("content-onion.eth", "ethers", "content", _NOT_SERVED),
    ("content-garbage.eth", "ethers", "content", _NOT_SERVED),
    ("content-ipfs-cut.eth", "ethers", "content", _NOT_SERVED),
    ("plain.eth/0", "viem", "address", "ENSIP-9: the script has a text form; viem gives it raw"),
    ("plain.eth/0", "ethers", "address", "ENSIP-9: ethers has no bitcoin without a plugin"),
    ("f" * 256 + ".eth", "viem", "address", _LABEL),
    ("f" * 256 + ".eth", "ethers", "*", _LABEL),
    ("*address-error-string.eth", "ethers", "address", _ENSIP_23),
    ("*address-invalid.eth", "ethers", "address", _ENSIP_23),
    ("*address-out-of-gas.eth", "ethers", "address", _ENSIP_23),
    ("*contenthash-error-string.eth", "ethers", "content", _ENSIP_23),
    ("both-error-string.eth", "ethers", "*", _ENSIP_23),
    ("distrustful.eth", "ethers", "*", _ENSIP_23),
    ("text-wrong.com", "ethers", "*", _ENSIP_23),
    ("*contenthash-bare.eth", "ethers", "content", _EMPTY),
    ("winding-0.eth", "ethers", "*", _EMPTY),
    ("*address-not-implemented.eth", "viem", "address", _NOT_IMPLEMENTED),
    ("text-none.com", "viem", "address", _COULD_NOT),
    ("text-other.com", "viem", "address", _COULD_NOT),
    ("offchain-refused.eth", "viem", "address", "EIP-3668: 4xx ends the search; viem goes on"),
    (
        "offchain-uneven.eth",
        "*",
        "*",
        "ENSIP-23: a length that is no whole number of words is an error",
    ),
    ("winding-6.eth", "ethers", "*", "EIP-3668 wants a limit and recommends 4; ethers follows 10"),
]


@dataclass(frozen=True)
class Said:
    """What one of the three says of a name: records by "address" and "content", where it can.

    A record is text in our spelling, None where it is not set, or FAILED."""

    records: dict[str, str | None]
    words: str


@dataclass(frozen=True)
class Sides:
    """Everybody's answers, in the order of the questions."""

    questions: list[Question]
    ours: list[Said]
    theirs: dict[str, list[Said]]

    def of(self, name: str, coin: int = 60) -> Said:
        """What we say of a name."""
        return self.ours[self.questions.index((name, coin))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sides(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sides]:
    async with AsyncExitStack() as stack:
        directory = tmp_path_factory.mktemp("sides")
        anvil = await stack.enter_async_context(running_anvil(directory))
        kinds = await Furnisher(anvil, await EnsWorld.deploy(anvil), stack).all()
        service = await stack.enter_async_context(
            running_service(
                directory / "service",
                ens__rpc_urls=[anvil.url],
                ens__local_gateways=kinds.gateways,
                ens__timeout=30,
                names__deadline=60,
            )
        )
        ours, viem, ethers = await asyncio.gather(
            _ask_us(service, kinds.questions),
            ask_client("viem", anvil.url, kinds.questions),
            ask_client("ethers", anvil.url, kinds.questions),
        )
        theirs = {"viem": [*map(_theirs, viem)], "ethers": [*map(_theirs, ethers)]}
        yield Sides(kinds.questions, ours, theirs)


async def _ask_us(service: Service, questions: list[Question]) -> list[Said]:
    at_once = asyncio.Semaphore(4)

    async def ask(name: str, coin: int) -> Said:
        async with at_once:
            answer = await service.resolve(f"{quote(name)}?coinType={coin}")
        return _ours(answer.status, answer.headers, answer.json)

    return await asyncio.gather(*(ask(*question) for question in questions))


def _ours(status: int, headers: Any, body: Any) -> Said:
    words = f"{status} {body.get('message')}"
    if status == 404:
        return Said({"address": None, "content": None}, words)
    if status != 200:
        return Said({"address": FAILED, "content": FAILED}, words)
    failed = headers.get("content-gateway-failed", "")
    wallet, content = body.get("walletAddress", {}).get("addr"), body.get("content")
    if headers.get("content-gateway-wallet") == "owner":
        wallet = None  # which no client tells, as it is no record
    text = content and f"{content['type']}://{content.get('cid') or content['name']}"
    records = {
        "address": FAILED if "wallet" in failed else wallet,
        "content": FAILED if "content" in failed else text,
    }
    return Said(records, words)


def _theirs(answer: dict[str, Any]) -> Said:
    return Said({record: _spelt(value) for record, value in answer.items()}, str(answer))


def _spelt(value: Any) -> str | None:
    """A client's word for a record as we spell it; a failure, an invalid name too, is FAILED."""
    if isinstance(value, dict):
        return FAILED
    if not isinstance(value, str):
        return None
    scheme, _, rest = value.partition("://")
    if scheme == "ipfs":
        return f"ipfs://{Cid.parse(rest)}"
    if scheme == "ipns":  # a bare multihash
        return f"ipns://{IpnsName.from_multihash(BASE58BTC.decode(rest)).text}"
    return to_checksum_address(value) if value[:2] == "0x" and len(value) == 42 else value


def _differences(sides: Sides) -> list[tuple[str, str, str, str]]:
    """Name, client, record and both answers, wherever they are not the same."""
    found = []
    for client, answers in sides.theirs.items():
        for (name, coin), mine, other in zip(sides.questions, sides.ours, answers, strict=True):
            asked = name if coin == 60 else f"{name}/{coin}"
            for record, value in other.records.items():
                if value != mine.records[record]:
                    found.append((asked, client, record, f"{mine} / {other}"))
    return found


def _explains(entry: tuple[str, str, str, str], difference: tuple[str, str, str, str]) -> bool:
    return all(
        fnmatchcase(value, pattern)
        for pattern, value in zip(entry[:3], difference[:3], strict=True)
    )


async def test_we_say_what_viem_and_ethers_say(sides: Sides) -> None:
    """For every name, or for a reason that stands in the table; and no reason is left over."""
    assert len({name for name, _ in sides.questions}) >= 60
    differences = _differences(sides)
    surprising = [
        one for one in differences if not any(_explains(entry, one) for entry in EXPLAINED)
    ]
    assert surprising == []
    left_over = [
        entry for entry in EXPLAINED if not any(_explains(entry, one) for one in differences)
    ]
    assert left_over == []


@pytest.mark.parametrize(
    "kind",
    ["get", "post", "second", "fifth", "gzip", "proof", "large", "multicall"],
)
async def test_what_a_gateway_holds_is_told(sides: Sides, kind: str) -> None:
    """However it sends it, and whichever of its URLs has it: all three have both records."""
    name = f"offchain-{kind}.eth"
    said = sides.of(name)
    assert said.words == "200 Domain resolved"
    assert said.records["address"] == WALLET
    at = sides.questions.index((name, 60))
    for client in CLIENTS:
        assert sides.theirs[client][at].records["address"] == WALLET


@pytest.mark.parametrize(
    ("kind", "status"),
    [("refused", 502), ("failing", 503), ("hanging", 504), ("unknown", 502), ("nobody", 503)],
)
async def test_a_gateway_that_fails_is_no_absence(sides: Sides, kind: str, status: int) -> None:
    """Whose fault it was is the status: it refused, it failed, or it did not answer in time."""
    assert sides.of(f"offchain-{kind}.eth").words.startswith(str(status))
