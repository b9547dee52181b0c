"""Where a site says that a path of it leads which is not there: the rules in its `_redirects`.

Knows where the file is and how large it may be, and remembers the rules of the sites that were
asked last. What the rules mean is left to redirect_rules.py."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from content_gateway.errors import SiteRulesMalformed
from content_gateway.http.redirect_rules import MAX_BYTES, Rule, Target, parse_rules, target_of
from content_gateway.model.cid import Cid
from content_gateway.unixfs.reader import UnixFs, UnixFsEntry

_FILE: Final = "_redirects"
_REMEMBERED: Final = 100


class SiteRules:
    """The rules of sites in *files*."""

    def __init__(self, files: UnixFs) -> None:
        self._files = files
        self._parsed: dict[Cid, list[Rule]] = {}

    async def target(self, root: UnixFsEntry, path: Sequence[str], requestor: str) -> Target | None:
        """Where *path*, by its segments, leads on the site at *root*; None where no rule says.

        Raises SiteRulesMalformed for rules that cannot be read, and what reading raises."""
        file = await self._files.child(root, _FILE, requestor)
        if file is None or file.is_directory:
            return None
        rules = self._parsed.get(file.cid)
        if rules is None:
            rules = await self._read(file, requestor)
            if len(self._parsed) >= _REMEMBERED:
                del self._parsed[next(iter(self._parsed))]  # the oldest
            self._parsed[file.cid] = rules
        return target_of(rules, list(path))

    async def _read(self, file: UnixFsEntry, requestor: str) -> list[Rule]:
        if file.size > MAX_BYTES:
            raise _broken(f"redirects file size cannot exceed {MAX_BYTES} bytes")
        async with aclosing(self._files.read(file, 0, file.size, requestor)) as pieces:
            text = b"".join([piece async for piece in pieces])
        try:
            return parse_rules(text.decode())
        except ValueError as wrong:
            raise _broken(wrong) from wrong


def _broken(why: object) -> SiteRulesMalformed:
    # In the words of boxo, for which gateway-conformance looks.
    return SiteRulesMalformed(f"The site has broken rules: could not parse _redirects: {why}.")
