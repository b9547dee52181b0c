"""What the miniature cluster is made of: its clock, its pins, and a peer's memory."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MiniPin:
    """A pin in the pinset, under the CID as it was spelled; no *allocations*: every peer."""

    cid: str
    least: int
    most: int
    allocations: tuple[str, ...] = ()
    mode: str = "recursive"
    kind: str = "pin"
    expires: str = "0001-01-01T00:00:00Z"
    origins: tuple[str, ...] = ()
    at: float = 0.0


@dataclass(frozen=True)
class Change:
    """A committed write: *pin* None is an unpin. The greatest *version* of a CID wins."""

    cid: str
    pin: MiniPin | None
    version: int
    due: float = 0.0


@dataclass(eq=False)
class MiniPeer:
    """A peer and the IPFS node behind it."""

    name: str
    id: str
    url: str = ""
    is_up: bool = True
    died_at: float = 0.0
    is_dark: bool = False  # its REST API cannot be reached; it works on
    loses_answers: bool = False  # it does what it is asked, and hangs up
    has_ipfs: bool = True
    is_hung: bool = False  # its IPFS node answers, and brings in nothing
    is_partitioned: bool = False  # it runs, but receives no other peer's changes
    state: dict[str, MiniPin] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    batch: list[tuple[str, MiniPin | None]] = field(default_factory=list)
    batch_due: float = 0.0
    inbox: list[Change] = field(default_factory=list)
    working: dict[str, float] = field(default_factory=dict)  # since when, by CID
    begun: dict[str, float] = field(default_factory=dict)  # those that have a worker, since when
    errors: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)  # of what is not pinned yet
    recovered_at: float = 0.0
    pinned: set[str] = field(default_factory=set)  # what its IPFS node has pinned
    addresses: list[str] = field(default_factory=list)  # where its IPFS node can be reached

    @property
    def answers(self) -> bool:
        """Whether its REST API can be reached."""
        return self.is_up and not self.is_dark
