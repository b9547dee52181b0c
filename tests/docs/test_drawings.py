"""What is drawn in the documents is what the code says."""

from tools.draw_states import DOCUMENT, redrawn


def test_the_state_diagram_is_the_table() -> None:
    """docs/pins.md shows every transition of the table and no other (`make docs` draws it)."""
    document = DOCUMENT.read_text()
    assert redrawn(document) == document
    assert "[*] --> queued" in document
