"""The production recipe of the README ends in a 200, for whoever pastes it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import ROOT
from tests.docs.blocks import Step, is_as_told, outputs, script, steps
from tests.process import QUIET
from tests.world.peers import free_port

SECTION = "\n## In production\n"


def recipe() -> list[Step]:
    page = (ROOT / "README.md").read_text()
    return steps(page.partition(SECTION)[2].partition("\n## ")[0])


def by_environment(found: list[Step]) -> tuple[list[Step], dict[str, str]]:
    """The recipe without its file, and the same settings as the environment has them."""
    page = (ROOT / "README.md").read_text()
    table = tomllib.loads(page.partition("```toml gateway.toml\n")[2].partition("```")[0])
    rest = [step for step in found if "gateway.toml <<" not in step.commands]
    for step in rest:
        lines = step.commands.splitlines()
        step.commands = "\n".join(line for line in lines if "_CONFIG=" not in line)
    return rest, dict(_variables(table))


def _variables(
    table: dict[str, Any], prefix: str = "CONTENT_GATEWAY_"
) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _variables(value, f"{prefix}{name.upper()}__")
        else:
            yield prefix + name.upper(), value if isinstance(value, str) else json.dumps(value)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("source", ["file", "environment"])
@pytest.mark.parametrize("user", ["this user", "a service user"])
async def test_it_ends_in_a_200(user: str, source: str, tmp_path: Path) -> None:
    """As root and as a user of its own; settings in a file, and in the environment alone."""
    found, more = by_environment(recipe()) if source == "environment" else (recipe(), {})
    found = [step for step in found if ".venv" not in step.commands]
    port = free_port()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "content-gateway"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m content_gateway "$@"\n')
    program.chmod(0o755)
    text = script(found).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    (tmp_path / "recipe").write_text(text + '\nkill "$staying"\n')
    environment = {
        **{name: value for name, value in os.environ.items() if "GATEWAY" not in name},
        **more,
        **QUIET,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
        "PORT": str(port),
        "CONTENT_GATEWAY_PORT": str(port),
    }
    command = [*_as(user, tmp_path), "bash", "recipe"]
    told = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    printed = outputs(told.stdout)
    assert len(printed) == len(found), told.stderr
    assert found[-1].printed is not None
    assert is_as_told(printed[-1], found[-1].printed), printed[-1]
    assert (tmp_path / "gateway-data" / "ledger.sqlite").exists()


def _as(user: str, folder: Path) -> list[str]:
    """What runs a command as *user*, who can write *folder*.

    A service user has no name here, and keeps the right to read the checkout, wherever it is."""
    if user == "this user":
        return []
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    os.chown(folder, 54_321, 54_321)
    for parent in folder.parents[:2]:
        parent.chmod(0o755)
    keep = "-all,+dac_read_search"
    ids = ["--reuid=54321", "--regid=54321", "--clear-groups"]
    capabilities = [f"--inh-caps={keep}", f"--ambient-caps={keep}", f"--bounding-set={keep}"]
    return [str(shutil.which("setpriv")), *ids, *capabilities]
