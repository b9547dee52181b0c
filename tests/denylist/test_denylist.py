"""The denylist as callers see it: what each check forbids, and that files may change."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import Blocked, WrongSettings
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from tests.clock import Clock
from tests.denylist.spelling import legacy

CID = Cid.parse("bafybeihvvulpp4evxj7x7armbqcyg6uezzuig6jp3lktpbovlqfkuqeuoq")
KEY = IpnsName.parse("k51qzi5uqu5dhmzyv3zac033i7rl9hkgczxyl81lwoukda2htteop7d3x0y1mf")
DOMAIN = DomainName.parse("domain.example")
DNSLINK = IpnsName.parse("domain.example")

Check = Callable[[Denylist], None]
CHECKS: dict[str, Check] = {
    "name": lambda denylist: denylist.check_name(DOMAIN),
    "cid": lambda denylist: denylist.check_cid(CID),
    "key": lambda denylist: denylist.check_ipns(KEY),
    "dnslink": lambda denylist: denylist.check_ipns(DNSLINK),
}


def blocked(denylist: Denylist) -> set[str]:
    """Which of the checks refuse."""
    refused = set()
    for kind, check in CHECKS.items():
        try:
            check(denylist)
        except Blocked:
            refused.add(kind)
    return refused


@pytest.fixture
def content_file(tmp_path: Path) -> Path:
    return tmp_path / "operator.deny"


@pytest.fixture
def domains_file(tmp_path: Path) -> Path:
    return tmp_path / "names.txt"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def denylist(content_file: Path, domains_file: Path, clock: Clock) -> Iterator[Denylist]:
    """Both files, which block nothing yet."""
    content_file.write_text("# nothing\n")
    domains_file.write_text("# nothing\n")
    denylist = Denylist(content_file, domains_file, clock=clock)
    yield denylist
    denylist.close()


def put(path: Path, text: str) -> None:
    """Replace the file in one step."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_without_files_nothing_is_blocked() -> None:
    """No files are configured, as by default."""
    denylist = Denylist(None, None)
    assert blocked(denylist) == set()
    denylist.close()


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        (f"/ipfs/{CID}", {"cid"}),
        (legacy(f"{CID}/"), {"cid"}),
        (f"/ipns/{KEY}", {"key"}),
        ("/ipns/domain.example", {"name", "dnslink"}),
        (legacy("domain.example/"), {"name", "dnslink"}),
    ],
)
def test_a_denylist_blocks_by_kind(content_file: Path, rule: str, kinds: set[str]) -> None:
    """A domain is blocked wherever it stands; content and keys are blocked as such."""
    content_file.write_text(rule)
    assert blocked(Denylist(content_file, None)) == kinds


def test_a_listed_name_is_blocked_as_dnslink_too(domains_file: Path) -> None:
    """Whoever blocks a domain means it however it is reached."""
    for line in ("domain.example", "*.example"):
        put(domains_file, line)
        assert blocked(Denylist(None, domains_file)) == {"name", "dnslink"}


def test_an_exception_lifts_only_its_own_list(content_file: Path, domains_file: Path) -> None:
    """Two files, perhaps of two people: either of them blocks."""
    content_file.write_text("/ipns/domain.example\n!/ipns/domain.example")
    domains_file.write_text("domain.example")
    assert blocked(Denylist(content_file, None)) == set()
    assert blocked(Denylist(content_file, domains_file)) == {"name", "dnslink"}


def test_the_caller_hears_what_kind_of_thing_is_blocked(content_file: Path) -> None:
    """And no more: which rule it was is the operator's business."""
    content_file.write_text(f"/ipfs/{CID}\n/ipns/{KEY}\n/ipns/{DOMAIN}")
    details = {}
    for kind, check in CHECKS.items():
        with pytest.raises(Blocked) as refused:
            check(Denylist(content_file, None))
        details[kind] = refused.value.detail
    assert details == {
        "name": "This domain is blocked by the operator.",
        "cid": "This content is blocked by the operator.",
        "key": "This IPNS name is blocked by the operator.",
        "dnslink": "This IPNS name is blocked by the operator.",
    }


def test_an_edit_of_either_file_shows_within_a_second(
    denylist: Denylist, content_file: Path, domains_file: Path, clock: Clock
) -> None:
    """No restart, whether something is blocked or freed."""
    assert blocked(denylist) == set()
    put(content_file, f"/ipfs/{CID}")
    put(domains_file, "domain.example")
    clock.pass_(1)
    assert blocked(denylist) == {"cid", "name", "dnslink"}
    put(content_file, "# freed")
    clock.pass_(1)
    assert blocked(denylist) == {"name", "dnslink"}


@pytest.mark.parametrize("broken", ["oops", "", None])
def test_a_list_that_breaks_still_blocks(
    denylist: Denylist, content_file: Path, domains_file: Path, clock: Clock, broken: str | None
) -> None:
    """Wrong, empty or gone: the last good list stays, and the log has one alarm for each file."""
    put(content_file, f"/ipfs/{CID}")
    put(domains_file, "domain.example")
    clock.pass_(1)
    assert blocked(denylist) == {"cid", "name", "dnslink"}
    with structlog.testing.capture_logs() as logs:
        for path in (content_file, domains_file):
            if broken is None:
                path.unlink()
            else:
                put(path, broken)
        for _ in range(3):
            clock.pass_(1)
            assert blocked(denylist) == {"cid", "name", "dnslink"}
    alarms = [entry["setting"] for entry in logs if entry["log_level"] == "error"]
    assert sorted(alarms) == ["denylist.content_file", "denylist.domains_file"]


@pytest.mark.parametrize("setting", ["denylist.content_file", "denylist.domains_file"])
@pytest.mark.parametrize("text", ["oops", None])
def test_the_start_fails_without_the_lists(tmp_path: Path, setting: str, text: str | None) -> None:
    """Nothing is served unblocked because a file was misspelt."""
    path = tmp_path / "list"
    if text is not None:
        path.write_text(text)
    files = (path, None) if setting == "denylist.content_file" else (None, path)
    with pytest.raises(WrongSettings, match=setting):
        Denylist(*files)
