"""The denylist through the whole service: 451 wherever what is blocked would be served."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from content_gateway.errors import WrongSettings
from tests.contract import Answer
from tests.denylist.spelling import legacy
from tests.fakes.ethereum import Ethereum as FakeEthereum
from tests.fakes.ethereum import Name
from tests.fakes.origin import Origin as FakeOrigin
from tests.http.restarts import CID, IPFS, WALLET, serving
from tests.service import Service
from tests.waiting import eventually

CID_V0 = "QmRAQB6YaCyidP37UdDnjFY5vQuiBrcqdyoW1CuDgwxkD4"
KEY = Ed25519PrivateKey.generate()
IPNS = ipns_name(KEY)


@pytest.fixture
def denylist(tmp_path: Path) -> Path:
    path = tmp_path / "operator.deny"
    path.write_text("# nothing\n")
    return path


@pytest.fixture
def names(tmp_path: Path) -> Path:
    path = tmp_path / "names.txt"
    path.write_text("# nothing\n")
    return path


@pytest.fixture
async def service(
    tmp_path: Path, ethereum: FakeEthereum, origin: FakeOrigin, denylist: Path, names: Path
) -> AsyncIterator[Service]:
    """Three names that are served: a site, a blog behind IPNS, and an alias."""
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    ethereum.names["blog.eth"] = Name(
        address=WALLET, contenthash=bytes.fromhex("e5010172") + IPNS.multihash
    )
    ethereum.names["alias.eth"] = Name(address=WALLET)
    origin.records[IPNS.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=1)
    async with serving(
        tmp_path,
        ethereum,
        ipns__routers=[origin.url],
        denylist__content_file=denylist,
        denylist__domains_file=names,
    ) as service:
        yield service


def put(path: Path, text: str) -> None:
    """Replace the file in one step."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


async def ask(service: Service, what: str) -> Answer:
    """One of the requests that `statuses` knows."""
    operation, _, argument = what.partition(" ")
    match operation:
        case "resolve":
            return await service.resolve(argument)
        case "records":
            return await service.ask("GET", f"/domain/records/{argument}")
        case "ipns":
            return await service.ask("POST", f"/ipns/resolve/{argument}")
        case _:
            return await service.pin(argument)


EVERYTHING = [
    "resolve site.eth",
    "resolve blog.eth",
    "resolve alias.eth",
    "records site.eth",
    "records blog.eth",
    "records alias.eth",
    f"ipns {IPNS}",
    f"pin {CID}",
]


async def refused(service: Service) -> set[str]:
    """Which of the requests are 451, all others being 200; each 451 says so in the same form."""
    blocked = set()
    for what in EVERYTHING:
        answer = await ask(service, what)
        # 404: the list has freed a name since it was resolved here, so that nothing is known yet.
        assert answer.status in (200, 404, 451), (what, answer.body)
        if answer.status == 451:
            assert answer.json["code"] == "blocked"
            blocked.add(what)
    return blocked


async def becomes_refused(service: Service, expected: set[str]) -> None:
    """Wait until just the *expected* requests are refused: an edit shows within a second."""

    async def shows() -> bool:
        return await refused(service) == expected

    await eventually(shows)


@pytest.mark.parametrize("line", ["site.eth", "SITE.eth", "# why\nsite.eth # because"])
async def test_a_listed_name_is_451(service: Service, names: Path, line: str) -> None:
    """For resolve and records, however it is spelt; its content may still be pinned."""
    assert await refused(service) == set()
    put(names, line)
    await becomes_refused(service, {"resolve site.eth", "records site.eth"})
    assert (await service.resolve("SiTe.ETH")).status == 451
    put(names, "# freed")
    await becomes_refused(service, set())


async def test_a_wildcard_blocks_whatever_lies_below(service: Service, names: Path) -> None:
    """And not the name itself."""
    put(names, "*.eth")
    assert await eventually(lambda: _is(service, "resolve alias.eth", 451))
    assert (await service.resolve("a.b.site.eth")).status == 451
    put(names, "*.site.eth")
    assert await eventually(lambda: _is(service, "resolve alias.eth", 200))
    assert (await service.resolve("sub.site.eth")).status == 451
    assert (await service.resolve("site.eth")).status == 200


