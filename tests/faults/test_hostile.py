"""The real service with its default limits, beside everything that is hostile to it.

Each test runs the command in a process of its own, with a watcher on its loop, and whoever is
hostile in another: the loop is held for less than 50 ms of CPU, the memory stays below 400 MB,
and others are answered meanwhile. `pytest -s tests/faults/test_hostile.py` prints the figures."""

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from tests.backends.test_hostile_dags import empty_links
from tests.ethereum.lookups import lookup
from tests.fakes.ethereum import UNIVERSAL_RESOLVER, Ethereum, Revert
from tests.fakes.flood import flooding
from tests.fakes.origin import Origin
from tests.http.large import hold_large, sizes_of_lists
from tests.http.test_slow_readers import BLOCK, CID, pinned, readers
from tests.ipld.dags import pb
from tests.lag import MOST_LAG
from tests.ledgers import cid
from tests.net.test_http_client_hostile import HOSTILE, PROMISES
from tests.process import Running, running
from tests.waiting import eventually, until

pytestmark = pytest.mark.deep

MOST_MEMORY = 400 * 2**20
HOSTILE_GATEWAYS = 64
KEYS = ("one", "two", "three")
INTERFACES = bytes.fromhex("01ffc9a7")  # supportsInterface(bytes4)


class Watched:
    """A service under attack, whose figures are read from outside."""

    def __init__(self, service: Running, figures_file: Path) -> None:
        self.url = service.url
        self._service, self._figures = service, figures_file

    def begin(self) -> None:
        """What the start has cost is over."""
        self._service.child.send_signal(signal.SIGUSR1)
        self._figures.write_text("0 0")

    @property
    def lags(self) -> tuple[float, float]:
        """The two worst so far, in seconds of CPU, the worst last."""
        second, worst = self._figures.read_text().split()
        return float(second), float(worst)

    def check(self, attack: str) -> None:
        """Fails where the loop was held, or the memory grew.

        Each attack goes on for seconds, and what holds the loop does so again and again. One time
        passes: where a hypervisor gives the processor to somebody else, that counts as ours."""
        memory, (second, worst) = self._service.most_memory, self.lags
        print(
            f"\n{attack}: lag {worst * 1e3:.1f} ms of CPU, then {second * 1e3:.1f},"
            f" memory {memory / 2**20:.0f} MB"
        )
        assert second < MOST_LAG
        assert memory < MOST_MEMORY

    @asynccontextmanager
    async def others(self, what: str) -> AsyncIterator[None]:
        """Somebody else asks for `/version` meanwhile, from a process of its own."""
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.version_times", self.url), stdin=pipe, stdout=pipe
        )
        try:
            yield
        finally:
            said, _ = await child.communicate(b"")
        figures = json.loads(said)
        print(f"\n{what}: /version " + ", ".join(f"{k} {v:.4g}" for k, v in figures.items()))
        assert figures["asked"] > 0


@asynccontextmanager
async def watched(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Watched]:
    """`content-gateway serve` with *settings*, and the defaults for the rest."""
    figures_file = folder / "lag"
    program = [sys.executable, "-m", "tests.watched", str(figures_file)]
    chosen = {"CONTENT_GATEWAY_KEYS__MODE": "open"} | {
        f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()
    }
    async with running("serve", folder / "data", chosen, program) as service:
        await until(figures_file.exists)
        await asyncio.sleep(0.5)  # what is done once, after the start
        attacked = Watched(service, figures_file)
        attacked.begin()
        yield attacked


