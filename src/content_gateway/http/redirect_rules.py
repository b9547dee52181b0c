"""The rules of a site for paths that are not there: its `_redirects` file (IPIP-290).

Knows the form of a rule, `from to [status]`, with placeholders (`:name`) and one splat at the end,
and the statuses that a rule may have. Rules are for sites on hosts of their own alone; reading the
file, and what a rule leads to, is left to the handler."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

MAX_BYTES: Final = 64 * 1024  # IPIP-290
REWRITE: Final = 200
_MOST_RULES: Final = 2_000
_DEFAULT: Final = 301
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_ERRORS: Final = frozenset((404, 410, 451))
_SCHEMES: Final = ("http", "https", "ipfs", "ipns")
_SAFE: Final = "/:@!$&'()*+,;=-._~"  # RFC 3986 section 3.3
_PLACEHOLDER: Final = re.compile(r":([A-Za-z][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path leads: to another place of the site with a *status* other than a redirect's, or
    by a redirect to *place*, a path or a URL."""

    place: str
    status: int

    @property
    def is_redirect(self) -> bool:
        """Whether the client is to ask for the other place itself."""
        return self.status in _REDIRECTS


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: the segments of a path, a place, and a status."""

    segments: tuple[str, ...]
    place: str
    status: int

    def target(self, path: list[str]) -> Target | None:
        """Where the *path*, by its segments, leads; None where the rule is not for it."""
        found: dict[str, str] = {}
        for number, segment in enumerate(self.segments):
            if segment == "*":
                found["splat"] = "/".join(path[number:])
                break
            if number >= len(path):
                return None
            if segment.startswith(":"):
                found[segment[1:]] = path[number]
            elif segment != path[number]:
                return None
        else:
            if len(path) != len(self.segments):
                return None
        if self.status in _REDIRECTS:  # it becomes a URL: what was sent as a path is encoded again
            found = {name: quote(text, safe=_SAFE) for name, text in found.items()}
        place = _PLACEHOLDER.sub(lambda name: found.get(name[1], name[0]), self.place)
        return Target(place, self.status)


def parse_rules(text: str) -> list[Rule]:
    """The rules in *text*, in their order; ValueError names the line that is none."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (fields := line.split()) or fields[0].startswith("#"):
            continue
        try:
            rules.append(_rule(fields))
        except ValueError as wrong:
            raise ValueError(f"line {number}: {wrong}") from wrong
        if len(rules) > _MOST_RULES:
            raise ValueError(f"there are more than {_MOST_RULES} rules")
    return rules


def target_of(rules: list[Rule], path: list[str]) -> Target | None:
    """Where the first rule that is for *path*, by its segments, leads; None without one."""
    for rule in rules:
        if (target := rule.target(path)) is not None:
            return target
    return None


def _rule(fields: list[str]) -> Rule:
    if not 2 <= len(fields) <= 3:
        raise ValueError("a rule is `from to [status]`")
    path, place = fields[:2]
    if not path.startswith("/"):
        raise ValueError("a rule begins with a path")
    segments = tuple(segment for segment in path.split("/") if segment)
    if "*" in path[:-1]:
        raise ValueError("a splat stands at the end")
    names = [segment for segment in segments if segment.startswith(":")]
    if len(set(names)) < len(names):
        raise ValueError("a placeholder is there twice")
    status = fields[2] if len(fields) == 3 else str(_DEFAULT)
    if not status.isascii() or not status.isdigit():
        raise ValueError(f"{status!r} is no status that a rule can have")
    number = int(status[:4])
    if number not in _REDIRECTS | _ERRORS | {REWRITE}:
        raise ValueError(f"{status} is no status that a rule can have")
    if not place.startswith("/") and (
        number not in _REDIRECTS or urlsplit(place).scheme not in _SCHEMES
    ):
        raise ValueError(f"{place!r} is no place that a rule can lead to")
    return Rule(segments, place, number)
