"""The alert rules: promtool says whether they are right, and when each of them fires."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from content_gateway.model.content_state import ContentState
from content_gateway.settings.model import PACKAGED_SPEC
from tests.deploy.files import DEPLOY, ROOT, check
from tests.deploy.metrics import METRICS, OF_THE_LIBRARY
from tests.deploy.queries import labels_of, metrics_of

FOLDER = DEPLOY / "prometheus"
RULES, CASES = FOLDER / "content-gateway.rules.yaml", FOLDER / "content-gateway.tests.yaml"


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def cases() -> Iterator[tuple[str, set[str]]]:
    """Each case by its name, and the alerts that are expected to fire in it."""
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        samples = [
            one for expected in case["promql_expr_test"] for one in expected["exp_samples"] or ()
        ]
        yield case["name"], set(re.findall(r'alertname="(\w+)"', str(samples)))


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", RULES), ("check", "config", FOLDER / "prometheus.yaml")],
    ids=["rules", "config"],
)
def test_promtool_finds_nothing_wrong(arguments: tuple[str, str, Path]) -> None:
    """Neither in the rules nor in what Prometheus is told to scrape."""
    told = check("promtool", *arguments)
    assert told.returncode == 0, told.stdout
    assert "SUCCESS" in told.stdout


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    """In each case of content-gateway.tests.yaml the alerts fire that it expects, and no other."""
    told = check("promtool", "test", "rules", CASES)
    assert told.returncode == 0, told.stdout


def test_each_alert_has_a_case_and_a_counter_case() -> None:
    """One in which it alone fires, and one in which nothing does."""
    expected = dict(cases())
    for rule in rules():
        name = rule["alert"]
        assert expected[f"{name} fires"] == {name}
        assert expected[f"{name} stays quiet"] == set()
    assert expected["nothing is wrong"] == set()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_reads_what_the_service_tells(rule: dict[str, Any]) -> None:
    """Metrics that exist, and values of their labels that can be."""
    assert metrics_of(rule["expr"]) <= METRICS | OF_THE_LIBRARY
    errors = (ROOT / "docs" / "errors.md").read_text()
    known = {
        "code": set(re.findall(r"^## (\S+)$", errors, re.MULTILINE)),
        "route": set(yaml.safe_load(PACKAGED_SPEC.read_text())["paths"]),
        "state": {state.value for state in ContentState} | {"wanted", "serving"},
        "level": {"warning", "error", "critical"},
        "outcome": {"answered", "absent", "timeout", "invalid", "unavailable", "error"},
        "status": {"5.."},
        "job": {"content-gateway"},
    }
    for label, value in labels_of(rule["expr"]):
        assert value in known[label], f"{label}={value}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_how_grave_it_is_and_what_of(rule: dict[str, Any]) -> None:
    """In the two words of the page, and a sentence that names the service."""
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert "{{ $labels.instance }}" in rule["annotations"]["summary"]
