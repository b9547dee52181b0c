"""The Dockerfile: linted, and its own words run without an image, since none can be pulled here.

What it copies is there, it installs as the README and the Makefile do, its ENTRYPOINT runs under
its own environment, and its HEALTHCHECK tells a service that runs from none."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.files import DEPLOY, ROOT, check
from tests.process import QUIET, running
from tests.world.peers import free_port

PROGRAM = "/opt/content-gateway/bin/"


class Instruction(NamedTuple):
    """One instruction of a Dockerfile: its keyword, and the rest on one line."""

    keyword: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The words of the exec form in it; no shell is asked."""
        words: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return words


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [Instruction(*re.split(r"\s+", line.strip(), maxsplit=1)) for line in lines if line]


def only(keyword: str) -> Instruction:
    """The last instruction of that *keyword*: the one that holds for the image."""
    return [one for one in instructions() if one.keyword == keyword][-1]


def environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", only("ENV").rest))


def here(words: Sequence[str]) -> list[str]:
    """*words* with this checkout's programs in place of the image's."""
    ours = {
        "python": [sys.executable],
        "content-gateway": [sys.executable, "-m", "content_gateway"],
    }
    assert words[0].startswith(PROGRAM)
    return [*ours[words[0].removeprefix(PROGRAM)], *words[1:]]


def test_hadolint_finds_nothing_wrong() -> None:
    """Not even a remark."""
    told = check("hadolint", DEPLOY / "Dockerfile")
    assert (told.returncode, told.stdout) == (0, "")


def test_what_is_copied_is_sent_to_the_builder() -> None:
    """Each source exists, and .dockerignore lets it through; secrets and data are not sent."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    for one in instructions():
        if one.keyword == "COPY" and "--from" not in one.rest:
            for source in one.rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert source in allowed
    for secret in (".env", ".content-gateway", "gateway.toml", ".git"):
        assert not any(fnmatch(secret, pattern) for pattern in allowed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"]} <= set(allowed)


def test_it_installs_as_the_readme_says() -> None:
    """Hashes for everything that comes from elsewhere, nothing beyond for the program itself."""
    runs = [one.words[1:] for one in instructions() if one.keyword == "RUN"]
    installs = [
        [word for word in run if word != "--no-cache-dir"] for run in runs if run[0] == "install"
    ]
    readme, makefile = ((ROOT / name).read_text() for name in ("README.md", "Makefile"))
    assert len(installs) == 2
    for install in installs:
        command = "pip " + " ".join(install)
        assert command in " ".join(readme.split())
    # The lock names everything. Told so, pip takes it at its word; else the first release of
    # something that comes with an extra ends the install: it has no hash, and is looked at first.
    assert makefile.count("--require-hashes") == makefile.count("--no-deps --require-hashes") == 2


def test_no_shell_is_needed() -> None:
    """Everything that the image runs is in the exec form."""
    for one in instructions():
        if one.keyword in ("RUN", "ENTRYPOINT", "CMD", "HEALTHCHECK"):
            assert one.words


def test_it_runs_as_a_number_and_writes_one_folder() -> None:
    """Kubernetes cannot tell whether a user with a name is root."""
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", only("USER").rest)
    assert environment()["CONTENT_GATEWAY_DATA_DIR"] == only("VOLUME").rest == "/data"
    copied = [one.rest for one in instructions() if one.keyword == "COPY" and "/data" in one.rest]
    assert [rest.startswith("--from=build --chown=10001:10001 ") for rest in copied] == [True]


def test_the_description_is_the_project_s() -> None:
    """Its labels, and a Python that the project supports and is tested with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f'licenses="{project["license"]}"' in only("LABEL").rest
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    version = re.findall(r"PYTHON=([\d.]+)-", only("ARG").rest)[0]
    assert f'python-version: "{version}"' in workflow


async def test_its_health_check_tells_a_service_from_none(tmp_path: Path) -> None:
    """The ENTRYPOINT with its CMD and its environment runs; the check is 0 then, and 1 after."""
    port = free_port()
    healthy = here(only("HEALTHCHECK").words)
    healthy[-1] = healthy[-1].replace("127.0.0.1:8081", f"127.0.0.1:{port}")
    program = here(only("ENTRYPOINT").words)
    own = {name: value for name, value in environment().items() if name not in ("PATH",)}
    data = tmp_path / "data"
    more = own | {
        "CONTENT_GATEWAY_HOST": "127.0.0.1",  # tests stay on loopback
        "CONTENT_GATEWAY_DATA_DIR": str(data),
        "CONTENT_GATEWAY_ADMIN__PORT": str(port),
    }
    (command,) = only("CMD").words
    assert _status(healthy) == 1
    async with running(command, data, more, program):
        assert _status(healthy) == 0
    assert _status(healthy) == 1


def _status(command: Sequence[str]) -> int:
    told = subprocess.run(command, capture_output=True, check=False, timeout=30)
    return told.returncode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take a file system's writing away")
def test_its_root_can_be_read_only(tmp_path: Path) -> None:
    """With nothing but its data folder to write, as `read_only: true` has it."""
    data = tmp_path / "data"
    data.mkdir()
    settings = QUIET | {name: value for name, value in environment().items() if name != "PATH"}
    settings |= {"CONTENT_GATEWAY_DATA_DIR": str(data)}
    words = [*here(only("ENTRYPOINT").words), "pin", "add", "bafkqabtimvwgy3yk", "--wait"]
    script = """
    set -e
    mount --bind "$1" "$1"
    mount -o remount,ro,bind /
    mount -o remount,rw,bind "$1"
    ! touch /etc/is-it-read-only 2>/dev/null
    shift
    exec "$@"
    """
    told = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, "bash", str(data), *words],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stderr
    assert "pinned" in told.stdout + told.stderr
