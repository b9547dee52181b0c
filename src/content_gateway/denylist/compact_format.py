"""The IPFS compact denylist (IPIP-383): rules in, "is this blocked?" out.

Knows the file format of ipfs/specs `compact-denylist-format.md`, and which of its rules speak of
whole CIDs and names and which of paths below them (path_rules.py). When the file is read, and what
follows, is left to denylist.py.

    version: 1                      # an optional YAML header, ended by ---
    ---
    /ipfs/CID                       # that content, whatever the version and codec of the CID
    /ipfs/CID/*                     # the same, and every path below it
    /ipfs/CID/path*                 # paths below it that begin so; without the *, that path
    /ipns/NAME                      # a key in any spelling, or a domain; also with a path
    //HASH                          # what hashes to HASH: see double_hashes
    !/ipfs/CID                      # an exception: of all rules that match, the last decides
    /ipfs/CID key:value             # hints may follow; none has a meaning here"""

import re
from collections import defaultdict
from functools import lru_cache
from typing import Final

import yaml

from content_gateway.codecs.multiformats import (
    BASE32,
    BASE58BTC,
    IDENTITY,
    SHA2_256,
    check_multihash,
    decode_multibase,
    digest_of,
    read_varint,
    varint,
)
from content_gateway.denylist.path_rules import PathRules
from content_gateway.denylist.rules import RuleSet, denies, next_run
from content_gateway.errors import CallerError
from content_gateway.files.watched_file import lines
from content_gateway.model.cid import LIBP2P_KEY, MAX_TEXT, Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName

MAX_HEADER_BYTES: Final = 1024 * 1024  # this and the next: the specification's own limits
MAX_LINE_BYTES: Final = 2 * 1024 * 1024
_SHA256_HEX: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)

Item = Cid | IpnsName | DomainName


class CompactDenylist:
    """The rules of one file."""

    def __init__(self) -> None:
        self._contents = RuleSet()  # by multihash
        self._names = RuleSet()  # by the multihash of the key, or by the text of the domain
        self._content_paths, self._name_paths = PathRules(), PathRules()  # by the same keys
        self._hashed: dict[int, RuleSet] = defaultdict(RuleSet)  # hash function -> by digest
        self._run = 0

    def __len__(self) -> int:
        """How many different things the rules speak of."""
        paths = len(self._content_paths) + len(self._name_paths)
        return paths + sum(map(len, (self._contents, self._names, *self._hashed.values())))

    def add(self, rule: str) -> None:
        """Put *rule*, without hints, behind all others; raises ValueError if it is none."""
        plain = rule.removeprefix("!")
        self._run = next_run(self._run, allows=plain != rule)
        if plain.startswith("//"):
            function, digest = _parse_double_hash(plain[2:])
            self._hashed[function].put(digest, self._run)
            return
        namespace, subject, path = _split_path(plain)
        table, paths, parse = (
            (self._contents, self._content_paths, _parse_content)
            if namespace == "ipfs"
            else (self._names, self._name_paths, _parse_name)
        )
        key = parse(subject)
        if path:
            paths.put(key, path, self._run)
        else:
            table.put(key, self._run)

    def blocks_cid(self, cid: Cid) -> bool:
        """True if the content *cid* is blocked."""
        return self._blocks(cid, self._contents.last(cid.multihash))

    @property
    def has_contents(self) -> bool:
        """Whether any rule may speak of content."""
        return len(self._contents) > 0 or bool(self._hashed)

    def blocks_block(self, cid: Cid) -> bool:
        """As blocks_cid, for one of many that are asked about once: nothing is remembered."""
        run = self._contents.last(cid.multihash)
        for function, rules in self._hashed.items():
            for digest in _double_hashes(cid, function):
                run = max(run, rules.last(digest))
        return denies(run)

    def blocks_ipns(self, name: IpnsName) -> bool:
        """True if the IPNS key or the DNSLink domain *name* is blocked."""
        return self._blocks(name, self._names.last(_key_of(name)))

    def blocks_domain(self, name: DomainName) -> bool:
        """True if the domain *name* is blocked: gateways serve ENS names as `/ipns/NAME` too."""
        return self._blocks(name, self._names.last(_key_of(name)))

    def blocks_path(self, item: Item, path: str) -> bool:
        """True if rules about paths block *path*, decoded and without slashes around it, below
        *item*; whether *item* is blocked as a whole is left to the others."""
        if isinstance(item, Cid):
            run = self._content_paths.last(item.multihash, path)
        else:
            run = self._name_paths.last(_key_of(item), path)
        for function, rules in self._hashed.items():
            for digest in _double_hashes(item, function, path):
                run = max(run, rules.last(digest))
        return denies(run)

    def _blocks(self, item: Item, run: int) -> bool:
        """Whether *item*, which a rule of *run* names in clear, is blocked in the end."""
        for function, rules in self._hashed.items():
            for digest in double_hashes(item, function):
                run = max(run, rules.last(digest))
        return denies(run)


def _key_of(name: IpnsName | DomainName) -> bytes:
    """The key under which rules about *name* are kept."""
    multihash = name.multihash if isinstance(name, IpnsName) else None
    return multihash or name.text.encode()


def _double_hashes(item: Item, function: int, path: str = "") -> tuple[bytes, ...]:
    """As double_hashes, computed again; of the *path* below *item*, if there is one."""
    if isinstance(item, Cid):
        modern, legacy = BASE58BTC.encode(item.multihash), f"{item}/"
    elif isinstance(item, IpnsName) and not item.is_dnslink:
        cid = b"\x01" + varint(LIBP2P_KEY) + item.multihash
        modern, legacy = BASE58BTC.encode(item.multihash), f"b{BASE32.encode(cid)}/"
    else:
        modern, legacy = f"/ipns/{item}", f"{item}/"
    texts = (f"{modern}/{path}" if path else modern, legacy + path)
    digests = (digest_of(function, text.encode(errors="replace")) for text in texts)
    return tuple(digest for digest in digests if digest is not None)


