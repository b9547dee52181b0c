"""The keys behind IPNS names: which key must have signed, and whether it has.

Knows libp2p's `peer-ids.md`: the protobuf that holds a public key, when a name is the key itself
and when its hash, and how each of the four kinds signs. What is signed is left to record.py."""

from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from content_gateway.codecs.multiformats import IDENTITY, SHA2_256, digest_of, read_varint
from content_gateway.model.ipns_name import IpnsName

KEY_RSA: Final = 0
KEY_ED25519: Final = 1
KEY_SECP256K1: Final = 2
KEY_ECDSA: Final = 3
MAX_INLINED_KEY: Final = 42  # bytes; shorter keys are never hashed
_RSA_BITS: Final = range(2048, 8193)
_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")  # those of FIPS 186 that libraries share

# What `check_signature` raises, ValueError apart.
INVALID_SIGNATURE: Final = (InvalidSignature, UnsupportedAlgorithm)


def public_key(name: IpnsName, given: bytes | None) -> bytes:
    """The key (protobuf) that must have signed: inlined in the name, or hashing to it."""
    code, at = read_varint(name.multihash)
    _, at = read_varint(name.multihash, at)
    inlined = name.multihash[at:]
    if code == IDENTITY:
        if given is not None and given != inlined:
            raise ValueError("its key is not the name's")
        return inlined
    if given is None:
        raise ValueError("it lacks the public key")
    if len(given) <= MAX_INLINED_KEY:
        raise ValueError("its key is short enough to be the name itself")
    if digest_of(SHA2_256, given) != inlined:
        raise ValueError("its key is not the name's")
    return given


def check_signature(key: bytes, payload: bytes, signature: bytes) -> None:
    """InvalidSignature or ValueError unless *key* signed *payload*."""
    key_type, at = _read_key_field(key, 0, 0x08)
    length, at = _read_key_field(key, at, 0x12)
    material = key[at:]
    if len(material) != length:
        raise ValueError("its key is malformed")
    if key_type == KEY_ED25519:
        Ed25519PublicKey.from_public_bytes(material).verify(signature, payload)
    elif key_type == KEY_RSA:
        _check_rsa(material, payload, signature)
    elif key_type in (KEY_SECP256K1, KEY_ECDSA):
        _check_ec(material, payload, signature, is_point=key_type == KEY_SECP256K1)
    else:
        raise ValueError(f"keys of type {key_type} are not supported")


def _read_key_field(key: bytes, at: int, tag: int) -> tuple[int, int]:
    if key[at : at + 1] != bytes((tag,)):
        raise ValueError("its key is malformed")
    return read_varint(key, at + 1)


def _check_rsa(material: bytes, payload: bytes, signature: bytes) -> None:
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - rare
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415 - rare

    key = serialization.load_der_public_key(material)
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size not in _RSA_BITS:
        raise ValueError("its RSA key is malformed or of an unusual size")
    key.verify(signature, payload, padding.PKCS1v15(), hashes.SHA256())


def _check_ec(material: bytes, payload: bytes, signature: bytes, *, is_point: bool) -> None:
    """ECDSA over SHA-256, signature in DER; a point of secp256k1, or a key that names its curve."""
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - rare
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - rare

    if is_point:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), material)
    else:
        named = serialization.load_der_public_key(material)
        if not isinstance(named, ec.EllipticCurvePublicKey) or named.curve.name not in _CURVES:
            raise ValueError("its ECDSA key is malformed or of an unusual curve")
        key = named
    key.verify(signature, payload, ec.ECDSA(hashes.SHA256()))
