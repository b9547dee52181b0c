"""The denylist as a file: header, comments, hints, limits, and that what is wrong is refused."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.denylist.compact_format import (
    MAX_HEADER_BYTES,
    MAX_LINE_BYTES,
    CompactDenylist,
    parse_denylist,
)
from content_gateway.model.cid import Cid
from tests.denylist.spelling import base58

DAG = "bafybeihvvulpp4evxj7x7armbqcyg6uezzuig6jp3lktpbovlqfkuqeuoq"
KEY = "k51qzi5uqu5dhmzyv3zac033i7rl9hkgczxyl81lwoukda2htteop7d3x0y1mf"
RULE = f"/ipfs/{DAG}\n"
BLAKE3 = "//gW813G35CnLsy7gRYYHuf63hrz71U1xoLFDVeV7actx6oX"
SHA1 = base58(b"\x11\x14" + bytes(20))


def blocks(text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    return parse_denylist(data).blocks_cid(Cid.parse(DAG))


@pytest.mark.parametrize(
    "text",
    [
        RULE,
        RULE.rstrip(),
        RULE.replace("\n", "\r\n"),
        "\n  \n# a comment, then nothing\n\n" + RULE,
        "  " + RULE,
        f"/ipfs/{DAG} reason:spam gateway_status:410\n",
        f"/ipfs/{DAG}\treason=spam\n",
        f"/ipfs/{DAG} # since May\n",
        "---\n" + RULE,
        "version: 1\nname: a list\nhints:\n  a: b\n  c: d\n---\n" + RULE,
        "name: bücher\nX-Custom: [1, 2]\n---\r\n" + RULE,
        "# only a comment\n---\n" + RULE,
        "version:\n---\n" + RULE,
    ],
)
def test_a_rule_is_found_in_every_dress(text: str) -> None:
    """Headers, hints, comments, blank lines and line ends take nothing away from a rule."""
    assert blocks(text)


def test_a_list_of_comments_blocks_nothing() -> None:
    """So an operator says that nothing is to be blocked."""
    assert not blocks("# nothing yet\n")


def test_an_empty_file_is_refused() -> None:
    """A download that failed leaves an empty file behind: that must not free everything."""
    with pytest.raises(ValueError, match="empty"):
        parse_denylist(b"")


@pytest.mark.parametrize(
    "line",
    [
        DAG,
        f"ipfs/{DAG}",
        f"/IPFS/{DAG}",
        f"/ipld/{DAG}",
        f"/path/{DAG}",
        "/mime/image/*",
        "/",
        "!",
        f"! /ipfs/{DAG}",
        f"!!/ipfs/{DAG}",
        f"-/ipfs/{DAG}",
        "/ipfs",
        "/ipfs/",
        "/ipfs/*",
        f"/ipfs/{DAG}*",
        f"/ipfs/{DAG[:-3]}",
        f"/ipfs/{DAG[1:]}",
        f"/ipfs/{DAG[:-1]}1",
        "/ipfs/hello",
        f"/ipfs/{SHA1[:-2]}",
        "/ipfs/" + "z" * 5000,
        f"/ipfs/{DAG} /ipfs/{DAG}",
        f"/ipfs/{DAG} !/ipfs/{DAG}",
        "/ipns/",
        "/ipns/localhost",
        "/ipns/*",
        "/ipns/domain.example*",
        "/ipns/a_b.é_f",
        "/ipns/a..example",
        f"/ipns/{KEY[:-1]}",
        "//",
        "///",
        "//0123",
        f"//{'0' * 63}",
        f"//{'0' * 65}",
        f"//{'0' * 64}/path",
        f"//{'g' * 64}",
        f"//{DAG}",
        f"//{SHA1[:-1]}",
        "//" + base58(b"\x00\x04some"),
        "//11",
        BLAKE3,
        "!" + BLAKE3,
        "---",
        "version: 1",
        "/ipfs/\xff",
    ],
)
def test_a_line_that_is_no_rule_is_named(line: str) -> None:
    """Nothing is skipped: a rule that is not understood might be the one that matters."""
    with pytest.raises(ValueError, match=r"\Aline 3: ."):
        parse_denylist(f"# one\n{RULE}{line}\n".encode("latin-1"))


def test_lines_are_counted_from_the_top_of_the_file() -> None:
    """The header's lines count: an editor counts them too."""
    with pytest.raises(ValueError, match=r"\Aline 4: "):
        parse_denylist(b"version: 1\n---\n" + RULE.encode() + b"oops\n")


