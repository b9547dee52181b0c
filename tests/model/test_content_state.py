"""The table of states: nothing is stuck, nothing is given up, and nothing leaves without a word."""

import re
from itertools import product
from pathlib import Path

import pytest

from content_gateway.model.content_state import TRANSITIONS, ContentState, Event, after

HELD = [state for state in ContentState if state is not ContentState.UNPINNING]
SEEN = [event for event in Event if event.name.startswith("SEEN")]


def reachable(start: ContentState | None, events: list[Event]) -> set[ContentState | None]:
    """Every state that *events*, in any order and number, lead to."""
    found, new = {start}, {start}
    while new:
        new = {after(state, event) for state, event in product(new, events)} - found
        found |= new
    return found


def test_every_state_can_be_reached() -> None:
    """From a content that the ledger does not know, every state is a few events away."""
    assert reachable(None, list(Event)) == {None, *ContentState}


@pytest.mark.parametrize("state", HELD)
def test_whatever_is_held_can_be_released(state: ContentState) -> None:
    """RELEASED leads to UNPINNING from every state."""
    assert after(state, Event.RELEASED) is ContentState.UNPINNING


@pytest.mark.parametrize("state", HELD)
def test_whatever_is_held_can_become_pinned(state: ContentState) -> None:
    """No failure is for ever: a backend that holds the content after all is believed."""
    assert after(state, Event.SEEN_PINNED) is ContentState.PINNED


@pytest.mark.parametrize(("state", "event"), [*product(HELD, SEEN)])
def test_nothing_that_is_seen_ends_a_promise(state: ContentState, event: Event) -> None:
    """Whatever a backend says, a content that somebody holds stays held."""
    assert after(state, event) in HELD


@pytest.mark.parametrize("event", [*SEEN, Event.RELEASED])
def test_what_leaves_stays_on_its_way_out(event: Event) -> None:
    """SEEN_ABSENT ends it; no other status does."""
    wanted = None if event is Event.SEEN_ABSENT else ContentState.UNPINNING
    assert after(ContentState.UNPINNING, event) is wanted


def test_a_promise_begins_again() -> None:
    """What is unknown, or on its way out, is queued; what is held already changes nothing."""
    assert after(None, Event.PROMISED) is ContentState.QUEUED
    assert after(ContentState.UNPINNING, Event.PROMISED) is ContentState.QUEUED
    assert all(after(state, Event.PROMISED) is state for state in HELD)


def test_a_loss_is_told_from_a_beginning() -> None:
    """What was pinned and is gone says so; what was not pinned yet is queued again."""
    assert after(ContentState.PINNED, Event.SEEN_ABSENT) is ContentState.UNPINNED
    assert after(ContentState.UNPINNED, Event.SEEN_ABSENT) is ContentState.UNPINNED
    for state in (ContentState.QUEUED, ContentState.PINNING, ContentState.FAILED):
        assert after(state, Event.SEEN_ABSENT) is ContentState.QUEUED


@pytest.mark.parametrize("event", SEEN)
def test_nothing_seen_makes_a_content_known(event: Event) -> None:
    """A status of a content that the ledger does not know changes nothing."""
    assert after(None, event) is None


def test_the_table_has_no_empty_rows() -> None:
    """Every entry changes something: what changes nothing is left out."""
    assert [key for key, to in TRANSITIONS.items() if key[0] is to] == []


def test_the_drawing_is_the_table() -> None:
    """docs/pins.md shows every transition there is, with the words of its event, and no other."""
    text = (Path(__file__).parents[2] / "docs" / "pins.md").read_text()
    drawn = {
        (source, event, to)
        for source, to, events in re.findall(r"^ +(\S+) --> (\S+?): (.+)$", text, re.MULTILINE)
        for event in events.split(", or ")
    }
    table = {
        (state or "[*]", event.value, to or "[*]") for (state, event), to in TRANSITIONS.items()
    }
    assert drawn == table
