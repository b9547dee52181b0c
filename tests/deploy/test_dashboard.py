"""The Grafana dashboard: a drawing of metrics that exist, by expressions that Prometheus reads."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from content_gateway.model.content_state import ContentState
from tests.deploy.files import DEPLOY, check
from tests.deploy.metrics import METRICS, OF_THE_LIBRARY
from tests.deploy.queries import labels_of, metrics_of

FOLDER = DEPLOY / "grafana"
BOARD: dict[str, Any] = json.loads((FOLDER / "content-gateway.json").read_text())
# What Grafana puts in before it asks.
FILLED_IN = {"$__rate_interval": "1m", "$instance": ".*"}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in BOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    yield from (one["expr"] for one in BOARD["annotations"]["list"])


def test_every_expression_is_one(tmp_path: Path) -> None:
    """Promtool reads them all, as rules made of them."""
    rules = []
    for number, expression in enumerate(expressions()):
        text = expression
        for variable, value in FILLED_IN.items():
            text = text.replace(variable, value)
        assert "$" not in text
        rules.append({"record": f"expression_{number}", "expr": text})
    path = tmp_path / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    told = check("promtool", "check", "rules", path)
    assert told.returncode == 0, told.stdout


def test_it_shows_all_metrics_and_no_other() -> None:
    """A metric that nobody sees is one that nobody misses."""
    shown = {metric for expression in expressions() for metric in metrics_of(expression)}
    assert shown <= METRICS | OF_THE_LIBRARY
    assert shown >= METRICS


def test_it_asks_for_labels_that_exist() -> None:
    """Of contents, the states that there are."""
    for expression in expressions():
        for label, value in labels_of(expression):
            if label == "state":
                assert value in {state.value for state in ContentState}
            else:
                assert (label, value) in {("instance", "$instance"), ("job", "content-gateway")}


def test_panels_have_what_grafana_reads() -> None:
    """Each its own id, a title, a place on the grid that no other has, and one row above it."""
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == [
        "Now",
        "Traffic",
        "Names",
        "Pins and backend",
        "Process",
    ]
    cells: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert panel["title"]
        assert place["x"] + place["w"] <= 24
        own = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]),
                range(place["y"], place["y"] + place["h"]),
            )
        )
        assert not own & cells, panel["title"]
        cells |= own
    for panel in panels():
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        assert panel["type"] in ("timeseries", "stat")
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_it_asks_whatever_prometheus_there_is() -> None:
    """By a variable: an imported dashboard knows no data source of ours."""
    variables = {one["name"]: one["type"] for one in BOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "instance": "query"}
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(BOARD))
    assert set(sources) == {"${datasource}", "content-gateway"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("provisioning/*/*.yaml")), ids=lambda p: p.stem)
def test_what_grafana_is_given_is_of_its_first_version(path: Path) -> None:
    """And leads to the dashboard and to Prometheus."""
    assert yaml.safe_load(path.read_text())["apiVersion"] == 1
