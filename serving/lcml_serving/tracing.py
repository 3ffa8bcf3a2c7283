"""Traces of requests by OpenTelemetry, sent by OTLP over HTTP. Imported only where its variables ask for them.

    POST infer    a request; its parent is the span that the caller names in `traceparent`
    |-- decode    from the body to arrays
    |-- wait      for a run
    |-- run       of onnxruntime, with all requests of the batch
    `-- encode    from arrays to the answer's body

Spans are sent by a thread, in batches; where they cannot be, they are dropped and the log says so.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lcml_serving import __version__
from lcml_serving.signature import Signature

_FLUSH_SECONDS = 5.0  # how long the end of the service waits until what was traced is sent


class Tracing:
    """The spans of one service, set up by OpenTelemetry's environment variables."""

    def __init__(self) -> None:
        known = Resource({"service.name": "lcml_serving", "service.version": __version__})
        self._provider = TracerProvider(resource=known.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("lcml_serving", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def request(self, name: str, carrier: Mapping[str, str]) -> Any:
        """The span of a request whose caller sent `carrier`, headers or metadata in lower case."""
        context = self._propagator.extract(carrier)
        return self._tracer.start_as_current_span(name, context, SpanKind.SERVER, record_exception=False)

    def stage(self, name: str, model: Signature) -> Any:
        """The span of a part of the request."""
        return self._tracer.start_as_current_span(name, attributes=_about(model), record_exception=False)

    def ran(self, model: Signature, arrived: float, started: float, ended: float, n_rows: int, n_together: int) -> None:
        """The spans of a request's wait and run, by time.perf_counter."""
        clock, now = time.perf_counter(), time.time_ns()  # in this order no span begins before the one it follows
        about = {**_about(model), "lcml.rows": n_rows, "lcml.batch_rows": n_together}
        get_current_span().set_attributes(about)
        for name, *ends in (("wait", arrived, started), ("run", started, ended)):
            begin, end = (now - int(1e9 * (clock - moment)) for moment in ends)
            self._tracer.start_span(name, attributes=about, start_time=begin).end(end)

    def over_grpc(
        self, name: str, answer: Callable[[Any, Any], Awaitable[Any]]
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        """A method of gRPC in a span of its own."""

        async def traced(request: Any, context: Any) -> Any:
            with self.request(f"gRPC {name}", dict(context.invocation_metadata() or ())):
                return await answer(request, context)

        return traced

    def close(self) -> None:
        """Send what is left, for a bounded time: a collector that does not answer must not keep the service."""
        flush = threading.Thread(target=self._provider.shutdown, daemon=True)
        flush.start()
        flush.join(_FLUSH_SECONDS)


class Traced:
    """ASGI middleware: a span around every POST."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app, self._tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with self._tracing.request("POST", carrier) as span:

            async def send_noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, send_noting)
            span.update_name(f"POST {getattr(scope.get('endpoint'), '__name__', 'none')}")


def _about(model: Signature) -> dict[str, Any]:
    return {"lcml.model": model.name, "lcml.version": model.version}
