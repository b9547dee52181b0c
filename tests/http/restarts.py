"""A service that is stopped and started again on the same data, before a node in miniature."""

import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

from tests.fakes.ethereum import Ethereum
from tests.service import Service, running_service


def serving(
    folder: Path, ethereum: Ethereum, **chosen: Any
) -> AbstractAsyncContextManager[Service]:
    """The service before *ethereum*, with its data in *folder*."""
    return running_service(folder / "data", ens__rpc_urls=[ethereum.url], ens__timeout=1, **chosen)


def let_age(folder: Path, seconds: float) -> None:
    """Make everything that a stopped service has stored so much older."""
    with closing(sqlite3.connect(folder / "data" / "ledger.sqlite")) as db, db:
        db.execute("UPDATE resolutions SET stored_at = stored_at - ?", (int(seconds * 1000),))
