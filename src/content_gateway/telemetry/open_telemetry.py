"""Traces by OpenTelemetry, sent to a collector as OTLP over HTTP.

The one module that imports it: the extra `otel` installs it. Spans have the names and attributes of
its semantic conventions for HTTP (1.23 and later). They are sent by a thread of its own; what its
queue has no room for is lost, and what is left some seconds after the end."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from threading import Thread
from typing import Final

from opentelemetry import context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_NAME: Final = "content-gateway"
_PATH: Final = "/v1/traces"  # opentelemetry.io/docs/specs/otlp, OTLP/HTTP Request
_SECONDS: Final = 5.0  # that one sending may take, and all of them at the end
_FIELDS: Final = ("traceparent", "tracestate")


class OpenTelemetry:
    """The tracer of one service, for the collector at *url*; `close` it in the end.

    *sample* is the share of requests that are traced where they do not come with a trace."""

    def __init__(self, url: str, sample: float) -> None:
        names = {SERVICE_NAME: _NAME, SERVICE_VERSION: version(_NAME)}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample)),
            resource=Resource.create(names),
            shutdown_on_exit=False,
        )
        self._exporter: SpanExporter = OTLPSpanExporter(
            endpoint=url.rstrip("/") + _PATH, timeout=_SECONDS
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer(_NAME)
        self._propagator = TraceContextTextMapPropagator()

    def close(self) -> None:
        """Send what is left; blocks for 5 seconds at most, and what is left then is lost."""
        # In a thread that may outlive this: the library waits 30 s, for batch after batch.
        ending = Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        ending.start()
        ending.join(_SECONDS)
        if ending.is_alive():
            self._exporter.shutdown()  # sends no further batch

    def request(self, headers: Iterable[tuple[bytes, bytes]]) -> "_RequestSpan":
        """As `Tracer.request`."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name.decode("latin-1") in _FIELDS
        }
        parent = self._propagator.extract(carrier, context.Context())
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        # Not detached: the task of the request ends with it, and its context too.
        context.attach(set_span_in_context(span, parent))
        return _RequestSpan(span)

    @contextmanager
    def upstream(self, kind: str, host: str) -> Iterator[None]:
        """As `Tracer.upstream`."""
        name, _, port = host.rpartition(":")
        attributes = {"content_gateway.upstream": kind, "server.address": name or host}
        if name and port.isdigit():
            attributes["server.port"] = port
        span = self._tracer.start_span(kind, kind=SpanKind.CLIENT, attributes=attributes)
        try:
            yield
        except BaseException as error:
            # Its type only: an error's words may repeat what a server said.
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()


class _RequestSpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, *, method: str, route: str, status: int, request_id: str) -> None:
        span = self._span
        if span.is_recording():
            span.update_name(f"{method} {route}")
            span.set_attributes(
                {
                    "http.request.method": method,
                    "http.route": route,
                    "http.response.status_code": status,
                    "content_gateway.request_id": request_id,
                }
            )
            if status >= 500 or not status:
                span.set_status(StatusCode.ERROR)
        span.end()
