"""The peers of one IPFS Cluster: who is asked, with which credentials, and who when one is down.

The first one is asked while it is well, then the next: what several peers write at once makes a
CRDT with many heads, which all of them must merge (fed through one, a cluster of three takes 0.9 of
the CPU per pin and pins 1.3 times as many). And all writes about a CID must go to one peer. Knows
HTTP and its refusals; what else an answer means is left to the callers."""

import hmac
import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from content_gateway.backends.cluster.status import WHO, error_message
from content_gateway.errors import (
    InvalidUpstreamResponse,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    WrongSettings,
)
from content_gateway.net.http_client import Answer, Download, HttpClient, json_object

MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
SKIP_SECONDS: Final = 5.0
OTHERS_SECONDS: Final = 2.0  # for what further peers are asked, which answer from memory
_TOKEN_SECONDS: Final = 300
_CLOCK_SKEW: Final = 60  # a token from the future is refused, so ours are a little old
_FAILURES: Final = (UpstreamUnavailable, UpstreamTimeout, InvalidUpstreamResponse)


@dataclass(frozen=True, slots=True)
class Login:
    """How we prove who we are: a ready *token*, a token signed with the password, both as Bearer,
    or user name and password themselves (Basic); an empty one is nobody."""

    username: str = ""
    password: str = ""
    token: str = ""
    jwt: bool = False

    def headers(self, now: float) -> dict[str, str]:
        """What goes with a request at *now*, seconds since 1970."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username and self.jwt:
            return {"Authorization": f"Bearer {signed_token(self.username, self.password, now)}"}
        if self.username:
            basic = b64encode(f"{self.username}:{self.password}".encode()).decode()
            return {"Authorization": f"Basic {basic}"}
        return {}

    @property
    def refused(self) -> str:
        """What to tell people when it was not accepted."""
        if self.token:
            return "The cluster refuses our token."
        if self.username:
            return "The cluster refuses our user name and password."
        return "The cluster wants a user name and password, and we have none."


def signed_token(username: str, password: str, now: float) -> str:
    """A JWT (HS256) in the name of *username*, as ipfs-cluster checks it: keyed by the password.

    Good for five minutes from *now*, seconds since 1970 (verifyToken in its api/common)."""
    issued = int(now) - _CLOCK_SKEW
    claims = {"iss": username, "iat": issued, "exp": int(now) + _TOKEN_SECONDS}
    signing = b".".join(_part(json.dumps(value).encode()) for value in (_JWT_HEAD, claims))
    signature = hmac.digest(password.encode(), signing, "sha256")
    return (signing + b"." + _part(signature)).decode()


_JWT_HEAD: Final = {"alg": "HS256", "typ": "JWT"}


def _part(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


class ClusterPeer:
    """One peer's REST API and whether it was well of late."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.name = ""  # as it calls itself, once it was asked
        self.failing = False
        self.skip_until = 0.0


class ClusterPeers:
    """All peers of a cluster that we may ask. *clock* counts seconds, *now* those since 1970."""

    def __init__(
        self,
        outbound: HttpClient,
        urls: Sequence[str],
        login: Login,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not urls:
            raise WrongSettings("ipfs_cluster.urls: at least one peer is needed.")
        self._outbound = outbound
        self._peers = [ClusterPeer(url) for url in urls]
        self._login = login
        self._seconds = seconds
        self._clock = clock
        self._now = now

    def order(self) -> list[ClusterPeer]:
        """All peers as they are to be asked, those that failed a moment ago last.

        One that failed longer ago is put back for one caller, who finds out for the others."""
        now = self._clock()
        well: list[ClusterPeer] = []
        skipped: list[ClusterPeer] = []
        for peer in self._peers:
            (skipped if peer.failing and now < peer.skip_until else well).append(peer)
        if well and well[0].failing:
            well[0].skip_until = now + SKIP_SECONDS + self._seconds
        return well + skipped

    async def ask(
        self,
        method: str,
        path: str,
        seconds: float | None = None,
        first: Collection[str] = (),
    ) -> Answer:
        """The answer of the first peer that gives one; those named in *first* before others.

        One that was reached and did not answer in time may do all the same what it was asked, and
        no other is asked meanwhile (docs/facts/pins.md, trap 6). Raises as `ask_one` does when none
        answers: what most tells people about it."""
        errors: list[UpstreamError] = []
        order = self.order()
        if first:
            await self._load_names()
            order.sort(key=lambda peer: peer.name not in first)
        for peer in order:
            try:
                return await self.ask_one(peer, method, path, seconds)
            except UpstreamTimeout:
                raise
            except _FAILURES as failed:
                errors.append(failed)
        raise most_telling(errors)

    async def _load_names(self) -> None:
        """Ask the peers what they are called, of those that have not said so yet."""
        for peer in [peer for peer in self.order() if not peer.name]:
            with suppress(*_FAILURES):
                answer = await self.ask_one(peer, "GET", "/id")
                peer.name = str(json_object(answer.body, who=WHO).get("peername", ""))

    async def ask_one(
        self, peer: ClusterPeer, method: str, path: str, seconds: float | None = None
    ) -> Answer:
        """The answer of *peer*, when it is 200, 204, 400, 404 or 500.

        Raises UpstreamUnavailable when it cannot be reached, refuses us or is not itself,
        UpstreamTimeout after *seconds*, InvalidUpstreamResponse when it does not speak HTTP."""
        try:
            answer = await self._outbound.ask(
                method,
                peer.url + path,
                seconds=seconds or self._seconds,
                max_bytes=MAX_ANSWER_BYTES,
                headers=self._login.headers(self._now()),
            )
            self._check(answer.status, answer.body)
        except _FAILURES:
            self._failed(peer)
            raise
        peer.failing = False
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, seconds: float, idle_seconds: float
    ) -> AsyncIterator[Download]:
        """The answer to a GET, as it comes, from the first peer that gives one.

        Raises as `ask_one` does, and as HttpClient.stream does while it is read."""
        errors: list[UpstreamError] = []
        for peer in self.order():
            async with AsyncExitStack() as stack:
                try:
                    stream = await stack.enter_async_context(
                        self._outbound.stream(
                            "GET",
                            peer.url + path,
                            seconds=seconds,
                            idle_seconds=idle_seconds,
                            headers=self._login.headers(self._now()),
                        )
                    )
                    self._check(stream.status, b"")
                except _FAILURES as failed:
                    self._failed(peer)
                    errors.append(failed)
                    continue
                peer.failing = False
                yield stream
                return
        raise most_telling(errors)

    def _failed(self, peer: ClusterPeer) -> None:
        peer.failing = True
        peer.skip_until = self._clock() + SKIP_SECONDS

    def _check(self, status: int, body: bytes) -> None:
        """Raises UpstreamUnavailable for what is not the cluster's answer to what was asked."""
        if status in (200, 204, 400, 404, 500):
            return
        if status in (401, 403):
            raise _PeerRefused(self._login.refused)
        if status == 429:
            raise _PeerRefused("The cluster says that it is asked too much.")
        raise _PeerRefused(
            f"The cluster answered {status}: {error_message(body) or 'no reason given'}"
        )


class _PeerRefused(UpstreamUnavailable):
    """The peer was reached, and what it said tells more than that another was not."""


def most_telling(errors: Sequence[UpstreamError]) -> UpstreamError:
    """Of the *errors* of several peers the one that says most about what to do."""
    return next((error for error in errors if isinstance(error, _PeerRefused)), errors[0])