@lru_cache(maxsize=16_384)  # a warm answer asks for the same again; it takes 10 µs to compute
def double_hashes(item: Item, function: int) -> tuple[bytes, ...]:
    """The digests by which a `//` rule may mean *item*: of its modern and of its legacy text.

    Modern: multihash in base58btc, or `/ipns/` and domain. Legacy (badbits): CIDv1 in base32, or
    domain, and a slash."""
    return _double_hashes(item, function)


def parse_denylist(data: bytes) -> CompactDenylist:
    """The rules in *data*; ValueError names the line that is wrong."""
    if not data:
        # What a download that failed leaves behind must not let everything through.
        raise ValueError("the file is empty; a list that blocks nothing holds a comment")
    denylist = CompactDenylist()
    header = _read_header(data)
    for number, line in lines(data):
        if number > header:
            try:
                if rule := _parse_line(line):
                    denylist.add(rule)
            except (ValueError, CallerError) as wrong:
                raise ValueError(f"line {number}: {wrong}") from wrong
    return denylist


def _read_header(data: bytes) -> int:
    """How many lines the header takes, the `---` that ends it included; ValueError if wrong.

    Without a `---` within the first MiB, or before the first rule, there is none."""
    size = 0
    for number, line in lines(data):
        if line.rstrip() == b"---":
            _check_header(data[:size].decode())
            return number
        size += len(line)
        if size > MAX_HEADER_BYTES or line.startswith((b"/", b"!")):
            break
    return 0


def _check_header(text: str) -> None:
    """ValueError if *text* is not a header, or one of a version that we do not read."""
    try:
        # Plain text in every place: no value is interpreted, so none can be interpreted wrongly.
        header = yaml.BaseLoader(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as wrong:
        raise ValueError(f"the header is not YAML: {str(wrong).splitlines()[0]}") from wrong
    if header is not None and not isinstance(header, dict):
        raise ValueError("the header is not a table of fields")
    version = (header or {}).get("version", "")
    if version not in ("", "1"):
        # Not as it is written where it is no text: aliases would multiply it.
        said = version if isinstance(version, str) else type(version).__name__
        raise ValueError(f"the list is of version {said!r:.20}, and only 1 is known")


def _parse_line(line: bytes) -> str:
    """The rule in *line* without its hints; empty if there is none."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has more than {MAX_LINE_BYTES} bytes")
    fields = line.split()
    if not fields or fields[0].startswith(b"#"):
        return ""
    if any(field.startswith((b"/", b"!")) for field in fields[1:]):
        raise ValueError("it holds two rules, of which the second would be lost")
    return fields[0].decode()


def _split_path(rule: str) -> tuple[str, str, str]:
    """Namespace, CID or name, and the path below it, empty where the rule is about the whole."""
    start, _, rest = rule.removeprefix("/").partition("/")
    if not rule.startswith("/") or start not in ("ipfs", "ipns"):
        raise ValueError("a rule begins with /ipfs/, /ipns/ or //, and ! may stand before it")
    subject, _, path = rest.partition("/")
    path = path.strip("/")
    # `/` behind the CID means nothing, and `/*` includes the empty path.
    return start, subject, path if path.strip("/*") else ""


def _parse_content(text: str) -> bytes:
    """The multihash in *text*: a CID of any version and codec, or a bare base58btc multihash.

    Not only what Cid accepts: the same hash may be asked for under a codec that it does."""
    try:
        data = decode_multibase(_bounded(text))
        version, at = read_varint(data)
        _, at = read_varint(data, at)
        if version == 1:
            _split_multihash(data[at:])
            return data[at:]
    except ValueError:
        pass
    try:
        data = BASE58BTC.decode(_bounded(text))
        check_multihash(*_split_multihash(data))
    except ValueError:
        raise ValueError("what follows /ipfs/ is neither a CID nor a multihash") from None
    return data


def _parse_name(text: str) -> bytes:
    """The multihash of the key, or the domain, that *text* spells."""
    try:
        name = IpnsName.parse(text)
    except CallerError:
        if "." not in text:
            raise
        # A name that ENS knows and DNS does not, in another script for example.
        return DomainName.parse(text).text.encode()
    return name.multihash or name.text.encode()


def _parse_double_hash(text: str) -> tuple[int, bytes]:
    """Hash function and digest in *text*, in either form.

    The two cannot be confused: 64 letters of base58btc are 47 bytes, and no hash function that
    we accept has a multihash of that length."""
    if _SHA256_HEX.fullmatch(text):
        return SHA2_256, bytes.fromhex(text)
    try:
        function, digest = _split_multihash(BASE58BTC.decode(_bounded(text)))
        check_multihash(function, digest)
    except ValueError:
        raise ValueError("what follows // is neither a multihash nor a SHA-256") from None
    if function == IDENTITY or digest_of(function, b"") is None:
        # Ignored, it would let through what it was written to block.
        raise ValueError(f"the hash function 0x{function:x} is none that can be computed here")
    return function, digest


def _split_multihash(data: bytes) -> tuple[int, bytes]:
    function, at = read_varint(data)
    length, at = read_varint(data, at)
    if len(data) - at != length:
        raise ValueError("the length of the digest is wrong")
    return function, data[at:]


def _bounded(text: str) -> str:
    """*text*, unless it is longer than any hash: bases are read in quadratic time."""
    if len(text) > MAX_TEXT:
        raise ValueError("it is too long")
    return text
