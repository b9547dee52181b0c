"""DNS questions, drawn: those that clients ask, and messages that nobody should send.

A question is a name of the zone below, or one near it, and any type; a mutation is a message in
which bytes were changed, cut, repeated or lied about."""

import random
from collections.abc import Iterator

import dns.edns
import dns.message
import dns.name
import dns.rdatatype

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
IPNS = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
ZONE = f"""
authority = ["demo"]

[names."site.demo"]
content = "ipfs://{CID}"

[names."moving.demo"]
content = "ipns://{IPNS}"

[names."wallet.demo"]
address = "{WALLET}"

[names."bücher.demo"]
content = "ipfs://{CID}"

[names."www.example.com"]
content = "ipfs://{CID}"
"""
SITES = ("site.demo", "moving.demo", "xn--bcher-kva.demo", "www.example.com")
LONGEST = "a" * 62 + "." + ("a" * 61 + ".") * 3 + "demo"  # 255 octets on the wire
NAMES = (
    *SITES,
    *("wallet.demo", "nobody.demo", "a.site.demo", "demo", "example.com", "site.example.org"),
    *("Site.Demo", "xn--site-.demo", "xn--a.demo", "under_score.demo", r"sp\032ace.demo"),
    *(r"dot\.ted.demo", r"\255\254.demo", "a" * 63 + ".demo", LONGEST, "."),
)
KINDS = ("TXT", "A", "AAAA", "ANY", "CNAME", "NS", "SOA", "HTTPS", "DNSKEY", "AXFR", "TYPE65280")


def questions(seed: int, number: int) -> Iterator[tuple[str, str, bool]]:
    """So many names and types, and whether DNSSEC is wanted."""
    draw = random.Random(seed)
    for _ in range(number):
        name, kind = draw.choice(NAMES), draw.choice(KINDS)
        if draw.random() < 0.5 and name not in (".", LONGEST):
            name = draw.choice(("_dnslink.", "_DNSLink.", "www.", "_dnslink._dnslink.")) + name
        if draw.random() < 0.1:
            kind = str(draw.randrange(1, 65_536))
        elif draw.random() < 0.5:
            kind = "TXT"
        yield name, kind, draw.random() < 0.3


def wire_of(name: str, kind: str = "TXT", *, wants_dnssec: bool = False, ident: int = 0) -> bytes:
    """The question as bytes."""
    number = int(kind) if kind.isdigit() else dns.rdatatype.from_text(kind)
    return dns.message.make_query(
        name, dns.rdatatype.RdataType(number), id=ident, use_edns=0, want_dnssec=wants_dnssec
    ).to_wire()


def mutated(seed: int, number: int) -> Iterator[bytes]:
    """So many messages of which most are broken somewhere."""
    draw = random.Random(seed)
    sound = [wire_of(name, kind) for name, kind, _ in questions(seed, 200)]
    padded = dns.message.make_query("_dnslink.site.demo", "TXT", use_edns=0, pad=128)
    sound.append(padded.to_wire())
    sound.append(dns.message.make_response(dns.message.make_query("site.demo", "A")).to_wire())
    for _ in range(number):
        data = bytearray(draw.choice(sound))
        for _ in range(draw.randrange(1, 5)):
            _mutate(data, draw)
        yield bytes(data[:60_000])


def _mutate(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data) + 1)
    match draw.randrange(7):
        case 0:  # one byte
            data[at : at + 1] = bytes([draw.randrange(256)])
        case 1:  # one bit
            if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
        case 2:
            del data[at:]
        case 3:
            data[at:at] = draw.randbytes(draw.randrange(1, 64))
        case 4:  # a compression pointer, often to itself or forward
            data[at : at + 2] = (0xC000 | draw.randrange(0, len(data) + 4)).to_bytes(2, "big")
        case 5:  # what the counts say
            field = 4 + 2 * draw.randrange(4)
            data[field : field + 2] = draw.choice((0, 1, 2, 0xFFFF)).to_bytes(2, "big")
        case _:  # a part of it, again
            data[at:at] = data[draw.randrange(len(data) + 1) :] * draw.randrange(1, 4)
