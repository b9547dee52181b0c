"""DNS messages: a question read from bytes or text, and the reply to it as bytes or JSON.

Knows RFC 1035, EDNS (RFC 6891), extended errors (RFC 8914) and negative answers (RFC 2308), by
dnspython, with bounds of our own that are checked before it reads anything. What is true of a name
is left to the callers; dnspython takes 120 ms to import, so that they import this late."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.rrset

A: Final = 1
TXT: Final = 16
AAAA: Final = 28
ANY: Final = 255
NOERROR: Final = 0
FORMERR: Final = 1
SERVFAIL: Final = 2
NXDOMAIN: Final = 3
NOTIMP: Final = 4
REFUSED: Final = 5
BADVERS: Final = 16

# As much as a datagram takes (DNS flag day 2020). A question has 271 bytes at most, EDNS options
# beside it a few dozen, and padding fills up to the next 128 (RFC 8467); of nothing but options
# dnspython reads 1232 bytes in two milliseconds, and 64 KiB in a tenth of a second.
MAX_QUESTION_BYTES: Final = 1232
MAX_REPLY_BYTES: Final = 65_535
# What we may be sent in one datagram, as every server says; over HTTP it limits nothing.
_PAYLOAD: Final = 1232
_HEADER: Final = struct.Struct("!HHHHHH")
_OPT: Final = b"\x00\x00\x29"  # the root, and the type of the record that EDNS is in
_IS_REPLY: Final = 0x8000
_BLOCK: Final = 468  # bytes that padded replies are a multiple of (RFC 8467 section 4.1)
_MAX_EDE_TEXT: Final = 200
_MAX_LABEL: Final = 63  # octets
_MAX_NAME_TEXT: Final = 1024  # 255 octets, each spelt in four letters
_MAX_STRING: Final = 255  # bytes of one of the strings of a TXT record
# Kinds that are no data: OPT, and 0, which is reserved; and what asks for a transfer or a key.
_NEVER_ASKED: Final = (0, 41)
_NOT_DONE: Final = range(249, 255)

Name: TypeAlias = tuple[bytes, ...]


class NoQuestion(ValueError):
    """The bytes are no DNS question: too short for a header, or the header of a reply."""


@dataclass(frozen=True, slots=True)
class DnsQuestion:
    """A question: *name* by its labels as they were sent, without the root, and the *kind* (type).

    *fault* is the code with which it must be refused, NOERROR for none; then the others may be
    empty. *message* is all that was sent, as far as it could be read."""

    message: dns.message.Message
    name: Name = ()
    kind: int = 0
    fault: int = NOERROR

    @property
    def checking_disabled(self) -> bool:
        """Whether answers are wanted that fail validation (RFC 4035)."""
        return bool(self.message.flags & dns.flags.CD)

    @property
    def wants_dnssec(self) -> bool:
        """Whether signatures are wanted (RFC 3225)."""
        return bool(self.message.ednsflags & dns.flags.DO)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an answer: *data* is the text of an address, or the bytes of a TXT record."""

    kind: int
    data: str | bytes


def parse_question(wire: bytes) -> DnsQuestion:
    """The question in *wire*, with its fault if it is none that can be answered.

    Raises NoQuestion where not even a refusal can be addressed."""
    if len(wire) < _HEADER.size:
        raise NoQuestion("It is shorter than the header of a DNS message.")
    ident, flags, *counts = _HEADER.unpack_from(wire)
    if flags & _IS_REPLY:
        raise NoQuestion("It is a reply, and not a question.")
    opcode = flags >> 11 & 0xF
    bare = dns.message.QueryMessage(ident)
    bare.flags = flags & int(dns.flags.RD | dns.flags.CD) | opcode << 11
    if opcode:
        return DnsQuestion(bare, fault=NOTIMP)
    if len(wire) > MAX_QUESTION_BYTES or counts[:3] != [1, 0, 0] or not _is_plain(wire, counts[3]):
        return DnsQuestion(bare, fault=FORMERR)
    try:
        message = dns.message.from_wire(wire)
    except (dns.exception.DNSException, ValueError):
        return DnsQuestion(bare, fault=FORMERR)
    return _question(message)


