"""Miniatures of DNS: a nameserver on loopback, and a resolver that needs no network.

The nameserver answers one datagram with one datagram, built by dnspython; the resolver is a dict
for tests that are about what becomes of the answers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
from aiohttp.abc import AbstractResolver, ResolveResult


class Zone(AbstractResolver):
    """Answers for `names`: a list of addresses, or several of them for one lookup after another.

    The last list stands for good; a name that is not there has no address."""

    def __init__(self, names: dict[str, Sequence[str] | Sequence[Sequence[str]]]) -> None:
        self.names = names
        self.lookups: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.lookups.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError("no such name")
        if not isinstance(answers[0], str):
            answers = answers[min(self.lookups.count(host), len(answers)) - 1]
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in answers
        ]

    async def close(self) -> None:
        pass


class Nameserver(asyncio.DatagramProtocol):
    """Holds `records` as (name, type) -> lines of a zone file; `mood` says how it fails.

    What is in `authority` stands in that section of every answer."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.authority: list[dns.rrset.RRset] = []
        self.mood = "well"
        self.heard: list[tuple[str, str]] = []
        self.address = ("", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.address = transport.get_extra_info("sockname")

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = dns.message.from_wire(data)
        asked = question.question[0]
        kind = dns.rdatatype.to_text(asked.rdtype)
        self.heard.append((asked.name.to_text(), kind))
        answer = dns.message.make_response(question)
        for line in self.records.get((asked.name.to_text(), kind), []):
            owner, seconds, *rest = line.split()
            rrset = dns.rrset.from_text(owner, int(seconds), "IN", rest[0], *rest[1:])
            answer.answer.append(rrset)
        answer.authority.extend(self.authority)
        if not any(name == asked.name.to_text() for name, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        if self.mood == "silent":
            return
        if self.mood == "servfail":
            answer.set_rcode(dns.rcode.SERVFAIL)
        if self.mood == "truncated":
            answer.flags |= dns.flags.TC
        if self.mood == "another":
            answer.id ^= 1
        wire = answer.to_wire()
        self._transport.sendto(b"\xff" * 30 if self.mood == "garbage" else wire, addr)


@asynccontextmanager
async def running_nameserver() -> AsyncIterator[Nameserver]:
    """A nameserver that listens on a UDP port of loopback and knows no name yet."""
    loop = asyncio.get_running_loop()
    transport, nameserver = await loop.create_datagram_endpoint(
        Nameserver, local_addr=("127.0.0.1", 0)
    )
    try:
        yield nameserver
    finally:
        transport.close()
