"""Hosts that show the content of a name: `vitalik.eth.example.limo` is that of vitalik.eth.

Knows the operator's patterns (`*.example.limo`), that IDNA writes other scripts as `xn--`, and that
a name may stand in one label, for which one wildcard certificate is enough: `vitalik-eth`, each
hyphen of its own doubled (ipfs/specs subdomain-gateway.md). Whether there is such a name is left to
the directory."""

from collections.abc import Iterable
from typing import Final

from content_gateway.http.request_head import host_of

_REMEMBERED: Final = 1_000  # Host fields
_NO_LABEL: Final = "\n"  # in no host: stands for a hyphen meanwhile


class GatewayHosts:
    """The hosts below *patterns*, each `*.` and a domain; falsy where there are none."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        # The longest first: a pattern may stand below another one.
        self.suffixes = tuple(sorted((one[1:] for one in patterns), key=len, reverse=True))
        self._seen: dict[bytes, str | None] = {}

    def __bool__(self) -> bool:
        return bool(self.suffixes)

    def shown_by(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The text of the name whose content a request with *headers* is for; None: it is for the
        service itself."""
        field = next((value for name, value in headers if name == b"host"), b"")
        if field in self._seen:
            return self._seen[field]
        host = host_of(field)
        shown = None if host is None else self.name_in(host)
        if len(self._seen) < _REMEMBERED:
            self._seen[field] = shown
        return shown

    def name_in(self, host: str) -> str | None:
        """The text of the name that *host* shows, perhaps no valid one; None where it is below no
        pattern."""
        host = host.lower().removesuffix(".")
        for suffix in self.suffixes:
            if host.endswith(suffix):
                return _name(host.removesuffix(suffix))
        return None


def _name(labels: str) -> str:
    if "." not in labels:
        labels = labels.replace("--", _NO_LABEL).replace("-", ".").replace(_NO_LABEL, "-")
    return ".".join(map(_label, labels.split(".")))


def _label(label: str) -> str:
    """A *label* as people write it; one that is no IDNA stays as it is, and is no valid name.

    Nor is it IDNA where nothing needs it: else each name would have a second host."""
    if not label.startswith("xn--"):
        return label
    try:
        decoded = label[4:].encode().decode("punycode")
    except UnicodeError:
        return label
    return label if decoded.isascii() else decoded
