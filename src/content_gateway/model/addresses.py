"""Addresses and names of hosts: which of them belong to the public internet.

Knows IANA's registries of special addresses and of special-use names. One rule for all that
somebody else may choose: gateways of names, and origins of pins. Resolves and connects nothing."""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

# The last label starts with a letter: what does not (`127.1`, `0x7f.1`, `2130706433`) are old
# spellings of addresses (WHATWG URL, "ends in a number"). A name without a dot is a local one.
DNS_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)(?:[0-9a-z_](?:[0-9a-z_-]{0,61}[0-9a-z_])?\.)+[a-z](?:[0-9a-z-]{0,61}[0-9a-z])?"
)

# Never looked up in public: IANA's special-use names (RFC 6761, 6762, 7686, 8375), ICANN's
# "internal", and endings that home and company networks use all the same (RFC 6762, appendix G).
_NOT_PUBLIC: Final = frozenset(
    (
        *("alt", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain"),
        *("localhost", "onion", "private", "test", "home.arpa"),
    )
)

# What IANA's registries hold back although ipaddress calls it global, in one Python or another.
_NOT_THE_INTERNET: Final = tuple(
    ip_network(block)
    for block in (
        "192.0.0.0/24",  # IETF protocols; a cloud's metadata server lives at 192.0.0.192
        "192.88.99.0/24",  # relays of 6to4
        "64:ff9b::/96",  # NAT64: an IPv4 address in disguise
        "64:ff9b:1::/48",
        "2002::/16",  # 6to4, the same
        "2001::/32",  # Teredo, the same
        "fec0::/10",  # site-local, before fc00::/7
        "3fff::/20",  # documentation
    )
)
# Everything the registries have ever given out. Outside of it are more IPv4 addresses in
# disguise: compatible (::127.0.0.1) and translated (::ffff:0:127.0.0.1) ones.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")


def is_public(address: Address) -> bool:
    """Whether *address* belongs to the public internet, and to a single host of it."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST:
            return False
    if not address.is_global or address.is_multicast:
        return False
    return not any(address in block for block in _NOT_THE_INTERNET)


def is_public_name(name: str) -> bool:
    """Whether *name* looks like that of a host in the public DNS; where it leads, it may choose."""
    low = name.lower()
    if not DNS_NAME.fullmatch(low):
        return False
    labels = low.split(".")
    return labels[-1] not in _NOT_PUBLIC and ".".join(labels[-2:]) not in _NOT_PUBLIC
