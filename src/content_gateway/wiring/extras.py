"""Parts whose libraries are extras: imported where a setting asks for them, named where missing.

Knows how an extra is installed; what is made of the module is left to whoever asks for it."""

import asyncio
from importlib import import_module
from types import ModuleType

from content_gateway.errors import WrongSettings


async def imported(module: str, setting: str, extra: str) -> ModuleType:
    """The *module* that *setting* asks for, and which needs the *extra* of the package.

    In a thread, as it imports for up to half a second. Raises WrongSettings where a library is not
    installed."""
    try:
        return await asyncio.to_thread(import_module, module)
    except ModuleNotFoundError as missing:
        raise WrongSettings(
            f"{setting}: {missing.name} is not installed; `pip install content-gateway[{extra}]`"
        ) from missing