@asynccontextmanager
async def session_of(key: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {} if key is None else {"x-api-key": key, "Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=60),
        headers=headers,
    ) as session:
        yield session


async def statuses(
    url: str, key: str, paths: Sequence[str], method: str = "GET", at_once: int = 1_000
) -> list[int]:
    """The statuses of all *paths*, asked *at_once* by one key; 0 where the answer broke off."""
    free = asyncio.Semaphore(at_once)
    async with session_of(key) as session:

        async def one(path: str) -> int:
            async with free, session.request(method, url + path) as response:
                try:
                    await response.read()
                except aiohttp.ClientPayloadError:
                    return 0
                return response.status

        return await asyncio.gather(*(one(path) for path in paths))


async def test_hostile_off_chain_gateways(tmp_path: Path, ethereum: Ethereum) -> None:
    """Point 19: 255 names at once whose gateways send interim answers, header fields or chunks of
    one byte without end."""
    kinds = [
        (b"", PROMISES[100] * 4_000),
        (b"", PROMISES[103]),
        HOSTILE["one-byte chunks"],
        HOSTILE["header fields"],
    ]
    asked = itertools.count()
    with ExitStack() as floods:
        urls = [
            floods.enter_context(flooding(*kinds[number % len(kinds)])).url
            for number in range(HOSTILE_GATEWAYS)
        ]

        def resolver(data: bytes) -> bytes:
            if data[:4] == INTERFACES:
                return (1).to_bytes(32, "big")
            url = urls[next(asked) % len(urls)] + "/{data}"
            raise Revert(lookup([url], data[:4], sender=UNIVERSAL_RESOLVER).data)

        ethereum.contracts[UNIVERSAL_RESOLVER.lower()] = resolver
        settings = {
            "ENS__RPC_URLS": encoded([ethereum.url]),
            "ENS__LOCAL_GATEWAYS": encoded(urls),
        }
        async with watched(tmp_path, settings) as service:
            async with service.others("alone"):
                await asyncio.sleep(1)
            async with service.others("beside hostile gateways"):
                for turn in range(3):
                    names = [f"/domain/resolve/flood{turn}-{each}.eth" for each in range(255)]
                    found = await asyncio.gather(
                        *(
                            statuses(service.url, key, names[n :: len(KEYS)])
                            for n, key in enumerate(KEYS)
                        )
                    )
                    assert {status for part in found for status in part} == {502}
            service.check("hostile gateways (19)")


async def test_one_key_at_full_load(tmp_path: Path, ethereum: Ethereum, origin: Origin) -> None:
    """Point 20: 300 names that hang, 500 contents that nobody has, and 100 searches."""
    ethereum.hold()
    settings = {
        "ENS__RPC_URLS": encoded([ethereum.url]),
        "EMBEDDED__GATEWAYS": encoded([origin.url]),
    }
    async with watched(tmp_path, settings) as service:
        names = [f"/domain/resolve/hang{each}.eth" for each in range(300)]
        pins = [f"/ipfs/pin/add/{cid(each)}" for each in range(500)]
        searches = ["/psa/pins?match=ipartial&name=a&status=queued,pinning,failed"] * 100
        async with service.others("beside one key at full load"):
            found = await asyncio.gather(
                statuses(service.url, "one", names),
                statuses(service.url, "one", pins, "POST", at_once=64),
                statuses(service.url, "one", searches, at_once=64),
            )
        assert {200, 503, 504}.issuperset(status for part in found for status in part)
        service.check("one key at full load (20)")


async def test_a_dag_of_links_that_lead_nowhere(tmp_path: Path, origin: Origin) -> None:
    """Point 21: 24 MB of identity links below six roots, all of them pinned at once."""
    parts = [empty_links(seed) for seed in range(12)]
    roots = [pb(*parts, data=b"root %d" % number) for number in range(6)]
    for _, some in roots:
        origin.blocks |= some
    origin.quick_cars = True
    settings = {"EMBEDDED__GATEWAYS": encoded([origin.url]), "EMBEDDED__SERVE": "true"}
    async with watched(tmp_path, settings) as service, session_of("one") as session:

        async def are_refused() -> bool:
            reasons = []
            for root, _ in roots:
                async with session.get(f"{service.url}/ipfs/pin/status/{root}") as answer:
                    reasons.append((await answer.json())["result"].get("reason", ""))
            return all("more than 1000000 links" in reason for reason in reasons)

        async with service.others("beside a DAG of identity links"):
            adds = [f"/ipfs/pin/add/{root}" for root, _ in roots]
            assert set(await statuses(service.url, "one", adds, "POST")) == {200}
            await eventually(are_refused, seconds=60)
            cars = [f"/ipfs/{root}?format=car" for root, _ in roots]
            assert set(await statuses(service.url, "one", cars)) <= {0, 404}
        service.check("a DAG of identity links (21)")


async def test_large_pages(tmp_path: Path) -> None:
    """Point 22: 150 lists at once of pins of 46 MB in all."""
    async with LedgerDatabase(tmp_path / "data" / "ledger.sqlite") as database:
        await hold_large(SqlitePins(database, grace=0.0), OpenKeys().remembered("me").id, 1_000)
    settings = {"PINS__BACKEND": "ipfs-cluster", "IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]'}
    async with watched(tmp_path, settings) as service:
        async with service.others("beside large pages"):
            assert max(await sizes_of_lists(service.url, 150)) > 0
        service.check("large pages (22)")


async def test_readers_that_do_not_read(tmp_path: Path, origin: Origin) -> None:
    """Point 23: 600 who asked for a block or a CAR of 2 MiB, and take nothing of it."""
    origin.blocks[CID] = BLOCK
    settings = {"EMBEDDED__GATEWAYS": encoded([origin.url]), "EMBEDDED__SERVE": "true"}
    async with watched(tmp_path, settings) as service:
        await pinned(service.url)
        async with service.others("beside readers that do not read"), readers(service.url, 600):
            await asyncio.sleep(1)
        service.check("readers that do not read (23)")


def encoded(value: Sequence[str]) -> str:
    return json.dumps(value)
