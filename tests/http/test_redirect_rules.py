"""The rules of a site for paths that are not there (`_redirects`, IPIP-290)."""

import pytest

from content_gateway.http.redirect_rules import Target, parse_rules, target_of
from tests.cases import case

RULES = """
# comments and empty lines are passed over

/one.html              /two.html
/moved                 https://elsewhere.example/place   308
/posts/:year/:slug     /blog/:year/:slug.html            302
/files/*               /archive/:splat                   301
/gone                  /gone.html                        410
/app/*                 /app/index.html                   200
/*                     /404.html                         404
"""
LEADS = {
    "one.html": Target("/two.html", 301),
    "moved": Target("https://elsewhere.example/place", 308),
    "posts/2026/hello": Target("/blog/2026/hello.html", 302),
    "posts/2026/h\u00e9 \r\n:x": Target("/blog/2026/h%C3%A9%20%0D%0A:x.html", 302),
    "files/a/b": Target("/archive/a/b", 301),
    "files": Target("/archive/", 301),
    "gone": Target("/gone.html", 410),
    "app/any/where": Target("/app/index.html", 200),
    "posts/2026": Target("/404.html", 404),
    "": Target("/404.html", 404),
}


def test_the_first_rule_that_fits_counts() -> None:
    """With what its placeholders stood for, encoded again where it becomes a URL."""
    rules = parse_rules(RULES)
    for path, target in LEADS.items():
        with case(path):
            assert target_of(rules, [part for part in path.split("/") if part]) == target
    assert target_of(rules[:3], ["nothing"]) is None


@pytest.mark.parametrize(
    "line",
    [
        "/alone",
        "one /two",
        "/one /two 301 country=fr",
        "/one /two 200!",
        "/one /two 500",
        "/one /two ²",
        "/a/*/b /two",
        "/** /two",
        "/one two",
        "/one javascript:alert(1)",
        "/:name/:name /two",
        "/one https://elsewhere.example/ 200",
    ],
)
def test_what_is_no_rule_is_told_by_its_line(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: "):
        parse_rules(f"/fine /there\n{line}\n")


def test_many_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        parse_rules("/a /b\n" * 5_000)
