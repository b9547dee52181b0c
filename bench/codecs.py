"""What resolving costs in computation alone: names, ABI and contenthash; IPNS records.

Each figure is the median over inputs that are all different, so that no cache of ours helps."""

import statistics
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from eth_abi.abi import encode

from content_gateway.demo.publisher import ipns_name, sign_record
from content_gateway.ipns.record import verify
from content_gateway.model.domain import DomainName
from content_gateway.model.wallet import ETHEREUM
from content_gateway.names import ens
from content_gateway.names.more_records import address_call
from content_gateway.names.resolver_records import CONTENTHASH, read_address, read_content

RUNS = 2_000
_CONTENTHASH = bytes.fromhex(
    "e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"
)
_CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"

T = TypeVar("T")


def name_microseconds(pattern: str) -> float:
    """Normalise a name made from *pattern*, encode its question, decode an answer to it."""
    DomainName.parse(pattern.format("warm"))  # imports what the first such name imports

    def resolve(case: tuple[str, bytes]) -> None:
        text, returned = case
        name = DomainName.parse(text)
        node = name.namehash
        ens.encode_query(name, address_call(node, ETHEREUM), CONTENTHASH + node)
        address, content = map(ens.read_element, ens.read_elements(returned, 2))
        read_address(address, ETHEREUM)
        read_content(content)

    cases = [(pattern.format(number), _answer(number)) for number in range(RUNS)]
    return _median_microseconds(resolve, cases)


def record_microseconds() -> float:
    """Verify an IPNS record with an Ed25519 key."""
    key = Ed25519PrivateKey.generate()
    name, now = ipns_name(key), datetime.now(UTC)
    records = [sign_record(key, f"/ipfs/{_CID}", sequence=number) for number in range(RUNS)]
    return _median_microseconds(lambda data: verify(name, data, now), records)


def _answer(number: int) -> bytes:
    """What `resolve` returns for a name with an address and content of its own."""
    address = encode(["address"], [number.to_bytes(20, "big")])
    content = encode(["bytes"], [_CONTENTHASH[:-4] + number.to_bytes(4, "big")])
    results = encode(["bytes[]"], [[address, content]])
    return encode(["bytes", "address"], [results, bytes(20)])


def _median_microseconds(work: Callable[[T], object], cases: Iterable[T]) -> float:
    times = []
    for case in cases:
        begun = time.perf_counter()
        work(case)
        times.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(times)
