"""Names while their node is dead, cold and wanted by everybody, or has a gateway that is private.

The node is a miniature on loopback; what it cannot be asked in time is a refusal, and what it has
said before serves meanwhile."""

import asyncio
import json
from collections import Counter
from typing import Final

from yarl import URL

from bench.servers import bare
from tests.ethereum.lookups import lookup
from tests.fakes.ethereum import UNIVERSAL_RESOLVER, Ethereum, Name, Revert, running_ethereum
from tests.faults.asking import Answered, ask, ask_all, connect, percentile, session
from tests.faults.ground import NOBODY, Ground
from tests.faults.row import Figure, Size
from tests.http.restarts import WALLET
from tests.net.test_ssrf_guard import FORMS
from tests.waiting import eventually

_DEAD: Final = {"full": 60.0, "short": 6.0}
_KNOWN: Final = 50
_COLD: Final = {"full": 10_000, "short": 1_000}
_KEYS: Final = 8
# One process opens ten thousand connections, which takes it longer than a look-up may take.
_PATIENT: Final = {"CONTENT_GATEWAY_NAMES__DEADLINE": "60", "CONTENT_GATEWAY_ENS__TIMEOUT": "30"}
_INTERFACES: Final = bytes.fromhex("01ffc9a7")  # supportsInterface(bytes4)


def _before(ethereum: Ethereum) -> dict[str, str]:
    return {**NOBODY, "CONTENT_GATEWAY_ENS__RPC_URLS": json.dumps([ethereum.url])}


async def a_dead_node(ground: Ground, size: Size) -> Figure:
    """Answers are fresh for a second here, so that all of them are old before a minute is over."""
    seconds, loop = _DEAD[size], asyncio.get_running_loop()
    async with running_ethereum() as ethereum:
        known = [f"known{number}.eth" for number in range(_KNOWN)]
        ethereum.names.update({name: Name(WALLET) for name in known})
        settings = {**_before(ethereum), "CONTENT_GATEWAY_NAMES__FRESH": "1"}
        async with bare() as other, ground.serving(settings) as service, session() as asking:
            resolve = f"{service.url}/domain/resolve/"
            idle = f"http://127.0.0.1:{other.port}/"
            await ask_all(asking, "GET", [resolve + name for name in known], at_once=8)
            await asyncio.sleep(1.5)
            ethereum.go_dark()
            end, number = loop.time() + seconds, 0
            served: list[Answered] = []
            refused: list[Answered] = []
            beside: list[Answered] = []  # a server that does nothing: the machine's share
            while loop.time() < end:
                served.append(await ask(asking, "GET", resolve + known[number % _KNOWN]))
                refused.append(await ask(asking, "GET", f"{resolve}other{number}.eth"))
                beside.append(await ask(asking, "GET", idle))
                number += 1
                await asyncio.sleep(0.05)
            ethereum.come_back()
            began = loop.time()

            async def is_fresh() -> bool:
                answer = await ask(asking, "GET", resolve + known[0])
                return answer.status == 200 and not _is_marked(answer)

            await eventually(is_fresh, seconds=60)
            back = loop.time() - began
    marked = sum(answer.status == 200 and _is_marked(answer) for answer in served[1:])
    late = percentile([answer.seconds for answer in refused[5:]], 99)
    bare_late = percentile([answer.seconds for answer in beside[5:]], 99)
    right = {answer.status for answer in refused} == {503}
    return Figure(
        f"dead for {seconds:.0f} s: {marked} of {len(served) - 1} answers from memory, marked;"
        f" {len(refused)} others 503, p99 {late:.0f} ms, a bare server {bare_late:.0f} ms; back"
        f" after {back:.1f} s",
        marked == len(served) - 1 and right and late - bare_late <= 50 and back <= 5,
    )


def _is_marked(answer: Answered) -> bool:
    """Whether it says that it is stale: a negative ttl (RFC 9211)."""
    return "ttl=-" in answer.headers.get("cache-status", "")


async def a_cold_name(ground: Ground, size: Size) -> Figure:
    """All connections are open and have asked before the node says anything."""
    number = _COLD[size]
    async with running_ethereum() as ethereum:
        ethereum.names["cold.eth"] = Name(WALLET)
        async with ground.serving(_before(ethereum) | _PATIENT) as service:
            ethereum.hold()
            port = URL(service.url).port
            assert port is not None
            statuses = Counter[bytes]()
            over = asyncio.Event()

            def done(single: object) -> None:
                statuses[getattr(single, "said", b"")[9:12]] += 1
                if statuses.total() == number:
                    over.set()

            singles = []
            for each in range(number):
                head = (
                    f"GET /domain/resolve/cold.eth HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                    f"x-api-key: key{each % _KEYS}\r\n\r\n"
                )
                singles.append(await connect(port, head.encode(), each, done))
            await asyncio.sleep(0.5)  # what was written is read
            ethereum.release()
            async with asyncio.timeout(90):
                await over.wait()
            for single in singles:
                single.transport.abort()
            # Beside it the service asks at its start whether the contract is the right one.
            calls = sum(b"\x04cold\x03eth" in data for _, data in ethereum.calls)
    told = ", ".join(f"{count:,} times {status.decode()}" for status, count in statuses.items())
    return Figure(
        f"{number:,} at once: {calls} look-up; {told}",
        calls == 1 and statuses[b"200"] == number,
    )


async def private_addresses(ground: Ground, size: Size) -> Figure:
    """A name for each form, whose resolver sends the service there (CCIP-Read)."""
    heard = Counter[str]()

    def listened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard["connections"] += 1
        writer.close()

    places = [
        await asyncio.start_server(listened, host, 443, reuse_address=True)
        for host in ("127.0.0.1", "::1")
    ]
    asked, left = iter(FORMS), len(FORMS)
    async with running_ethereum() as ethereum:

        def resolver(data: bytes) -> bytes:
            if data[:4] == _INTERFACES:
                return (1).to_bytes(32, "big")
            nonlocal left
            left -= 1
            url = f"https://{next(asked)}/{{data}}"
            raise Revert(lookup([url], data[:4], sender=UNIVERSAL_RESOLVER).data)

        ethereum.contracts[UNIVERSAL_RESOLVER.lower()] = resolver
        async with ground.serving(_before(ethereum)) as service, session() as asking:
            urls = [f"{service.url}/domain/resolve/form{n}.eth" for n in range(len(FORMS))]
            answers = await ask_all(asking, "GET", urls, at_once=1)
    for place in places:
        place.close()
    statuses = Counter(answer.status for answer in answers)
    told = ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items()))
    return Figure(
        f"{len(FORMS) - left} forms: {heard['connections']} connections ({told})",
        not heard and not left and set(statuses) <= {502, 503},
    )
