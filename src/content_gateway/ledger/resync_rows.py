"""Converts rows of the table `resyncs` to values and back. No I/O."""

from typing import Any, Final

import msgspec

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ResyncReport

REPORT: Final = "started_at, ended_at, listed, missing, unmanaged, sample, under_replicated"


def report_of(row: tuple[Any, ...]) -> ResyncReport:
    """The value of a row with the columns REPORT."""
    started_at, ended_at, listed, missing, unmanaged, sample, under_replicated = row
    cids = tuple(Cid.parse(text) for text in msgspec.json.decode(sample, type=list[str]))
    return ResyncReport(
        *(started_at / 1000, ended_at / 1000, listed, missing, unmanaged, cids),
        under_replicated=under_replicated,
    )


def report_columns(report: ResyncReport) -> tuple[Any, ...]:
    """The values of the columns REPORT."""
    sample = msgspec.json.encode([str(cid) for cid in report.sample]).decode()
    return (
        *(round(report.started_at * 1000), round(report.ended_at * 1000)),
        *(report.listed, report.missing, report.unmanaged, sample, report.under_replicated),
    )
