"""`content-gateway serve` as a new operator meets it."""

import socket
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.process import running


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_without_a_key_it_is_told_how_to_issue_one(tmp_path: Path, workers: str) -> None:
    """Before it listens; with one nothing is said."""
    several = {"CONTENT_GATEWAY_WORKERS": workers}
    async with running("serve", tmp_path / "data", several) as serve:
        assert "content-gateway keys create --name NAME" in serve.said
    created = run(tmp_path / "data", "keys", "create", "--name", "team", "--scope", "pin")
    assert created.returncode == 0, created.stderr
    async with running("serve", tmp_path / "data", several) as serve:
        assert "keys create" not in serve.said


async def test_the_environment_can_name_the_file_of_settings(tmp_path: Path) -> None:
    """As well as `--config`."""
    (tmp_path / "gateway.toml").write_text('keys.mode = "open"\n')
    named = {"CONTENT_GATEWAY_CONFIG": str(tmp_path / "gateway.toml")}
    async with running("serve", tmp_path / "data", named) as serve:
        assert "keys create" not in serve.said


@pytest.mark.parametrize(("setting", "named"), [("PORT", "host, port"), ("ADMIN__PORT", "admin.")])
def test_a_port_that_is_taken_is_no_wrong_setting(tmp_path: Path, setting: str, named: str) -> None:
    """Whoever has it may leave: the start fails in words, and not with the status of wrong
    settings, after which a service manager would not try again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(tmp_path, "serve", **{"PORT": "0", setting: port})
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(named)
    assert last.endswith(f"cannot listen on 127.0.0.1:{port}: Address already in use")
