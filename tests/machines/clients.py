"""Clients that add, remove, list and ask for status of a few pins at a time, and resolve names.

Each waits for its answer before it goes on, and asks any gateway. The contents in use change by and
by, so that each pin has a short history that several clients have written. What must not be
answered, whatever happens, is told to the history's reader as `wrong`."""

import asyncio
import math
import random
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from tests.machines.backends import Backend, content
from tests.machines.gateways import Gateway
from tests.machines.history import Answer, History, Kind
from tests.machines.requests import NeverSent, NoAnswer, Reply, ask

KEYS: Final = tuple(f"key-{number}" for number in range(5))
IN_USE: Final = 24  # contents
CONTENT_SECONDS: Final = 1.5  # until the oldest of them is let be, and another one comes
NAME_SECONDS: Final = 2.0  # that a name is asked for
PATIENCE: Final = 30.0  # seconds, more than any deadline of the service
_PAGE: Final = 50
_EXISTS: Final = "A pin already exists for this CID and API key"


class Clients:
    """*number* clients of *gateways*, who pause *think* seconds on the average; contents are
    numbered from *first* on.

    `outcomes` counts operations by what was asked and what came of it; `names` are those that were
    asked for, and `longest_gap` are the most seconds in which no write was answered."""

    def __init__(
        self,
        history: History,
        gateways: Sequence[Gateway],
        backend: Backend,
        *,
        seed: int,
        number: int = 16,
        think: float = 0.15,
        first: int = 0,
    ) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.names: list[str] = []
        self.longest_gap = 0.0
        self._last_write = math.inf
        self._history = history
        self._gateways = gateways
        self._backend = backend
        self._seed = seed
        self._number = number
        self._think = think
        self._contents: deque[str] = deque(maxlen=IN_USE)
        self._next = first
        self._is_over = False

    async def run(self) -> None:
        """Ask until `stop`; return once every answer has come."""
        for _ in range(IN_USE):
            self._renew()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew_contents())
            for number in range(self._number):
                group.create_task(self._client(number))

    def stop(self) -> None:
        """Begin nothing more."""
        self._is_over = True

    async def read_all(self) -> None:
        """Ask every gateway for the status of every pin, and for all lists; none may fail."""
        self._is_over = False
        turns = asyncio.Semaphore(self._number)

        async def read(gateway: Gateway, pin: tuple[str, str]) -> None:
            async with turns, asyncio.timeout(120):
                while not await self._status(gateway, *pin, by="last"):
                    await asyncio.sleep(0.1)

        async def list_(gateway: Gateway, key: str) -> None:
            async with turns, asyncio.timeout(120):
                while not await self._list(gateway, key, pages=10_000, by="last"):
                    await asyncio.sleep(0.1)

        for gateway in self._gateways:
            await asyncio.gather(*(read(gateway, pin) for pin in list(self._history.pins)))
            await asyncio.gather(*(list_(gateway, key) for key in KEYS))

    async def _renew_contents(self) -> None:
        while not self._is_over:
            await asyncio.sleep(CONTENT_SECONDS)
            self._renew()

    def _renew(self) -> None:
        cid, data = content(self._next)
        self._backend.provide(cid, data)
        self._contents.append(str(cid))
        self._next += 1

    async def _client(self, number: int) -> None:
        chance, by = random.Random(f"{self._seed}/{number}"), f"client{number}"
        while not self._is_over:
            gateway = chance.choice(self._gateways)
            key, cid = chance.choice(KEYS), chance.choice(self._contents)
            what = chance.choices(
                ("add", "remove", "status", "list", "resolve"), (30, 20, 30, 10, 10)
            )[0]
            if what in ("add", "remove"):
                await self._write(gateway, Kind(what), key, cid, by)
            elif what == "status":
                await self._status(gateway, key, cid, by)
            elif what == "list":
                pages = 10_000 if chance.random() < 0.15 else 1
                await self._list(gateway, key, pages=pages, by=by)
            else:
                await self._resolve(gateway)
            await asyncio.sleep(chance.uniform(0, 2 * self._think))

    async def _ask(
        self, what: str, gateway: Gateway, method: str, path: str, key: str
    ) -> Reply | None:
        """A reply that is right or 503; None where nobody knows. Raises NeverSent."""
        life, was_up = gateway.life, gateway.is_up
        try:
            reply = await ask(gateway.port, method, path, key, seconds=PATIENCE)
        except (NeverSent, NoAnswer) as failed:
            is_killed = not (was_up and gateway.is_up and gateway.life == life)
            word = "refused" if isinstance(failed, NeverSent) else "cut"
            self.outcomes[what, f"{word} by a gateway that was killed" if is_killed else word] += 1
            if not is_killed:
                self._wrong(f"{gateway.process} {method} {path}: {failed!r}")
            if isinstance(failed, NeverSent):
                raise
            return None
        if reply.status not in (200, 404, 503):
            self._wrong(f"{gateway.process} {method} {path}: {reply.status} {reply.body}")
        return reply

    async def _write(self, gateway: Gateway, kind: Kind, key: str, cid: str, by: str) -> None:
        begun = self._history.invoke((key, cid), kind, by)
        method, word = ("POST", "add") if kind is Kind.ADD else ("DELETE", "rm")
        try:
            reply = await self._ask(kind.value, gateway, method, f"/ipfs/pin/{word}/{cid}", key)
        except NeverSent:
            self._history.never_sent(begun)
            return
        answer, created = (Answer.UNKNOWN, "") if reply is None else _written(kind, reply)
        self._history.complete(begun, answer, created)
        if reply is not None:
            self._count(kind.value, answer, reply)
        if answer is not Answer.UNKNOWN:
            now = self._history.clock()
            self.longest_gap = max(self.longest_gap, now - self._last_write)
            self._last_write = now

    async def _status(self, gateway: Gateway, key: str, cid: str, by: str) -> bool:
        """Whether it was told."""
        begun = self._history.invoke((key, cid), Kind.READ, by)
        try:
            reply = await self._ask("status", gateway, "GET", f"/ipfs/pin/status/{cid}", key)
        except NeverSent:
            return False
        answer, created = Answer.UNKNOWN, ""
        if reply is not None:
            if reply.status == 200:
                answer, created = Answer.HELD, reply.body["result"]["timestamp"]
            elif reply.status == 404:
                answer = Answer.ABSENT
            self._count("status", answer, reply)
        self._history.complete(begun, answer, created)
        return answer is not Answer.UNKNOWN

    async def _list(self, gateway: Gateway, key: str, *, pages: int, by: str) -> bool:
        """Whether it was told; at most so many *pages* of it, newest first."""
        invoked = self._history.clock()
        found: dict[str, str] = {}
        cursor = ""
        for _ in range(pages):
            path = f"/ipfs/pin/ls?limit={_PAGE}{cursor}"
            try:
                reply = await self._ask("list", gateway, "GET", path, key)
            except NeverSent:
                return False
            if reply is None or reply.status != 200:
                if reply is not None:
                    self._count("list", Answer.UNKNOWN, reply)
                    if reply.status == 404:
                        self._wrong(f"{gateway.process} list: 404")
                return False
            for pin in reply.body["results"]:
                if pin["cid"] in found:
                    self._wrong(f"{gateway.process}: {key} has {pin['cid']} twice in a list")
                found[pin["cid"]] = pin["timestamp"]
            if "next" not in reply.body:
                self._history.listed(key, invoked, found, is_whole=True, by=by)
                break
            cursor = f"&cursor={reply.body['next']}"
        else:
            self._history.listed(key, invoked, found, is_whole=False, by=by)
        self.outcomes["list", "listed"] += 1
        return True

    async def _resolve(self, gateway: Gateway) -> None:
        """Three requests at once for the name of the moment."""
        name = f"name{int(self._history.clock() / NAME_SECONDS)}.eth"
        self.names.append(name)

        async def resolve() -> None:
            try:
                reply = await self._ask("resolve", gateway, "GET", f"/domain/resolve/{name}", "me")
            except NeverSent:
                return
            if reply is not None:
                if reply.status == 404:
                    self._wrong(f"{gateway.process}: {name} is not found")
                self.outcomes["resolve", "resolved" if reply.status == 200 else "503"] += 1

        await asyncio.gather(*(resolve() for _ in range(3)))

    def _count(self, what: str, answer: Answer, reply: Reply) -> None:
        self.outcomes[what, str(reply.status) if answer is Answer.UNKNOWN else answer.value] += 1

    def _wrong(self, what: str) -> None:
        self.wrong.append(f"{self._history.clock():.3f} {what}")


def _written(kind: Kind, reply: Reply) -> tuple[Answer, str]:
    """What a write was told, and the moment of creation that it was told."""
    body: dict[str, Any] = reply.body
    match kind, reply.status:
        case Kind.ADD, 200 if "result" in body:
            return Answer.CREATED, body["result"]["timestamp"]
        case Kind.ADD, 200 if body["message"] == _EXISTS:
            return Answer.HELD, ""
        case Kind.REMOVE, 200:
            return Answer.REMOVED, ""
        case Kind.REMOVE, 404:
            return Answer.ABSENT, ""
    return Answer.UNKNOWN, ""
