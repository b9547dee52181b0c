"""The part of the composition root that opens traces, where the settings ask for them."""

import asyncio
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Final

from content_gateway.errors import WrongSettings
from content_gateway.settings.groups import TraceSettings
from content_gateway.telemetry.tracing import Tracer

_MODULE: Final = "content_gateway.telemetry.open_telemetry"


async def open_tracer(stack: AsyncExitStack, chosen: TraceSettings) -> Tracer | None:
    """The tracer, closed with *stack*; None where no collector is set.

    Raises WrongSettings where OpenTelemetry is not installed."""
    if not chosen.url:
        return None
    try:
        # In a thread, as it imports for half a second.
        library = await asyncio.to_thread(import_module, _MODULE)
    except ModuleNotFoundError as missing:
        raise WrongSettings(
            f"traces.url: {missing.name} is not installed; `pip install content-gateway[otel]`"
        ) from missing
    tracer = library.OpenTelemetry(chosen.url, chosen.sample)
    stack.push_async_callback(asyncio.to_thread, tracer.close)
    opened: Tracer = tracer
    return opened
