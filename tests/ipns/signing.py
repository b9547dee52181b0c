"""IPNS publishers of our own making: keys, names and records, right and wrong ones.

Writes protobuf by hand and names with the `multiformats` package, straight from ipfs/specs
`ipns-record.md`; shares no code with what it is used to test, the demonstration's publisher
included."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import cbor2
import multiformats
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.model.ipns_name import IpnsName
from tests.clock import NOW

LATER = NOW + timedelta(hours=48)
PATH = b"/ipfs/bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
VALUE, SIGNATURE_V1, VALIDITY_TYPE, VALIDITY, SEQUENCE, TTL, PUBLIC_KEY, SIGNATURE_V2, DATA = range(
    1, 10
)

CURVES = (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())

Fields = Mapping[int, bytes | int | None]
NO_CHANGE: Fields = MappingProxyType({})


def uvarint(number: int) -> bytes:
    """A protobuf varint."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + uvarint(rest) if rest else bytes([low])


def field(number: int, value: bytes | int) -> bytes:
    """One protobuf field."""
    if isinstance(value, int):
        return uvarint(number << 3) + uvarint(value)
    return uvarint(number << 3 | 2) + uvarint(len(value)) + value


def when(moment: datetime) -> bytes:
    """*moment* as Kubo writes it: RFC 3339 with nanoseconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()


def data(**changes: Any) -> dict[str, Any]:
    """What a publisher signs; *changes* replace values, None leaves one out."""
    values = {
        "Value": PATH,
        "ValidityType": 0,
        "Validity": when(LATER),
        "Sequence": 7,
        "TTL": 300_000_000_000,
    } | changes
    return {key: value for key, value in values.items() if value is not None}


class Signer:
    """A publisher with an Ed25519 key; the name holds the key itself."""

    def __init__(self, seed: int = 1) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.protobuf = field(1, 1) + field(2, self._key.public_key().public_bytes_raw())
        self.name = self.named()

    def named(self) -> IpnsName:
        """The name: a CIDv1 of the key, spelt in base36 by another implementation."""
        digest = self.protobuf
        code = b"\x00"
        if len(digest) > 42:
            code, digest = b"\x12", sha256(digest).digest()
        multihash = code + uvarint(len(digest)) + digest
        return IpnsName.parse(multiformats.CID("base36", 1, "libp2p-key", multihash).encode())

    def sign(self, payload: bytes) -> bytes:
        """The signature over *payload*."""
        return self._key.sign(payload)

    def record(
        self,
        signed: Mapping[str, Any] | bytes | None = None,
        *,
        v1: bool = False,
        fields: Fields = NO_CHANGE,
    ) -> bytes:
        """A record over *signed*, with *fields* by number replaced, added or left out (None)."""
        values = data() if signed is None else signed
        payload = values if isinstance(values, bytes) else cbor2.dumps(values, canonical=True)
        entry: dict[int, bytes | int | None] = {
            SIGNATURE_V2: self.sign(b"ipns-signature:" + payload),
            DATA: payload,
        }
        if v1 and not isinstance(values, bytes):
            entry |= {
                VALUE: values["Value"],
                SIGNATURE_V1: self.sign(values["Value"] + values["Validity"] + b"\0"),
                VALIDITY_TYPE: values["ValidityType"],
                VALIDITY: values["Validity"],
                SEQUENCE: values["Sequence"],
                TTL: values["TTL"],
            }
        entry |= fields
        return b"".join(
            field(number, value) for number, value in sorted(entry.items()) if value is not None
        )


class RsaSigner(Signer):
    """A publisher with an RSA key; the name is the key's hash, so records carry the key."""

    def __init__(self, bits: int = 2048) -> None:
        self._rsa = _rsa_key(bits)
        der = self._rsa.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.protobuf = field(1, 0) + field(2, der)
        self.name = self.named()

    def sign(self, payload: bytes) -> bytes:
        return self._rsa.sign(payload, padding.PKCS1v15(), hashes.SHA256())

    def record(
        self,
        signed: Mapping[str, Any] | bytes | None = None,
        *,
        v1: bool = False,
        fields: Fields = NO_CHANGE,
    ) -> bytes:
        return super().record(signed, v1=v1, fields={PUBLIC_KEY: self.protobuf, **fields})


class EcSigner(Signer):
    """A publisher with a secp256k1 key, which is its name; or with an ECDSA key on *curve*, whose
    hash is."""

    def __init__(self, curve: ec.EllipticCurve | None = None) -> None:
        self._ec = ec.generate_private_key(curve or ec.SECP256K1())
        public, self._is_hashed = self._ec.public_key(), curve is not None
        if curve is None:
            form = serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint
            self.protobuf = field(1, 2) + field(2, public.public_bytes(*form))
        else:
            der = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            self.protobuf = field(1, 3) + field(2, public.public_bytes(*der))
        self.name = self.named()

    def sign(self, payload: bytes) -> bytes:
        return self._ec.sign(payload, ec.ECDSA(hashes.SHA256()))

    def record(
        self,
        signed: Mapping[str, Any] | bytes | None = None,
        *,
        v1: bool = False,
        fields: Fields = NO_CHANGE,
    ) -> bytes:
        key: Fields = {PUBLIC_KEY: self.protobuf} if self._is_hashed else {}
        return super().record(signed, v1=v1, fields={**key, **fields})


@cache
def _rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)
