"""The version of a schema in PostgreSQL, and the numbered files that bring it up to date.

A table of one row says which files have run, and the least version that may still work with what
they left: so two versions of the program run side by side during an upgrade. Processes that upgrade
at the same time wait for each other (an advisory lock of the transaction, which a pooler keeps
too). What is in the files is left to the stores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from content_gateway.errors import WrongSettings
from content_gateway.postgres.transactions import Database, Transaction

_LOCK: Final = 0x636F_6E74  # "cont": any number that nobody else in the database uses
# Not to_regclass: behind a lock it may still say what it said before, from a cache of the server.
_IS_THERE: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'ledger_schema'"
    " AND relkind IN ('r', 'p') AND pg_table_is_visible(oid))"
)
_LEAST: Final = re.compile(r"^-- least: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database has: the *version* of its schema, 0 for none, and the *least* version of a
    program's schema that may work with it."""

    version: int
    least: int


class Migrations:
    """The numbered files of *package*, for the database that people call *name*."""

    def __init__(self, package: str, name: str) -> None:
        folder = resources.files(package).joinpath("migrations")
        steps = sorted(folder.iterdir(), key=lambda step: step.name)
        self._scripts = [step.read_text() for step in steps if step.name.endswith(".sql")]
        self._name = name

    @property
    def current(self) -> int:
        """The version of the schema that this program has."""
        return len(self._scripts)

    async def found(self, database: Database) -> Schema:
        """What *database* has; raises StorageUnavailable."""
        return await database.transact(_read)

    async def check(self, database: Database) -> None:
        """Raises WrongSettings unless this program can work with what *database* has.

        One that has nothing is given the schema: there is nothing to lose."""
        found = await self.found(database)
        if found.version == 0:
            await self.upgrade(database)
            return
        if found.version < self.current:
            raise WrongSettings(
                f"database.url: the {self._name} is of the earlier version {found.version}, and"
                f" this program needs {self.current}: run `content-gateway ledger upgrade`"
            )
        if found.least > self.current:
            raise WrongSettings(
                f"database.url: the {self._name} was made by a newer version of this program"
                f" ({found.version}, and here it is {self.current})"
            )

    async def upgrade(self, database: Database) -> Sequence[int]:
        """Run what is missing, in one transaction; the versions that were reached.

        Raises WrongSettings where the database is newer, and StorageUnavailable."""

        async def job(transaction: Transaction) -> Sequence[int]:
            await transaction.send("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = await _read(transaction)
            if found.least > self.current:
                raise WrongSettings(
                    f"database.url: the {self._name} was made by a newer version of this program"
                )
            reached = range(found.version + 1, self.current + 1)
            for version in reached:
                await self._run(transaction, version)
            return reached

        return await database.transact(job)

    async def _run(self, transaction: Transaction, version: int) -> None:
        script = self._scripts[version - 1]
        for statement in statements(script):
            # A file of ours, and no text of anybody else's.
            await transaction.send(statement)
        least = _LEAST.search(script)
        await transaction.send(
            "INSERT INTO ledger_schema (one, version, least) VALUES (true, %s, %s)"
            " ON CONFLICT (one) DO UPDATE SET version = excluded.version, least = excluded.least",
            (version, int(least[1]) if least else version),
        )


def statements(script: str) -> list[str]:
    """The statements of *script*, each of which ends with a semicolon at the end of a line."""
    bare = "\n".join(line.partition("--")[0].rstrip() for line in script.splitlines())
    return [part.strip() for part in re.split(r";\s*\n", bare + "\n") if part.strip()]


async def _read(transaction: Transaction) -> Schema:
    ((there,),) = await transaction.ask(_IS_THERE)
    if not there:
        return Schema(0, 0)
    rows = await transaction.ask("SELECT version, least FROM ledger_schema")
    return Schema(*rows[0]) if rows else Schema(0, 0)
