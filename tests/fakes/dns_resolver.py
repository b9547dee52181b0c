"""A miniature DNS resolver on loopback: TXT records and aliases, over UDP and TCP.

Answers with dnspython's messages from what it was told, follows aliases as a recursive resolver
does, and cuts an answer that the datagram cannot hold. Its moods are how DNS fails, and how it
is forged."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

Mood = Literal[
    "well",
    "silent",  # nothing is ever answered; TCP connections are taken
    "SERVFAIL",
    "REFUSED",
    "NXDOMAIN",
    "tcp only",  # every datagram is a truncated answer
    "truncated",  # so are the answers over TCP
    "garbage",  # bytes that are no message
    "wrong id",  # the answer, with another id than the question's
    "spoofed",  # the same with FORGED in it, and the true answer behind
    "wrong source",  # FORGED, with the right id, from another port; the true answer behind
    "other question",  # the answer to a question that was not asked
    "hang up",  # truncated datagrams, and TCP connections that end without a word
]
FORGED = "dnslink=/ipfs/QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"


class DnsResolver:
    """Holds TXT records and aliases by name; `heard` is every question and how it came."""

    def __init__(self) -> None:
        self.port = 0
        self.mood: Mood = "well"
        self.heard: list[tuple[str, str]] = []  # ("udp" or "tcp", name)
        self.lost = 0  # of the datagrams to come
        self.tamper: Callable[[bytes], bytes] | None = None  # applied to answers over TCP
        self._txt: dict[dns.name.Name, dns.rrset.RRset] = {}
        self._aliases: dict[dns.name.Name, dns.rrset.RRset] = {}
        self._other_port: asyncio.DatagramTransport | None = None

    def txt(self, name: str, *records: str | list[bytes], ttl: int = 300) -> None:
        """From now on *name* has these records, each of one text or of several strings.

        A text is cut into strings of 255 bytes, as zone editors do."""
        found = dns.rrset.RRset(dns.name.from_text(name), dns.rdataclass.IN, dns.rdatatype.TXT)
        for record in records:
            found.add(_txt(record), ttl)
        self._txt[found.name] = found

    def alias(self, name: str, target: str, ttl: int = 300) -> None:
        """From now on *name* is another name of *target*."""
        found = dns.rrset.from_text(name + ".", ttl, "IN", "CNAME", target + ".")
        self._aliases[found.name] = found

    def answer(self, question: dns.message.Message, *, by_tcp: bool) -> dns.message.Message:
        """What is known of the name asked for, in the present mood."""
        name, kind = question.question[0].name, question.question[0].rdtype
        self.heard.append(("tcp" if by_tcp else "udp", name.to_text(omit_final_dot=True)))
        answer = dns.message.make_response(question, recursion_available=True)
        if self.mood in ("SERVFAIL", "REFUSED", "NXDOMAIN"):
            answer.set_rcode(dns.rcode.from_text(self.mood))
            return answer
        if self.mood == "truncated" or (not by_tcp and self.mood in ("tcp only", "hang up")):
            answer.flags |= dns.flags.TC
            return answer
        while name in self._aliases and len(answer.answer) < 20:
            answer.answer.append(self._aliases[name])
            name = self._aliases[name][0].target
        if self._txt.get(name) and kind == dns.rdatatype.TXT:
            answer.answer.append(self._txt[name])
        if name not in self._txt and name not in self._aliases:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        if self.mood == "wrong id":
            answer.id ^= 1
        if self.mood == "other question":
            answer.question[0] = dns.rrset.from_text("example.net.", 0, "IN", "TXT")
        return answer

    def datagrams(self, wire: bytes) -> list[bytes]:
        """What is sent for the question *wire* that came by UDP; the last one from our port."""
        if self.lost:
            self.lost -= 1
            return []
        question = dns.message.from_wire(wire)
        answer = self.answer(question, by_tcp=False)
        if self.mood == "silent":
            return []
        if self.mood == "garbage":
            return [b"\0", wire[:2] + b"\x81\x80garbage"]
        room = question.payload if question.edns >= 0 else 512
        try:
            true = answer.to_wire(max_size=room)
        except dns.exception.TooBig:
            answer.answer.clear()
            answer.flags |= dns.flags.TC
            true = answer.to_wire()
        if self.mood not in ("spoofed", "wrong source"):
            return [true]
        forged = dns.message.make_response(question)
        forged.id ^= self.mood == "spoofed"
        name = question.question[0].name
        forged.answer.append(dns.rrset.from_rdata(name, 300, _txt(FORGED)))
        return [forged.to_wire(), true]

    def send(
        self, transport: asyncio.DatagramTransport, wire: bytes, client: tuple[Any, ...]
    ) -> None:
        """Answer one datagram."""
        *false, true = self.datagrams(wire) or [b""]
        for one in false:
            other = self._other_port if self.mood == "wrong source" else transport
            assert other is not None
            other.sendto(one, client)
        if true:
            transport.sendto(true, client)

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection with one question."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            length = int.from_bytes(await reader.readexactly(2), "big")
            question = dns.message.from_wire(await reader.readexactly(length))
            wire = self.answer(question, by_tcp=True).to_wire(max_size=65_535)
            if self.tamper is not None:
                wire = self.tamper(wire)
            if self.mood == "silent":
                await reader.read()  # until the client gives up
            elif self.mood != "hang up":
                writer.write(len(wire).to_bytes(2, "big") + wire)
                await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Listen on the same port (0: any that is free) for UDP and TCP."""
        loop = asyncio.get_running_loop()
        tcp, udp = await _bind(self, host, port)
        self._other_port, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, (host, 0)
        )
        self.port = tcp.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            udp.close()
            self._other_port.close()
            tcp.close()
            await asyncio.sleep(0)


class _Datagrams(asyncio.DatagramProtocol):
    """The UDP side of *resolver*."""

    def __init__(self, resolver: DnsResolver) -> None:
        self._resolver = resolver

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._resolver.send(self._transport, data, addr)


async def _bind(
    resolver: DnsResolver, host: str, port: int
) -> tuple[asyncio.Server, asyncio.DatagramTransport]:
    """Both sides on one port; another port is tried where only one side of it is free."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        tcp = await asyncio.start_server(resolver.serve_tcp, host, port)
        address = tcp.sockets[0].getsockname()
        try:
            udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(resolver), address)
        except OSError:
            tcp.close()
        else:
            return tcp, udp
    raise OSError("no port is free for both UDP and TCP")


def _txt(record: str | list[bytes]) -> dns.rdata.Rdata:
    strings = record if isinstance(record, list) else _cut(record.encode())
    wire = b"".join(bytes([len(one)]) + one for one in strings)
    return dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.TXT, wire, 0, len(wire))


def _cut(record: bytes) -> list[bytes]:
    return [record[at : at + 255] for at in range(0, len(record), 255)] or [b""]


@asynccontextmanager
async def running_dns(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[DnsResolver]:
    """A resolver that knows no name yet."""
    resolver = DnsResolver()
    async with resolver.listening(host, port):
        yield resolver
