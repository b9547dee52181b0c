"""The denylist: is this name, content, key or path one that the operator does not serve?

Asks the operator's files, a denylist and a list of names, and says no when either of them does.
What is answered to whoever asked is left to the callers."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from content_gateway.denylist.compact_format import CompactDenylist, parse_denylist
from content_gateway.denylist.domain_list import parse_domains
from content_gateway.errors import Blocked
from content_gateway.files.watched_file import WatchedFile
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName

DENYLIST_SETTING: Final = "denylist.content_file"
NAMES_SETTING: Final = "denylist.domains_file"
MAX_DENYLIST_BYTES: Final = 256 * 1024 * 1024
MAX_NAMES_BYTES: Final = 64 * 1024 * 1024


class Denylist:
    """What the files at *denylist* and *names* forbid; without files, nothing.

    The lists are independent: an exception in the denylist does not lift what *names* blocks.
    A check costs a few microseconds at most, whatever the length of the lists."""

    def __init__(
        self,
        denylist: Path | None,
        names: Path | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads both files; raises WrongSettings when one of them cannot be used."""
        self._denylist = self._names = None
        self._checked_by: _Checker | None = None
        if denylist is not None:
            self._denylist = WatchedFile(
                denylist,
                parse_denylist,
                setting=DENYLIST_SETTING,
                max_bytes=MAX_DENYLIST_BYTES,
                clock=clock,
            )
        if names is not None:
            self._names = WatchedFile(
                names, parse_domains, setting=NAMES_SETTING, max_bytes=MAX_NAMES_BYTES, clock=clock
            )

    def check_name(self, name: DomainName) -> None:
        """Raises Blocked if the domain *name* is not to be resolved."""
        if (self._denylist and self._denylist.current().blocks_domain(name)) or (
            self._names and self._names.current().blocks(name.text)
        ):
            raise Blocked("This domain is blocked by the operator.")

    def check_cid(self, cid: Cid) -> None:
        """Raises Blocked if the content *cid* is not to be served or pinned."""
        if self._denylist and self._denylist.current().blocks_cid(cid):
            raise Blocked("This content is blocked by the operator.")

    def check_path(self, root: Cid | IpnsName | DomainName, segments: Sequence[str]) -> None:
        """Raises Blocked if the path *segments* below *root* is not to be served; whether *root*
        itself is, is left to the other checks."""
        path = "/".join(segments)
        if path and self._denylist and self._denylist.current().blocks_path(root, path):
            raise Blocked("This path is blocked by the operator.")

    def checker(self) -> Callable[[Cid], None] | None:
        """What raises Blocked for a block that is blocked, by the list as it is now: for walks of
        many blocks, in any thread. None where no block is; the same one while the list is."""
        if self._denylist is None:
            return None
        denylist = self._denylist.current()
        if self._checked_by is None or self._checked_by.denylist is not denylist:
            self._checked_by = _Checker(denylist)
        return self._checked_by if denylist.has_contents else None

    def check_ipns(self, name: IpnsName) -> None:
        """Raises Blocked if the IPNS key or DNSLink domain *name* is not to be resolved."""
        if (self._denylist and self._denylist.current().blocks_ipns(name)) or (
            name.is_dnslink and self._names and self._names.current().blocks(name.text)
        ):
            raise Blocked("This IPNS name is blocked by the operator.")

    def close(self) -> None:
        """Watch the files no more."""
        for file in (self._denylist, self._names):
            if file:
                file.close()


class _Checker:
    """Asks one version of the *denylist*, which changes no more."""

    def __init__(self, denylist: CompactDenylist) -> None:
        self.denylist: Final = denylist

    def __call__(self, cid: Cid) -> None:
        """Raises Blocked if the block *cid* is not to be served or pinned."""
        if self.denylist.blocks_block(cid):
            raise Blocked(f"The block {cid} is blocked by the operator.")
