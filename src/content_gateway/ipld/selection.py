"""Which blocks of a DAG a CAR holds: how far below its root, of which bytes, and how often.

Knows the words of ipfs/specs `trustless-gateway.md`, and nothing of how they are spelt in requests
or where blocks are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from content_gateway.model.cid import Cid

Scope: TypeAlias = Literal["all", "block", "entity"]


class FilePart(NamedTuple):
    """A file, or a part of one, of which the bytes from *start* to before *stop* are wanted.

    *cid* is binary, as it is spelt. The bytes are counted from the part's own first one."""

    cid: bytes
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The blocks on the *way* to the root, then what *scope* says of the DAG below it.

    *span*, from a byte to before another, narrows the scope "entity" to what these bytes of the
    file at the root need. With *repeats* a block is there as often as it is linked to."""

    scope: Scope = "all"
    span: tuple[int, int] | None = None
    repeats: bool = False
    way: Sequence[Cid] = ()


WHOLE: Final = Selection()
