"""Rules about paths below a CID or a name: about one path, or all that begin alike (IPIP-383).

Knows how the path of a rule is written, and which of several rules decides (rules.py). What the
paths are below, and rules that are hashed, are left to compact_format.py."""

from urllib.parse import unquote

from content_gateway.denylist.rules import RuleSet


class PathRules:
    """For each path below a key the last run of rules that is about it."""

    def __init__(self) -> None:
        self._exact = RuleSet()  # by key, slash and path
        self._beginnings: dict[bytes, dict[str, int]] = {}  # by key, and how paths begin

    def __len__(self) -> int:
        return len(self._exact) + sum(map(len, self._beginnings.values()))

    def put(self, key: bytes, path: str, run: int) -> None:
        """Record that a rule of *run* names the percent-encoded *path* below *key*.

        `ab*` and `ab/*` are all paths that begin with `ab`; a slash at the end means nothing."""
        plain = unquote(path.rstrip("*").rstrip("/"))
        if path.endswith("*"):
            self._beginnings.setdefault(key, {})[plain] = run
        else:
            self._exact.put(_joined(key, plain), run)

    def last(self, key: bytes, path: str) -> int:
        """The last run that is about *path*, decoded, below *key*; 0 if none is."""
        beginnings = self._beginnings.get(key, {})
        runs = [run for beginning, run in beginnings.items() if path.startswith(beginning)]
        return max(self._exact.last(_joined(key, path)), *runs, 0)


def _joined(key: bytes, path: str) -> bytes:
    return b"%b/%b" % (key, path.encode(errors="replace"))
