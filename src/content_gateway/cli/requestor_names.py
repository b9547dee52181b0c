"""What operators know requestors by: the names of issued keys, and a short form of all others.

Knows the forms of a requestor's id. A name may have been given out again: the id tells which key it
is."""

from collections.abc import Iterable
from typing import Final

from content_gateway.api_keys import KeyRecord
from content_gateway.cli.common import OPERATOR

_SHOWN: Final = 13  # `open-` and eight letters


class RequestorNames:
    """The names of requestors; *width* is that of the longest."""

    def __init__(self, records: Iterable[KeyRecord]) -> None:
        self._by_id = {record.id: record.name for record in records}
        self.width = max(map(len, [OPERATOR, *self._by_id.values()]))

    def of(self, requestor: str) -> str:
        """The name of *requestor*; of an open key, which has none, the beginning of its hash."""
        return self._by_id.get(requestor) or requestor.replace("_", "-")[:_SHOWN]
