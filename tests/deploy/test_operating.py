"""docs/operating.md: its commands do what it says, and its tables have all that there is."""

import re
from pathlib import Path

import pytest

from tests.deploy.container import booted, require_container
from tests.deploy.events import events_of
from tests.deploy.files import ROOT
from tests.deploy.metrics import METRICS
from tests.deploy.test_alerts import rules
from tests.docs.blocks import Step, is_as_told, outputs, steps

PAGE = (ROOT / "docs" / "operating.md").read_text()


def table(section: str) -> list[tuple[str, ...]]:
    """The rows of the first table below the heading *section*, the names without backticks."""
    rest = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in rest.splitlines() if line.startswith("|")]
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines[2:]]
    return [tuple(re.sub(r"^`(.*)`$", r"\1", cell) for cell in row) for row in rows]


def test_each_log_event_is_on_the_page() -> None:
    """With its level, and no event that the code does not have."""
    told = [(level, event) for level, event, _ in table("Log events")]
    assert len(told) == len(set(told))
    assert set(told) == events_of(ROOT / "src" / "content_gateway")


def test_each_metric_is_on_the_page() -> None:
    """By its name without the prefix, and none that there is not."""
    told = ["content_gateway_" + name for name, _ in table("Metrics")]
    assert len(told) == len(set(told))
    assert set(told) == METRICS


def test_each_alert_is_on_the_page() -> None:
    """What to do about it, in the order of the rules' names or another; and none that is gone."""
    told = [name for name, _ in table("Alerts")]
    assert sorted(told) == sorted(rule["alert"] for rule in rules())


@pytest.mark.parametrize("section", ["Log events", "Metrics", "Alerts", "What is lost when"])
def test_each_row_says_what_to_do(section: str) -> None:
    """In at least two words; and each reference to an event or an alert has its row."""
    for row in table(section):
        assert len(row[-1].split()) >= 2, row
        for name in re.findall(r"`(ContentGateway\w+)`", row[-1]):
            assert name in [row[0] for row in table("Alerts")]


def test_references_lead_somewhere() -> None:
    """Each link within the documents has its heading, or its file."""
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        page = ROOT / "docs" / path if path else ROOT / "docs" / "operating.md"
        assert page.exists(), target
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}
        assert not anchor or anchor in anchors, target


@pytest.mark.timeout(300)
async def test_the_service_is_installed_as_the_page_says(tmp_path: Path) -> None:
    """Each command in order, as root, in a booted system; what is shown is what they print."""
    require_container()
    found = steps(PAGE)
    said = await booted(tmp_path, _script(found), {}, is_installed=False)
    printed = outputs(said)
    assert len(printed) == len(found), said
    for step, output in zip(found, printed, strict=True):
        if step.printed is not None:
            assert is_as_told(output, step.printed), f"line {step.line}:\n{said}"


def _script(found: list[Step]) -> str:
    """As a person runs them; it ends where a command fails."""
    parts = [
        "set -euo pipefail",
        "exec 2>/root/why; trap 'cat /root/why' EXIT",
        "end() { echo; echo '--- end of step'; }",
    ]
    for step in found:
        parts += [step.commands, "end"]
    return "\n".join(parts)
