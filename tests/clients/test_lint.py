"""The description as linters see it."""

import os
import subprocess
from pathlib import Path

import pytest

from content_gateway.settings.model import PACKAGED_SPEC
from tests.clients.generators import program

pytestmark = pytest.mark.deep

# Redocly looks for news of itself otherwise.
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


def lint(folder: Path, *command: str) -> str:
    """What the linter says of spec.yaml; fails where it finds an error."""
    done = subprocess.run(
        ["node", *command],
        cwd=folder,
        env=os.environ | QUIET,
        capture_output=True,
        check=False,
        timeout=100,
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_redocly_finds_no_error(tmp_path: Path) -> None:
    """By its recommended rules, warnings told."""
    said = lint(tmp_path, program("@redocly/cli/bin/cli.js"), "lint", str(PACKAGED_SPEC))
    assert "Your API description is valid" in said
    assert "warning" not in said.split("validating")[1], said


def test_spectral_finds_no_error(tmp_path: Path) -> None:
    """By its rules for OpenAPI, of which no warning is left."""
    (tmp_path / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    spectral = program("@stoplight/spectral-cli/dist/index.js")
    said = lint(tmp_path, spectral, "lint", "--fail-severity", "warn", str(PACKAGED_SPEC))
    assert "No results with a severity" in said


def test_a_linter_would_find_an_error(tmp_path: Path) -> None:
    """The checks above can fail."""
    broken = tmp_path / "spec.yaml"
    broken.write_text(PACKAGED_SPEC.read_text().replace("schemas/Problem'", "schemas/Nothing'", 1))
    with pytest.raises(AssertionError, match="Nothing"):
        lint(tmp_path, program("@redocly/cli/bin/cli.js"), "lint", str(broken))
