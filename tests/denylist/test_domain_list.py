"""The list of names: one domain a line, and everything below a wildcard."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.denylist.domain_list import DomainList, parse_domains
from content_gateway.model.domain import DomainName

LIST = """
# what we do not serve
phish.eth
  Shouting.ETH\t# whoever it was

bücher.eth
*.below.example.eth
*.onlybelow
"""


def blocks(names: DomainList, text: str) -> bool:
    return names.blocks(DomainName.parse(text).text)


@pytest.mark.parametrize(
    "name",
    [
        "phish.eth",
        "PHISH.eth",
        "shouting.eth",
        "BÜCHER.eth",
        "a.below.example.eth",
        "a.b.c.below.example.eth",
        "any.onlybelow",
    ],
)
def test_a_listed_name_is_blocked(name: str) -> None:
    """Names are normalised on both sides; a wildcard reaches any depth."""
    assert blocks(parse_domains(LIST.encode()), name)


@pytest.mark.parametrize(
    "name",
    [
        "www.phish.eth",
        "aphish.eth",
        "phish.eth.link",
        "below.example.eth",
        "xbelow.example.eth",
        "example.eth",
        "onlybelow.eth",
    ],
)
def test_no_other_name_is(name: str) -> None:
    """Neither what lies below a plain entry, nor what a wildcard hangs from."""
    assert not blocks(parse_domains(LIST.encode()), name)


def test_a_name_and_all_below_it_take_two_lines() -> None:
    """Each says what it says; a name listed twice is listed once."""
    names = parse_domains(b"a.eth\n*.a.eth\r\na.eth")
    assert blocks(names, "a.eth")
    assert blocks(names, "b.a.eth")
    assert len(names) == 2


def test_a_list_of_comments_blocks_nothing() -> None:
    """An empty file is refused: a download that failed leaves one behind."""
    assert not blocks(parse_domains(b"# nothing yet"), "a.eth")
    with pytest.raises(ValueError, match="empty"):
        parse_domains(b"")


@pytest.mark.parametrize(
    "line",
    [
        "eth",
        "a..eth",
        "*",
        "*.",
        "*.*.eth",
        "a.*.eth",
        "*a.eth",
        ".a.eth",
        "a.eth b.eth",
        "a.eth,b.eth",
        "!a.eth",
        "/ipns/a.eth",
        "https://a.eth",
        "a.eth/",
        "\xff.eth",
    ],
)
def test_a_line_that_is_no_domain_is_named(line: str) -> None:
    """A wrong line fails the whole list."""
    with pytest.raises(ValueError, match=r"\Aline 3: ."):
        parse_domains(b"# one\na.eth\n" + line.encode("latin-1") + b"\n")


@given(st.text(max_size=40), st.sampled_from(["", "*.", "a.eth\n", "a.eth "]))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_list_or_a_value_error(text: str, before: str) -> None:
    """Nothing but ValueError ever comes out of the parser."""
    for after in ("", ".eth"):
        try:
            parse_domains((before + text + after).encode("utf-8", "surrogatepass"))
        except ValueError:
            continue
