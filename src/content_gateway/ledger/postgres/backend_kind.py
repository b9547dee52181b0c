"""The kind of backend that the contents of a ledger in PostgreSQL are at: one row.

Machines with different kinds on one ledger would each take for pinned what the other has brought
in. So the first one that reconciles says which kind it is, and others must have the same, until an
operator says otherwise. Knows the table `ledger_backend`; which kinds there are is left to the
settings."""

from typing import Final

from content_gateway.errors import GatewayError, WrongSettings
from content_gateway.postgres.transactions import Database, Transaction

_READ: Final = "SELECT kind FROM ledger_backend"
# Who else is there: their sessions have the name that ours has.
_OTHERS: Final = (
    "SELECT coalesce(client_addr::text, 'this machine'), count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name = current_setting('application_name') GROUP BY 1 ORDER BY 1"
)


async def claim_backend(database: Database, kind: str) -> None:
    """Say that the contents are at a backend of *kind*, if nobody has said anything yet.

    Raises WrongSettings where they are at another kind, and StorageUnavailable."""

    async def job(transaction: Transaction) -> str:
        # Waits for whoever says so at this moment; the statement behind it sees what was said.
        await transaction.send(
            "INSERT INTO ledger_backend (one, kind) VALUES (true, %s) ON CONFLICT DO NOTHING",
            (kind,),
        )
        return str((await transaction.ask(_READ))[0][0])

    said = await database.transact(job)
    if said != kind:
        raise WrongSettings(
            f'pins.backend: it is "{kind}" here, and the contents of this ledger are at'
            f' "{said}". If they are to move, stop all services of this ledger and run'
            f" `content-gateway ledger backend {kind}`"
        )


async def backend_of(database: Database) -> str | None:
    """What was said; None if nobody has said anything yet. Raises StorageUnavailable."""
    rows = await database.ask(_READ)
    return str(rows[0][0]) if rows else None


async def move_to_backend(database: Database, kind: str, *, though_used: bool) -> None:
    """Say that the contents are to be at a backend of *kind* from now on.

    Raises GatewayError while other sessions of this program are there, which may be services that
    go on with the old one, unless *though_used*; and StorageUnavailable."""

    async def job(transaction: Transaction) -> str:
        others = [] if though_used else await transaction.ask(_OTHERS)
        if not others:
            await transaction.send(
                "INSERT INTO ledger_backend (one, kind) VALUES (true, %s)"
                " ON CONFLICT (one) DO UPDATE SET kind = excluded.kind",
                (kind,),
            )
        return ", ".join(f"{count} from {where}" for where, count in others)

    if there := await database.transact(job):
        raise GatewayError(
            f"Others work on this ledger ({there}): stop all services first. Connections that a"
            " pooler holds are no services: --force passes them over."
        )
