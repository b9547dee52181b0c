"""Logs: readable by people or machines, and never with a key in them."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from content_gateway.api_keys import mint
from content_gateway.telemetry import logs


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_key_is_never_logged(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    """Not as a value, not in an error's words, not among the local variables of a traceback."""
    logs.configure("info", log_format)
    key = mint()
    log = structlog.get_logger()
    try:
        raise ValueError(f"cannot use {key}")
    except ValueError as error:
        log.error("refused", key=key, exc_info=error)
    logging.getLogger("aiohttp").error("refused %s", key)
    written = capsys.readouterr().err
    assert "ValueError" in written
    assert written.count("cg_********") >= 3
    assert key not in written
    assert key[3:20] not in written


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine reads each line by itself."""
    logs.configure("info", "json")
    structlog.get_logger().info("one", number=1)
    structlog.get_logger().debug("not this one")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["number"] == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_words_of_others_do_not_steer_a_terminal(
    capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    """A server's words are one line of text, whatever they are; a traceback has its own lines."""
    logs.configure("info", log_format)
    log = structlog.get_logger()
    log.warning("upstream failed", reason="a\x1b[2Jb\rc\x9bd\u2028e\nf\x00")
    written = capsys.readouterr().err
    assert len(written.splitlines()) == 1
    assert written.removesuffix("\n").isprintable()
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        log.error("unhandled error", exc_info=error)
    written = capsys.readouterr().err
    assert "\x1b" not in written
    assert log_format == "json" or len(written.splitlines()) > 3