async def _is(service: Service, what: str, status: int) -> bool:
    return (await ask(service, what)).status == status


@pytest.mark.parametrize("rule", [f"/ipfs/{CID}", f"/ipfs/{CID_V0}", legacy(f"{CID}/")])
async def test_blocked_content_is_451_however_it_is_reached(
    service: Service, denylist: Path, rule: str
) -> None:
    """Through a name, through IPNS, by its CID in any version; also from a warm cache."""
    assert await refused(service) == set()
    put(denylist, rule)
    await becomes_refused(service, set(EVERYTHING) - {"resolve alias.eth", "records alias.eth"})
    for spelling in (CID_V0, CID.upper()):
        assert (await service.pin(spelling)).status == 451


async def test_a_blocked_key_is_451_in_every_spelling(service: Service, denylist: Path) -> None:
    """Names that point at it, and the resolution itself."""
    assert await refused(service) == set()
    put(denylist, f"/ipns/{IPNS}")
    await becomes_refused(service, {"resolve blog.eth", "records blog.eth", f"ipns {IPNS}"})


async def test_a_task_of_what_was_blocked_since_is_451(service: Service, denylist: Path) -> None:
    """The result of a resolution is served no more than its start."""
    started = (await service.ask("POST", f"/ipns/resolve/{IPNS}")).json["result"]
    path = f"/ipns/result/{started['taskId']}"
    assert (await service.ask("GET", path)).status == 200
    put(denylist, f"/ipns/{IPNS}")
    assert await eventually(lambda: _is(service, f"ipns {IPNS}", 451))
    assert (await service.ask("GET", path)).status == 451
    put(denylist, f"/ipfs/{CID}")
    assert await eventually(lambda: _is(service, "resolve site.eth", 451))
    assert (await service.ask("GET", path)).status == 451


@pytest.mark.parametrize("broken", ["/ipfs/nope\n", "", None])
async def test_a_list_that_breaks_still_blocks(
    service: Service, denylist: Path, names: Path, broken: str | None
) -> None:
    """The last good one stays until there is a better one."""
    put(denylist, f"/ipfs/{CID}")
    put(names, "alias.eth")
    await becomes_refused(service, set(EVERYTHING))
    with structlog.testing.capture_logs() as logs:
        for path in (denylist, names):
            if broken is None:
                path.unlink()
            else:
                put(path, broken)

        async def alarmed_and_still_refused() -> bool:
            assert await refused(service) == set(EVERYTHING)
            return sum("is broken" in entry["event"] for entry in logs) == 2

        await eventually(alarmed_and_still_refused)
    assert await refused(service) == set(EVERYTHING)
    put(denylist, "# freed")
    put(names, "site.eth")
    await becomes_refused(service, {"resolve site.eth", "records site.eth"})


async def test_a_blocked_name_is_looked_up_nowhere(
    tmp_path: Path, ethereum: FakeEthereum, names: Path
) -> None:
    """Nobody learns from us that somebody asked; and a key is still needed to hear 451."""
    names.write_text("site.eth")
    async with serving(tmp_path, ethereum, denylist__domains_file=names) as service:
        assert (await service.resolve("site.eth")).status == 451
        assert (await service.resolve("site.eth", key=None)).status == 401
    assert ethereum.posts == 0


@pytest.mark.parametrize("setting", ["denylist__content_file", "denylist__domains_file"])
async def test_without_its_list_the_service_does_not_start(
    tmp_path: Path, ethereum: FakeEthereum, setting: str
) -> None:
    """A path that was misspelt lets nothing through."""
    with pytest.raises(WrongSettings, match=setting.replace("__", ".")):
        async with serving(tmp_path, ethereum, **{setting: tmp_path / "missing"}):
            pass
