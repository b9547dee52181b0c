"""/version and /spec: the description as it stands on disk, whatever else is down."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from content_gateway.errors import ContractBroken, WrongSettings
from content_gateway.http.openapi import Contract, understand
from content_gateway.settings.model import PACKAGED_SPEC
from tests.lag import MOST_LAG, loop_lag
from tests.service import Service, running_service

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(PACKAGED_SPEC, tmp_path / "spec.yaml"))


@pytest.fixture
async def service(tmp_path: Path, spec_file: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path / "data", spec_file=spec_file) as service:
        yield service


async def test_the_spec_is_the_whole_description(service: Service, spec_file: Path) -> None:
    """GET /spec is spec.yaml converted to JSON, member for member."""
    answer = await service.ask("GET", "/spec", key=None)
    assert answer.json == yaml.safe_load(spec_file.read_text())
    assert answer.json["info"]["version"] == "0.1.0"


async def test_a_date_stays_text(service: Service, spec_file: Path) -> None:
    """YAML would read an unquoted date as a date; JSON has none, so it is served as written."""
    text = spec_file.read_text().replace("title: Content Gateway", "title: 2026-11-20", 1)
    spec_file.write_text(text)
    assert (await service.ask("GET", "/spec", key=None)).json["info"]["title"] == "2026-11-20"


async def test_an_edit_shows_in_the_next_answer(service: Service, spec_file: Path) -> None:
    """A changed version or summary on disk is served at once, with a new validator."""
    before = await service.ask("GET", "/spec", key=None)
    text = spec_file.read_text().replace("version: 0.1.0", "version: 7.8.9", 1)
    spec_file.write_text(text.replace("summary: Version of the service", "summary: Which one"))
    assert (await service.ask("GET", "/version", key=None)).json == {"version": "7.8.9"}
    after = await service.ask("GET", "/spec", key=None)
    assert after.json["info"]["version"] == "7.8.9"
    assert after.json["paths"]["/version"]["get"]["summary"] == "Which one"
    assert after.headers["etag"] != before.headers["etag"]


@pytest.mark.parametrize(
    ("asked", "is_gzip"),
    [
        (None, False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("*", True),
        ("gzip;q=0, *", False),
        ("br", False),
        ("", False),
    ],
)
async def test_the_spec_is_compressed_where_asked_for(
    service: Service, asked: str | None, is_gzip: bool
) -> None:
    """Each coding has a validator of its own; answers with a key are never compressed."""
    fields = [] if asked is None else [("Accept-Encoding", asked)]
    answer = await service.ask("GET", "/spec", key=None, headers=fields)
    plain = await service.ask("GET", "/spec", key=None)
    assert answer.headers["vary"] == "accept-encoding"
    assert ("content-encoding" in answer.headers) == is_gzip
    assert (answer.headers["etag"] != plain.headers["etag"]) == is_gzip
    assert answer.body == plain.body
    assert (int(answer.headers["content-length"]) < len(plain.body)) == is_gzip
    known = [*fields, ("If-None-Match", answer.headers["etag"])]
    assert (await service.ask("GET", "/spec", key=None, headers=known)).status == 304
    keyed = await service.ask("GET", "/ipfs/pin/ls", headers=fields)
    assert "content-encoding" not in keyed.headers


async def test_a_weight_that_is_none_is_refused(service: Service) -> None:
    """Whoever writes it would not know which coding is sent."""
    answer = await service.ask("GET", "/spec", headers=[("Accept-Encoding", "gzip;q=nan")])
    assert (answer.status, answer.json["code"]) == (400, "bad-request")


@pytest.mark.parametrize("path", ["/version", "/spec"])
async def test_a_known_body_is_not_sent_again(service: Service, path: str) -> None:
    """If-None-Match with the current validator gets 304 and no body."""
    etag = (await service.ask("GET", path, key=None)).headers["etag"]
    for value in (etag, f'"other", W/{etag}', "*"):
        answer = await service.ask("GET", path, key=None, headers=[("If-None-Match", value)])
        assert (answer.status, answer.body) == (304, b"")
        assert "content-length" not in answer.headers
    answer = await service.ask("GET", path, key=None, headers=[("If-None-Match", '"other"')])
    assert answer.status == 200


def alias_bomb() -> str:
    """Nine levels of aliases, each nine times the one before: 3.5 GB once they are written out."""
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    return "\n".join(["l0: &l0 [x, x, x, x, x, x, x, x, x]", *levels])


DAMAGE = {
    "gone": None,
    "empty": "",
    "words": "just words",
    "cut": "openapi: [",
    "list": "- a list",
    "no version": "info: {title: x}\npaths: {}",
    "number": "info: {title: x, version: 1.2}\npaths: {}",
    "no paths": "info: {title: x, version: 1.2.3}\npaths: [a]",
    "own alias": "a: &a [*a]\ninfo: {title: x, version: 1.2.3}\npaths: {}",
    "control": "\x00",
    "deep": "[" * 5000,
    "bomb": alias_bomb() + "\ninfo: {title: x, version: 1.2.3}\npaths: {}",
    "long alias": "a: &a " + "x" * 9_000 + "\nb: [" + "*a, " * 9_000 + "]",
    "large": "a: [" + "x, " * 1_400_000 + "]",
}


def put(path: Path, text: str | None) -> None:
    path.unlink() if text is None else path.write_text(text)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_broken_description_leaves_the_last_good_one(
    service: Service, spec_file: Path, damage: str
) -> None:
    """Without a usable spec.yaml the last good one serves, which the log says once; the event loop
    is not held up, and a mended file shows in the next answer."""
    before = await service.ask("GET", "/spec", key=None)
    async with loop_lag() as lag:
        with capture_logs() as logs:
            put(spec_file, DAMAGE[damage])
            # Not through the contract's check, which takes its own time on this loop.
            for _ in range(3):
                async with service.session.get(service.url + "/version") as answer:
                    assert (answer.status, await answer.json()) == (200, {"version": "0.1.0"})
                async with service.session.get(service.url + "/spec") as answer:
                    assert await answer.read() == before.body
    assert lag.worst < MOST_LAG
    assert [line["setting"] for line in logs if line["log_level"] == "error"] == ["spec_file"]
    mended = PACKAGED_SPEC.read_text().replace("version: 0.1.0", "version: 7.8.9", 1)
    spec_file.unlink(missing_ok=True)
    spec_file.write_text(mended)
    assert (await service.ask("GET", "/version", key=None)).json == {"version": "7.8.9"}


async def test_a_fifo_in_its_place_stops_nobody(service: Service, spec_file: Path) -> None:
    """To open one would wait for whoever writes to it."""
    spec_file.unlink()
    os.mkfifo(spec_file)
    assert (await service.ask("GET", "/version", key=None)).json == {"version": "0.1.0"}
    assert (await service.pin(CID)).status == 200


async def test_aliases_within_reason_are_followed(service: Service, spec_file: Path) -> None:
    """An anchor that stands for a schema may be used again and again."""
    more = "\nx-one: &one {a: [b, c]}\nx-two: [*one, *one, *one]\n"
    spec_file.write_text(PACKAGED_SPEC.read_text() + more)
    one = {"a": ["b", "c"]}
    assert (await service.ask("GET", "/spec", key=None)).json["x-two"] == [one, one, one]


async def test_a_description_that_is_broken_at_the_start_does_not_stop_it(tmp_path: Path) -> None:
    """A restart with a broken spec.yaml serves everything but /version and /spec."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("openapi: [")
    async with running_service(tmp_path / "data", spec_file=broken) as service:
        assert (await service.ask("GET", "/version", key=None)).status == 500
        assert (await service.pin(CID)).status == 200


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("operationId: addPin", "operationId: addPins", "addPins has no handler"),
        ("operationId: addPin", "operationId: addPins", "addPin is missing"),
        ("operationId: addPin", "operationId: getSpec", "getSpec is described twice"),
        ("x-scope: pin", "x-scope: resolve", "addPin is given another x-scope"),
        ("security:\n        - apiKey: []", "security: []", "is given another x-scope or security"),
        ("- bearer: []", "- cookie: []", "psaAddPin is given another x-scope or security"),
    ],
)
async def test_operations_and_handlers_match(
    tmp_path: Path, spec_file: Path, old: str, new: str, said: str
) -> None:
    """The start fails, naming the operation, when operations and handlers do not match."""
    spec_file.write_text(spec_file.read_text().replace(old, new))
    with pytest.raises(WrongSettings, match=said):
        async with running_service(tmp_path / "data", spec_file=spec_file):
            pass


@pytest.mark.parametrize(
    "security", ["- bearer: []\n        - apiKey: []", "- {bearer: [], apiKey: []}", "- {}"]
)
def test_an_operation_has_one_security_scheme(spec_file: Path, security: str) -> None:
    """Whether either of two is enough, or both are needed, would have to be guessed."""
    text = spec_file.read_text().replace("- bearer: []", security)
    with pytest.raises(ValueError, match="other than one security scheme"):
        understand(text)


async def test_a_broken_description_is_a_new_error_each_time(spec_file: Path) -> None:
    """An error that is raised again and again would keep every request it passed through."""
    spec_file.write_text("openapi: [")
    contract = Contract(spec_file)
    errors = []
    for _ in range(2):
        with pytest.raises(ContractBroken) as broken:
            await contract.current()
        errors.append(broken.value)
    assert errors[0] is not errors[1]
    assert errors[0].__cause__ is errors[1].__cause__
    assert errors[1].__cause__ is not None
    assert errors[1].__cause__.__traceback__ is None
