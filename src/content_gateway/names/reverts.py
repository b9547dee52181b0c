"""Refusals: what a revert of the Universal Resolver, or of a resolver behind it, means.

Knows the errors by their selectors: those of ENSIP-23, and those of resolvers in use. Tells whose
fault each is, which is absence, the name's own resolver or its gateway, or ENS itself; which record
was asked for, and what follows, is left to the callers."""

from typing import Final

from content_gateway.codecs import abi, http_error
from content_gateway.codecs.printable import printable
from content_gateway.errors import (
    GatewayError,
    InvalidUpstreamResponse,
    NameNotFound,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.model.records import Failed

RESOLVER_ERROR: Final = bytes.fromhex("95c0c752")  # ResolverError(bytes), ENSIP-23
MAX_QUOTED: Final = 100  # characters of what a resolver's owner had to say
MAX_WRAPPINGS: Final = 4

# What says that there is nothing: the words, by selector. Each is the whole answer of a name, or
# of one record of it.
_ABSENT: Final = {
    # ENSIP-23, the Universal Resolver.
    bytes.fromhex("77209fe8"): "No such name is registered, or it has no resolver.",
    bytes.fromhex("1e9535f2"): "The name's resolver is not a contract.",
    # UnsupportedResolverProfile(bytes4), ENSIP-23.
    bytes.fromhex("7b1c461b"): "The name's resolver holds no such records.",
    # ResolverFunctionNotSupported(), Farcaster's FnameResolver: all but `addr`.
    bytes.fromhex("7fa63fed"): "The name's resolver holds no such records.",
    # NotImplemented(), ENS's ExtendedDNSResolver: all but `addr` (and, later, `text`).
    bytes.fromhex("d6234725"): "The name's resolver holds no such records.",
    # CouldNotResolve(bytes), ENS's OffchainDNSResolver: no TXT record begins with ENS1.
    bytes.fromhex("29a76c06"): "The name has no record for ENS in DNS.",
}
_DNS_DECODING_FAILED: Final = bytes.fromhex("ba4adc23")  # DNSDecodingFailed(bytes), ENSIP-23
_ERROR: Final = bytes.fromhex("08c379a0")  # Error(string), Solidity
_PANIC: Final = bytes.fromhex("4e487b71")  # Panic(uint256), Solidity
# Errors that are named in answers: those of ens-contracts' resolvers of DNS names.
_NAMES: Final = {
    bytes.fromhex("398d4d32"): "InvalidOperation()",
    bytes.fromhex("c9e47ee5"): "InvalidAddressFormat()",
    bytes.fromhex("3de78024"): "InvalidAddressFormat(bytes)",
}


def read_refusal(data: bytes) -> GatewayError:
    """What it means that the Universal Resolver reverts with *data*: NameNotFound for absence,
    ResolverFailed or an outage where the name's resolver or its gateway did, and else
    InvalidUpstreamResponse, which is ENS's own."""
    selector = data[:4]
    if selector in (RESOLVER_ERROR, http_error.SELECTOR, abi.OFFCHAIN_LOOKUP, *_ABSENT):
        return read_resolver_error(data)
    if selector == _DNS_DECODING_FAILED:
        return InvalidUpstreamResponse("ENS could not read the name.")
    return InvalidUpstreamResponse(f"ENS refused {_cause(data)}.")


def read_resolver_error(data: bytes) -> GatewayError:
    """What it means that the name's own resolver reverts with *data*: NameNotFound for absence, an
    outage or InvalidUpstreamResponse for a failed gateway, and else ResolverFailed."""
    for _ in range(MAX_WRAPPINGS):  # a resolver may have asked the Universal Resolver itself
        if data[:4] != RESOLVER_ERROR:
            break
        try:
            data = abi.read_bytes(data, 4, 4)
        except ValueError:
            return ResolverFailed("The name's resolver failed, and how cannot be read.")
    selector = data[:4]
    if selector in _ABSENT:
        return NameNotFound(_ABSENT[selector])
    if selector == http_error.SELECTOR:
        return _gateway_failure(http_error.read_status(data))
    if selector == abi.OFFCHAIN_LOOKUP:
        return UpstreamUnavailable("The name is held off-chain, out of reach.")
    return ResolverFailed(f"The name's resolver reverted {_cause(data)}.")


def refused(refusal: GatewayError) -> Failed | None:
    """A record whose reading met this *refusal*: None where that says that there is none."""
    return Failed.of(refusal) if isinstance(refusal, UpstreamError) else None


def _gateway_failure(status: int) -> GatewayError:
    if http_error.is_refusal(status):
        return ResolverFailed(f"The name's off-chain gateway answered {status}.")
    if status == http_error.TIMEOUT:
        return UpstreamTimeout("The name's off-chain gateway did not answer in time.")
    if status == http_error.INVALID:  # nothing that its owner means: the next may be a good one
        return InvalidUpstreamResponse("The name's off-chain gateway gave an invalid answer.")
    return UpstreamUnavailable("The name's off-chain gateway failed.")


def _cause(data: bytes) -> str:
    """How a contract reverted, with its own words bounded and in quotes."""
    selector = data[:4]
    if not data:
        return "without a reason"
    if selector in _NAMES:
        return f"with {_NAMES[selector]}"
    try:
        if selector == _ERROR:
            return f'with "{_printable(abi.read_bytes(data, 4, 4))}"'
        if selector == _PANIC:
            return f"with Panic(0x{abi.read_uint(data, 4):02x})"
    except ValueError:
        pass
    return f"with the unknown error 0x{selector.hex()}"


def _printable(text: bytes) -> str:
    """*text* as one line that nobody can mistake for ours."""
    chars = text[: 4 * MAX_QUOTED].decode(errors="replace")[:MAX_QUOTED]
    return printable(chars, "\ufffd").replace('"', "'")
