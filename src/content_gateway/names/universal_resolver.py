"""Whether the configured Universal Resolver is one of today, asked once when the service starts.

One from before ENSIP-23 answers in other shapes, so that names which exist would seem absent. Knows
the interface that it must have; calls of names are left to ens.py."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from content_gateway.codecs import abi
from content_gateway.codecs.abi import Reverted
from content_gateway.errors import InvalidUpstreamResponse, NoContract, Overloaded, UpstreamError
from content_gateway.names.ethereum_calls import EthereumCalls

_SUPPORTS_INTERFACE: Final = bytes.fromhex("01ffc9a7")  # supportsInterface(bytes4), ERC-165
_ENSIP_23: Final = bytes.fromhex("cd191b34")
_SET: Final = "Set ens.universal_resolver to that of the chain behind ens.rpc_urls."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds until it is asked again: *first*, then twice as long each time, up to *longest*."""

    first: float = 1.0
    longest: float = 60.0


class UniversalResolverCheck:
    """Asks the contract at *address* until it says that it is right; owns the task that does.

    Until something is known, and while nodes cannot be reached, nothing is held against it."""

    def __init__(
        self, ethereum: EthereumCalls, address: str, *, backoff: Backoff | None = None
    ) -> None:
        self._ethereum = ethereum
        self._address = address
        self._backoff = backoff or Backoff()
        self._fault: str | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask, in the background; once."""
        if self._task is None:
            self._task = asyncio.create_task(self._ask_until_right(), name="universal resolver")

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def require(self) -> None:
        """Raises InvalidUpstreamResponse while the contract is known to be a wrong one."""
        if self._fault is not None:
            raise InvalidUpstreamResponse(f"{self._fault} {_SET}")

    async def _ask_until_right(self) -> None:
        wait = self._backoff.first
        while True:
            try:
                fault = await self._find_fault()
            except (UpstreamError, Overloaded) as failed:
                log.info("the Universal Resolver could not be asked", reason=failed.detail)
            else:
                self._note(fault)
                if fault is None:
                    return
            # Also after a clear no: a node may be behind, and the contract may be upgraded.
            await asyncio.sleep(wait)
            wait = min(2 * wait, self._backoff.longest)

    async def _find_fault(self) -> str | None:
        """What is wrong with the contract; raises UpstreamError and Overloaded."""
        query = _SUPPORTS_INTERFACE + _ENSIP_23 + bytes(28)
        try:
            if await self._ethereum.call(self._address, query, read_bool):
                return None
        except NoContract:
            return "There is no contract at the address of the Universal Resolver."
        except Reverted:
            pass  # no ERC-165 at all
        return "The contract at the address of the Universal Resolver is not one of ENSIP-23."

    def _note(self, fault: str | None) -> None:
        if fault is not None and self._fault is None:
            log.error(
                "ens.universal_resolver is wrong: no name of ENS is answered",
                address=self._address,
                reason=fault,
                remedy=_SET,
            )
        elif fault is None and self._fault is not None:
            log.warning("ens.universal_resolver is right by now", address=self._address)
        self._fault = fault


def read_bool(returned: bytes) -> bool:
    """The `bool` that a function returned; ValueError for anything else."""
    value = abi.read_uint(returned)
    if value > 1:
        raise ValueError("an ABI bool is neither 0 nor 1")
    return bool(value)
