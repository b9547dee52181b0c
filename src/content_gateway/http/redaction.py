"""Words for requestors that name no server of the operator's.

A reason comes from a backend, in its own words, or from a row that an earlier version wrote; it may
name hosts, ports and addresses, which are the operator's business and stand in the log. Knows what
an address looks like; which words there are besides is left to who wrote them."""

import re
from typing import Final

SERVER: Final = "a server"
_GROUPS: Final = r"[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*"
# Letters of any script: hosts are also written as people read them (RFC 5890, U-labels).
_LABELS: Final = r"(?<![\w/.@-])(?:\w(?:[\w-]*[^\W_])?\.)+"
# What has no length of its own here is bounded, or begins at one place of a text only: others write
# these texts, and none may take the square of its length.
_FORMS: Final = (
    r"""[a-z][a-z0-9+.-]{0,30}://[^\s"'<>,;)]*[^\s"'<>,;).:]""",  # a URL
    r"""/(?:ip4|ip6|ip6zone|dns|dns4|dns6|dnsaddr|unix)/[^\s"',;)]*[^\s"',;).:]""",  # multiaddr
    r"\[[0-9a-f:.%]{0,50}:[0-9a-z:.%]{0,50}\](?::\d+)?",  # [IPv6]:port
    r"(?<![\w:.])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?!\w)",  # IPv6; a time has two colons
    rf"(?<![\w:.])(?:{_GROUPS})?::(?:{_GROUPS})?(?!\w)",
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]*\w)",  # IPv4:port
    rf"{_LABELS}[^\W\d_][\w-]*[^\W_]:\d+",  # name:port
    rf"{_LABELS}(?:xn--[a-z0-9-]+|[^\W\d_]{{2,}})(?![\w/(-])",  # a domain
    r"(?<![\w/.-])[a-z][a-z0-9_-]*:\d{2,5}(?!\d)",  # a host of one label, with a port
    r"(?<=\blookup )[\w.-]*\w",  # what DNS was asked for
)
_ADDRESSES: Final = re.compile("|".join(_FORMS), re.IGNORECASE)


def without_addresses(text: str) -> str:
    """*text* with every address and host in it called a server."""
    return _ADDRESSES.sub(SERVER, text)
