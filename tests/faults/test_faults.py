"""The short form of `make faults`: rows that no other deep test runs, with smaller numbers.

The rest is in the deep tests in full: `tests/faults/test_kill.py`, `tests/faults/test_hostile.py`,
`tests/mutations`, `tests/http/test_schemathesis.py`, `tests/sqlite/test_taken_away.py`. Those that
measure a rate or a tail are left to `make faults`, as a busy machine would fail them."""

import pytest

from tests.faults.__main__ import DATABASES, within_deadline
from tests.faults.row import Row
from tests.faults.rows.all_rows import ROWS

pytestmark = pytest.mark.deep

SHORT = (
    *("same-pins", "lost-answers", "wiped-cluster", "full-disk", "forged-keys", "contract"),
    *("private-addresses", "rolling-restart", "ledger-gone"),
)
IN_FULL = {("ledger-gone", "sqlite")}  # by tests/sqlite/test_taken_away.py
CASES = [
    pytest.param(row, database, id=f"{row.name}-{database}")
    for row in ROWS
    for database in (DATABASES[:1] if row.apart else DATABASES)
    if row.name in SHORT and (row.name, database) not in IN_FULL
]


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("row", "database"), CASES)
async def test_the_number_of_a_fault_holds(row: Row, database: str) -> None:
    """What must hold of the row does, in the running command and on both ledgers."""
    figure = await within_deadline(row, database, "short")
    assert figure.holds, figure.text