def _is_plain(wire: bytes, additional: int) -> bool:
    """Whether nothing but EDNS stands behind the question, as *additional* records.

    Of any other record dnspython would look for a module of its type, and for ever remember each
    class and type that it has none for: there are 2^32."""
    if not additional:
        return True
    at = _HEADER.size
    while at < len(wire) and 0 < wire[at] <= _MAX_LABEL:
        at += 1 + wire[at]
    return additional == 1 and wire[at + 5 : at + 8] == _OPT  # behind the root, type and class


def question_of(
    name: str, kind: str, *, wants_dnssec: bool, checking_disabled: bool
) -> DnsQuestion:
    """The question for the *kind* (a number or a mnemonic) of *name*, in letters of any script.

    ValueError, for people, where one of them is none."""
    try:
        if len(name) > _MAX_NAME_TEXT:
            raise UnicodeError("too long for a name")
        asked = dns.name.from_text(".".join(map(_ascii, name.split("."))))
    except (dns.exception.DNSException, UnicodeError) as wrong:
        raise ValueError("name is not a name of DNS.") from wrong
    try:
        number = int(kind) if kind.isascii() and kind.isdigit() else dns.rdatatype.from_text(kind)
    except (dns.exception.DNSException, ValueError):
        number = 0
    if not 0 < number <= 0xFFFF:
        raise ValueError("type is not a type of DNS: a number up to 65535, or a name such as TXT.")
    message = dns.message.make_query(
        asked, dns.rdatatype.RdataType(number), want_dnssec=wants_dnssec, use_edns=0, id=0
    )
    if checking_disabled:
        message.flags |= dns.flags.CD
    return _question(message)


def _ascii(label: str) -> str:
    """*label* as DNS has it (RFC 3492). Not by IDNA, which maps letters that ENS tells apart."""
    if label.isascii():
        return label
    if len(label) > _MAX_LABEL:  # a thousand letters of as many kinds take a fifth of a second
        raise UnicodeError("too long for a label")
    return "xn--" + label.encode("punycode").decode()


def _question(message: dns.message.Message) -> DnsQuestion:
    asked = message.question[0]
    kind, fault = int(asked.rdtype), NOERROR
    if message.edns > 0:
        fault = BADVERS
    elif kind in _NEVER_ASKED:
        fault = FORMERR
    elif asked.rdclass != dns.rdataclass.IN:
        fault = REFUSED
    elif kind in _NOT_DONE:
        fault = NOTIMP
    return DnsQuestion(message, asked.name.labels[:-1], kind, fault)


class DnsReply:
    """A reply. *ttl* is for how many seconds it may be kept, None where it may not."""

    def __init__(self, message: dns.message.Message, ttl: int | None) -> None:
        self.message = message
        self.ttl = ttl

    @cached_property
    def wire(self) -> bytes:
        """Its bytes; dns.exception.TooBig where they are more than a message may have."""
        return self.message.to_wire(max_size=MAX_REPLY_BYTES)

    @property
    def code(self) -> int:
        """Its RCODE, with the bits that are in EDNS."""
        return int(self.message.rcode())

    @property
    def json(self) -> dict[str, Any]:
        """Its members in the JSON form of the large public resolvers."""
        message = self.message
        form: dict[str, Any] = {"Status": self.code}
        for flag in ("TC", "RD", "RA", "AD", "CD"):
            form[flag] = bool(message.flags & dns.flags.Flag[flag])
        form["Question"] = [
            {"name": asked.name.to_text(), "type": int(asked.rdtype)} for asked in message.question
        ]
        for section, sets in (("Answer", message.answer), ("Authority", message.authority)):
            if sets:
                form[section] = [
                    {
                        "name": one.name.to_text(),
                        "type": int(one.rdtype),
                        "TTL": one.ttl,
                        "data": data.to_text(),
                    }
                    for one in sets
                    for data in one
                ]
        errors = [one for one in message.options if isinstance(one, dns.edns.EDEOption)]
        if errors:
            form["Comment"] = "; ".join(one.text or f"EDE {int(one.code)}" for one in errors)
        return form


