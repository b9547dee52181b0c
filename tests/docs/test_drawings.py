"""What is drawn in the documents is what the code says."""

from collections.abc import Callable

import pytest

from tools.docs import DOCS, DRAWINGS, redrawn


@pytest.mark.parametrize(("page", "name", "draw"), DRAWINGS, ids=[name for _, name, _ in DRAWINGS])
def test_a_drawing_is_what_the_code_says(page: str, name: str, draw: Callable[[], str]) -> None:
    """No more and no less; `make docs` draws them again."""
    document = (DOCS / page).read_text()
    assert redrawn(document, name, draw()) == document
    assert len(draw().splitlines()) > 10
