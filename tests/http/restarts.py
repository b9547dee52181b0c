"""A service that is stopped and started again on the same data, before a node in miniature; and
what the names on that node point at."""

import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

from tests.fakes.ethereum import Ethereum
from tests.service import Service, running_service

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
ADDRESS = {"type": "address", "addr": WALLET}
CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
IPFS = bytes.fromhex("e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f")
SWARM = bytes.fromhex(
    "e40101fa011b20d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162"
)
NO_CACHE = [("Cache-Control", "no-cache")]


def serving(
    folder: Path, ethereum: Ethereum, **chosen: Any
) -> AbstractAsyncContextManager[Service]:
    """The service before *ethereum*, with its data in *folder*."""
    return running_service(folder / "data", ens__rpc_urls=[ethereum.url], ens__timeout=1, **chosen)


def let_age(folder: Path, seconds: float) -> None:
    """Make everything that a stopped service has stored so much older."""
    with closing(sqlite3.connect(folder / "data" / "ledger.sqlite")) as db, db:
        db.execute("UPDATE resolutions SET stored_at = stored_at - ?", (int(seconds * 1000),))