def answered(question: DnsQuestion, records: Iterable[Record], ttl: int) -> DnsReply:
    """The reply with *records*, of which there is at least one, for *ttl* seconds."""
    message = _reply(question, NOERROR)
    owner = message.question[0].name
    for record in records:
        message.find_rrset(
            message.answer,
            owner,
            dns.rdataclass.IN,
            dns.rdatatype.RdataType(record.kind),
            create=True,
        ).add(_rdata(record), ttl)
    return DnsReply(message, ttl)


def nothing(question: DnsQuestion, apex: Name, ttl: int, *, exists: bool) -> DnsReply:
    """The reply that there are no such records for *ttl* seconds, or no such name unless it
    *exists*; *apex* is the zone that says so (RFC 2308)."""
    message = _reply(question, NOERROR if exists else NXDOMAIN)
    soa = dns.rdtypes.ANY.SOA.SOA(  # type: ignore[no-untyped-call]
        *(dns.rdataclass.IN, dns.rdatatype.SOA, _SERVER, _NOBODY),
        *(1, 3600, 600, 86_400, ttl),
    )
    message.authority.append(dns.rrset.from_rdata(dns.name.Name([*apex, b""]), ttl, soa))
    return DnsReply(message, ttl)


def refused(question: DnsQuestion, code: int, why: int | None = None, text: str = "") -> DnsReply:
    """The reply that refuses the question with *code*; *why* is an extended error (RFC 8914)."""
    message = _reply(question, code)
    if why is not None and message.edns >= 0:
        ede = dns.edns.EDEOption(dns.edns.EDECode(why), text[:_MAX_EDE_TEXT] or None)
        message.use_edns(0, message.ednsflags, _PAYLOAD, options=[ede], pad=message.pad)
    return DnsReply(message, None)


def forwarded(question: DnsQuestion, answer: dns.message.Message) -> DnsReply:
    """The reply that hands on *answer*, which another server gave to the same question."""
    message = _reply(question, int(answer.rcode()))
    message.flags |= answer.flags & dns.flags.AD
    message.answer, message.authority = answer.answer, answer.authority
    message.additional = answer.additional
    ttl = None
    if answer.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        # Of what is not there, be it behind an alias, the SOA says for how long (RFC 2308, 5).
        soas = [one for one in answer.authority if one.rdtype == dns.rdatatype.SOA]
        lasting = [one.ttl for one in answer.answer]
        lasting += [min(one.ttl, one[0].minimum) for one in soas]
        ttl = min(lasting, default=None)
    reply = DnsReply(message, ttl)
    try:
        len(reply.wire)
    except dns.exception.TooBig:
        return refused(question, SERVFAIL)
    return reply


_SERVER: Final = dns.name.from_text("content-gateway.invalid.")
_NOBODY: Final = dns.name.from_text("nobody.invalid.")


def _reply(question: DnsQuestion, code: int) -> dns.message.Message:
    """A reply without records: the same id and question, and EDNS if the question has it."""
    asked = question.message
    reply = dns.message.QueryMessage(asked.id)
    reply.flags = asked.flags & (dns.flags.RD | dns.flags.CD) | dns.flags.QR | dns.flags.RA
    reply.set_opcode(asked.opcode())
    reply.question = list(asked.question)
    if asked.edns >= 0:
        is_padded = any(option.otype == dns.edns.OptionType.PADDING for option in asked.options)
        reply.use_edns(0, asked.ednsflags & dns.flags.DO, _PAYLOAD, pad=_BLOCK if is_padded else 0)
    reply.set_rcode(dns.rcode.Rcode(code))
    return reply


def _rdata(record: Record) -> dns.rdata.Rdata:
    if isinstance(record.data, bytes):
        data = record.data
        strings = [data[at : at + _MAX_STRING] for at in range(0, len(data), _MAX_STRING)]
        return dns.rdtypes.ANY.TXT.TXT(dns.rdataclass.IN, dns.rdatatype.TXT, strings)
    of_kind = dns.rdtypes.IN.A.A if record.kind == A else dns.rdtypes.IN.AAAA.AAAA
    return of_kind(dns.rdataclass.IN, dns.rdatatype.RdataType(record.kind), record.data)
