"""What all connections of one server share: limits, counts, and the state of its stop.

Knows uvicorn's own such state, which this extends. What a connection does with it is left to
protocol.py, when a server stops to server.py."""

from collections import Counter

from uvicorn.server import ServerState

from content_gateway.http.connections import Connections
from content_gateway.http.header_block import block_of
from content_gateway.http.limits import ClientLimits
from content_gateway.http.outbox import Outbox
from content_gateway.telemetry.request_ids import request_ids


class SharedState(ServerState):
    """What all connections of one server share."""

    def __init__(self, bounds: ClientLimits) -> None:
        super().__init__()
        self.bounds = bounds
        self.open_by_address: Counter[str] = Counter()
        self.open_connections = Connections(bounds.connections)
        self.outbox = Outbox()
        self.request_ids = request_ids()
        self.is_draining = False  # requests are answered as ever, and the end is near
        self.is_stopping = False
        self.problems: Counter[str] = Counter()  # refusals of protocol.py, by their code
        self.hosts: set[bytes] = set()  # values of Host that passed `wrong_host`
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._default_block = b""

    @property
    def default_block(self) -> bytes:
        """The lines of the fields that every answer has; uvicorn makes a new list each second."""
        if self.default_headers is not self._default_headers:
            self._default_headers = self.default_headers
            self._default_block = block_of(self._default_headers)
        return self._default_block
