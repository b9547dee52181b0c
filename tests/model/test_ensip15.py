"""ENSIP-15's published test cases, every one of them, through the full parse.

The cases are those that the standard's author publishes with his normalisers; `make peers` brings
them. Most are single labels, which are no domains to us, so each is also given a parent or a child:
ENSIP-15 normalises label by label, and a plain neighbour can neither save nor spoil a label."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from content_gateway.errors import InvalidDomain
from content_gateway.model.domain import MAX_TEXT, DomainName
from tests.world.peers import absent, require_peer

PUBLISHED = 38_614  # with the first entry, which tells the version and is the valid name "version"
PLACES: dict[str, Callable[[str], str]] = {
    "as published": lambda name: name,
    "below eth": lambda name: name + ".eth",
    "above www": lambda name: "www." + name,
}
# What only we demand of a name: DNS has room for 255 bytes, and a domain has two whole labels.
# Checked against the standard's verdict here, so that no limit of ours hides a wrong one.
OUR_OWN = {
    "as published": Counter(
        {"valid, but one label": 21_456, "valid, but empty": 1, "valid, but too long": 1}
    ),
    "below eth": Counter({"valid, but empty": 1, "valid, but too long": 1}),
    "above www": Counter({"valid, but empty": 1, "valid, but too long": 1}),
}


@dataclass(frozen=True)
class Case:
    """One name, and its normal form; None where the standard refuses it."""

    name: str
    normal: str | None


@cache
def cases(file: Path) -> tuple[Case, ...]:
    """The cases in *file*; an entry without `norm` is normal as it stands."""
    entries: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return tuple(
        Case(entry["name"], None if entry.get("error") else entry.get("norm", entry["name"]))
        for entry in entries
    )


@pytest.fixture
def published() -> tuple[Case, ...]:
    """Every published case."""
    file = require_peer("ipfs").parents[1] / "ensip15" / "tests.json"
    return cases(file) if file.exists() else absent("the cases are not there: run `make peers`")


def beyond_our_limits(name: str, normal: str) -> str | None:
    """Why a name that the standard accepts is no domain to us, None if it is one."""
    labels = normal.split(".")
    if "" in labels:
        return "valid, but empty"
    if sum(len(label.encode()) + 1 for label in labels) + 1 > 255 or len(name) > MAX_TEXT:
        return "valid, but too long"
    return "valid, but one label" if len(labels) < 2 else None


def verdict(text: str) -> str | None:
    """The text of the domain, None for InvalidDomain."""
    try:
        return DomainName.parse(text).text
    except InvalidDomain:
        return None


@pytest.mark.parametrize("place", PLACES)
def test_every_published_case_comes_out_as_published(
    published: tuple[Case, ...], place: str
) -> None:
    """A domain is normalised as ENSIP-15 says or refused as ENSIP-15 says, in any position; the
    few that only our own limits refuse are counted, each limit by itself."""
    put = PLACES[place]
    assert len(published) == PUBLISHED
    only_ours: Counter[str] = Counter()
    wrong = []
    for case in published:
        expected = None if case.normal is None else put(case.normal)
        limit = None if expected is None else beyond_our_limits(put(case.name), expected)
        if limit is not None:
            only_ours[limit] += 1
            expected = None
        if (found := verdict(put(case.name))) != expected:
            wrong.append((ascii(case.name), ascii(expected), ascii(found)))
    assert not wrong, (len(wrong), wrong[:5])
    assert only_ours == OUR_OWN[place]


def test_a_normal_name_is_normal_for_ever(published: tuple[Case, ...]) -> None:
    """Parsing what parse returned changes nothing: nobody can be sent in circles."""
    verdicts = [verdict(case.name + ".eth") for case in published if case.normal is not None]
    accepted = [text for text in verdicts if text is not None]
    assert len(accepted) > 10_000
    for text in accepted:
        assert verdict(text) == text, ascii(text)


def test_the_fast_path_decides_as_the_standard_does(published: tuple[Case, ...]) -> None:
    """What is normalised without the library is a valid case, with the normal form published."""
    decided = 0
    for case in published:
        plain = DomainName.parse_plain(PLACES["below eth"](case.name))
        if plain is not None:
            decided += 1
            assert case.normal is not None, ascii(case.name)
            assert plain.text == case.normal + ".eth"
    assert decided > 100
