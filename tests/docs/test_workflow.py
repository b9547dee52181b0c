"""The GitHub Actions workflow of `docs/tasks/pin-from-ci.md`, run step by step as GitHub would."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import Block, blocks
from tests.service import running_service
from tests.world.peers import absent

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "pin-from-ci.md"
CID = "bafkqabtimvwgy3yk"  # it holds its content itself
SECONDS = 60


def files() -> dict[str, Block]:
    """The files that the page shows, by name."""
    return {block.file: block for block in blocks(PAGE.read_text()) if block.file}


def filled(value: str, context: Mapping[str, str]) -> str:
    """*value* with each `${{ ... }}` replaced; KeyError for one that GitHub would leave empty."""
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda match: context[match[1]], value)


def variables(file: Path) -> dict[str, str]:
    """What steps have left in GITHUB_ENV for those behind them."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def run_job(checkout: Path, context: Mapping[str, str], gateway: str) -> None:
    """Run the steps of the workflow's job in *checkout*, against the service at *gateway*.

    AssertionError with what it printed where a step fails."""
    [job] = yaml.safe_load(files()["pin.yml"].text)["jobs"].values()
    kept = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    left = checkout / "github_env"
    left.write_text("")
    for step in job["steps"]:
        if "run" not in step:
            continue
        told = {name: filled(value, context) for name, value in step.get("env", {}).items()}
        if "GATEWAY" in told:
            told["GATEWAY"] = gateway
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=checkout,
            env=kept | {"GITHUB_ENV": str(left)} | variables(left) | told,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(4 * SECONDS)
async def test_the_workflow_pins_the_build_under_its_commit(tmp_path: Path) -> None:
    """Run again for another commit it is still one pin, which says the new commit."""
    if shutil.which("jq") is None:
        absent("jq is not on this machine")
    for name, text in {
        "pin.sh": files()["pin.sh"].text,
        "build.sh": f"#!/bin/sh\necho {CID} >build.cid\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    async with running_service(tmp_path / "data") as service:
        for commit in ("3f2a9c1", "77e01bb"):
            context = {"secrets.CONTENT_GATEWAY_KEY": "ci", "github.sha": commit}
            await asyncio.to_thread(run_job, tmp_path, context, service.url)
            [pin] = (await service.ask("GET", "/ipfs/pin/ls", key="ci")).json["results"]
            assert (pin["cid"], pin["status"]) == (CID, "pinned")
            assert (pin["name"], pin["meta"]) == ("site", {"commit": commit})