@pytest.mark.parametrize(
    "header",
    [
        "version: 2",
        "version: 1.0",
        "version: true",
        "version: [1]",
        "just text",
        "- version: 1",
        "name: [",
        "a: b\n\tc: d",
        "a: &a [*a]",
        "[" * 2000,
        "a: \x00",
        "a: b\n...\nc: d",
    ],
)
def test_a_header_that_is_wrong_is_refused(header: str) -> None:
    """As the specification demands: YAML that holds fields, of a version that is known."""
    with pytest.raises(ValueError, match=r"."):
        parse_denylist(f"{header}\n---\n{RULE}".encode())


def test_a_header_may_hold_what_yaml_would_run_or_multiply() -> None:
    """Tags and aliases are never acted upon."""
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    assert blocks("x: !!python/object/apply:os.system [exit]\nd: !!timestamp no\n---\n" + RULE)
    assert blocks(laughs + "---\n" + RULE)
    with pytest.raises(ValueError, match="of version 'list'"):
        blocks(laughs + "version: *u\n---\n" + RULE)


def test_a_header_beyond_a_mebibyte_is_none() -> None:
    """Then its lines are read as rules, and refused as such."""
    filler = "# " + "x" * 1021 + "\n"
    assert blocks(filler * (MAX_HEADER_BYTES // 1024 - 1) + "a: b\n---\n" + RULE)
    with pytest.raises(ValueError, match=r"\Aline 1025: "):
        parse_denylist((filler * (MAX_HEADER_BYTES // 1024) + "a: b\n---\n" + RULE).encode())


def test_a_line_of_more_than_two_mebibytes_is_refused() -> None:
    """The specification's limit, line end included."""
    longest = RULE.encode().rstrip() + b" a:" + b"x" * MAX_LINE_BYTES
    assert blocks(longest[: MAX_LINE_BYTES - 1] + b"\n")
    with pytest.raises(ValueError, match=r"\Aline 1: it has more than"):
        blocks(longest[:MAX_LINE_BYTES] + b"\n")


PIECES = st.sampled_from(
    [
        "/ipfs/",
        "/ipns/",
        "//",
        "!",
        "/",
        "*",
        DAG,
        KEY,
        SHA1,
        BLAKE3,
        "0" * 64,
        "a.eth",
        " a:b",
        "%",
    ]
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=6).map("".join) | st.text(max_size=80))
@settings(max_examples=1000, deadline=None)
def test_any_line_is_a_rule_or_a_value_error(text: str) -> None:
    """Nothing but ValueError ever comes out of the parser, of a header or of rules."""
    for before, after in (("", ""), ("!", "\n"), ("//", ""), ("/ipns/", "/*"), ("", "\n---\n")):
        try:
            parse_denylist((before + text + after).encode("utf-8", "surrogatepass"))
        except ValueError:
            continue


@given(st.binary(max_size=80))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_list_or_a_value_error(data: bytes) -> None:
    """The same for what is not even text."""
    for before in (b"", b"/ipfs/", b"//", b"a: "):
        try:
            parse_denylist(before + data)
        except ValueError:
            continue


def test_a_rule_takes_little_memory() -> None:
    """A list of a million double hashes, twice the public one's size, stays below 150 MB."""
    rules = 100_000
    data = b"".join(
        b"//" + hashlib.sha256(number.to_bytes(4, "big")).hexdigest().encode() + b"\n"
        for number in range(rules)
    )
    tracemalloc.start()
    try:
        denylist: CompactDenylist = parse_denylist(data)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(denylist) == rules
    assert used / rules < 150
