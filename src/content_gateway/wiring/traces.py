"""The part of the composition root that opens traces, where the settings ask for them."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from content_gateway.settings.groups import TraceSettings
from content_gateway.telemetry.tracing import Tracer
from content_gateway.wiring.extras import imported

_MODULE: Final = "content_gateway.telemetry.open_telemetry"


async def open_tracer(stack: AsyncExitStack, chosen: TraceSettings) -> Tracer | None:
    """The tracer, closed with *stack*; None where no collector is set.

    Raises WrongSettings where OpenTelemetry is not installed."""
    if not chosen.url:
        return None
    library = await imported(_MODULE, "traces.url", "otel")
    tracer = library.OpenTelemetry(chosen.url, chosen.sample)
    stack.push_async_callback(asyncio.to_thread, tracer.close)
    opened: Tracer = tracer
    return opened
