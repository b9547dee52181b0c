"""`content-gateway serve` as a new operator meets it."""

from pathlib import Path

from tests.cli.command import run
from tests.process import running


async def test_without_a_key_it_is_told_how_to_issue_one(tmp_path: Path) -> None:
    """Before it listens; with one nothing is said."""
    async with running("serve", tmp_path / "data") as serve:
        assert "content-gateway keys create --name NAME" in serve.said
    created = run(tmp_path / "data", "keys", "create", "--name", "team", "--scope", "pin")
    assert created.returncode == 0, created.stderr
    async with running("serve", tmp_path / "data") as serve:
        assert "keys create" not in serve.said


async def test_the_environment_can_name_the_file_of_settings(tmp_path: Path) -> None:
    """As well as `--config`."""
    (tmp_path / "gateway.toml").write_text('keys.mode = "open"\n')
    named = {"CONTENT_GATEWAY_CONFIG": str(tmp_path / "gateway.toml")}
    async with running("serve", tmp_path / "data", named) as serve:
        assert "keys create" not in serve.said
