"""Independent spellings for the tests: double hashes by hashlib and the `multiformats` package."""

import hashlib

import multiformats.multibase
from multiformats import CID

BASE58 = multiformats.multibase.get("base58btc")
# multicodec number and name in hashlib, each below 128: one byte as a varint
FUNCTIONS = {"sha2-256": (0x12, "sha256"), "sha2-512": (0x13, "sha512"), "sha1": (0x11, "sha1")}


def base58(data: bytes) -> str:
    """*data* in base58btc without the multibase prefix."""
    return str(BASE58.encode(data)).removeprefix("z")


def modern(text: str, function: str = "sha2-256") -> str:
    """The rule that blocks what hashes from *text*: a base58btc multihash."""
    code, name = FUNCTIONS[function]
    digest = hashlib.new(name, text.encode()).digest()
    return "//" + base58(bytes((code, len(digest))) + digest)


def legacy(text: str) -> str:
    """The same in the form of the badbits list: SHA-256 in hex."""
    return "//" + hashlib.sha256(text.encode()).hexdigest()


def bare_multihash(cid: str) -> str:
    """The multihash in *cid*, in base58btc: what a modern double hash is made of."""
    return base58(bytes(CID.decode(cid).digest))
