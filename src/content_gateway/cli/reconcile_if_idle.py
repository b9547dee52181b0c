"""While a command waits, the ledger is reconciled: by the service, or by the command itself.

Knows that a service does it with its own settings and better, and that a command whose settings
name another backend than the service had must not do it at all: it would call contents pinned
that are not where they should be. What is waited for is left to the commands."""

from typing import TYPE_CHECKING

from content_gateway.cli import lockfile
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application


class ReconcileIfIdle:
    """Sees to it that the ledger of *settings*, which is open as *gateway*, is reconciled."""

    def __init__(self, gateway: "Application", settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings
        self._is_ours = False

    async def ensure_reconciled(self) -> None:
        """Start a reconciler if no service runs; to be called again and again while waiting.

        Leases make it safe beside a service that starts later. WrongSettings: another backend."""
        if self._is_ours or lockfile.is_held(self._settings):
            return
        await self.check_backend()
        self._gateway.reconcile()
        self._is_ours = True

    async def check_backend(self) -> None:
        """Raises WrongSettings when the last service of the ledger had another backend, and
        StorageUnavailable."""
        mark, backend = lockfile.last(self._settings), self._settings.pins.backend
        if mark is not None and mark.backend != backend:
            raise WrongSettings(
                f'pins.backend: it is "{backend}" here, and the service of this ledger keeps pins'
                f' with "{mark.backend}"; give its --config'
            )
        await self._gateway.ledger.claim_backend(backend)
