"""The model: what requestors hold, in sixty lines, and everything that must never be seen.

Knows no database and no backend; is told what the ledger has done, in the order in which it did
it, and says where that was wrong."""

from collections import defaultdict
from collections.abc import Callable

from content_gateway.model.cid import Cid
from content_gateway.model.content_state import LastRequest
from content_gateway.model.pins import Label, Pin, Removal


class Promises:
    """What each requestor holds, oldest first; *wrong* says what was done amiss."""

    def __init__(self, clock: Callable[[], float], grace: float) -> None:
        self.pins: defaultdict[str, list[Pin]] = defaultdict(list)
        self.wrong: list[str] = []
        self._clock = clock
        self._grace = grace
        self._left_at: dict[Cid, float] = {}

    def held(self) -> set[Cid]:
        """Every content that somebody holds."""
        return {pin.cid for pins in self.pins.values() for pin in pins}

    def find(self, requestor: str, cid: Cid) -> Pin | None:
        """The requestor's pin of *cid*."""
        return next((pin for pin in self.pins[requestor] if pin.cid == cid), None)

    def added(self, requestor: str, cid: Cid, label: Label, pin: Pin | None) -> None:
        """The ledger has answered *pin* to a request to pin *cid*."""
        self._expect((pin is None) == (self.find(requestor, cid) is not None), "add", cid, pin)
        if pin is not None:
            self._expect((pin.cid, pin.label) == (cid, label), "added something else", cid, pin)
            self._append(requestor, pin)

    def relabelled(self, requestor: str, cid: Cid, label: Label, found: bool) -> None:
        """The ledger has given the pin another label, if it has *found* it."""
        old = self.find(requestor, cid)
        self._expect(found == (old is not None), "relabel", cid, found)
        if old is not None:
            new = Pin(old.cid, old.spelling, old.created_at, label)
            self.pins[requestor] = [new if pin is old else pin for pin in self.pins[requestor]]

    def replaced(self, requestor: str, old: Pin, cid: Cid, pin: Pin | None) -> None:
        """The ledger has put *pin* in the place of *old*, or found no such pin."""
        held = self.pins[requestor]
        found = next((each for each in held if each.created_at == old.created_at), None)
        self._expect((pin is None) == (found is None), "replace", cid, pin)
        if pin is not None and found is not None:
            self.pins[requestor] = [each for each in held if each.cid not in (found.cid, cid)]
            self._append(requestor, pin)
            self._note_leaving(found.cid)

    def removed(self, requestor: str, cid: Cid, removal: Removal | None) -> None:
        """The ledger has answered *removal* to a request to release *cid*."""
        gone = self.find(requestor, cid) is not None
        self.pins[requestor] = [pin for pin in self.pins[requestor] if pin.cid != cid]
        if gone:
            self._note_leaving(cid)
        left = Removal.STILL_HELD if cid in self.held() else Removal.RELEASED
        self._expect(removal is (left if gone else None), "remove", cid, removal)

    def sends(self, last_request: LastRequest, cid: Cid, *, is_back: bool) -> None:
        """It is recorded that *last_request* is about to be asked of the backend; *is_back* says
        that a promised content is taken out of its queue, from where it must be sent again."""
        wanted = (last_request is LastRequest.PIN) != is_back
        self._expect((cid in self.held()) == wanted, "is to be asked for", cid, last_request)
        if last_request is LastRequest.UNPIN and not is_back:
            since = self._left_at.get(cid, 0.0)
            self._expect(self._clock() > since + self._grace - 0.01, "goes before its time", cid)

    def _note_leaving(self, cid: Cid) -> None:
        if cid not in self.held():
            self._left_at[cid] = self._clock()

    def _append(self, requestor: str, pin: Pin) -> None:
        # Two processes may have answered in another order than they have written.
        pins = [*self.pins[requestor], pin]
        self.pins[requestor] = sorted(pins, key=lambda pin: pin.created_at)
        timestamps = {each.created_at for each in pins}
        self._expect(len(timestamps) == len(pins), "two pins with one timestamp", pin)

    def _expect(self, is_right: bool, what: str, *facts: object) -> None:
        if not is_right:
            self.wrong.append(f"{what}: {facts}")
