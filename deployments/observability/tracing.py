"""Traces: OpenTelemetry spans of a request in every process that it passes, sent by OTLP.

A span's context travels as W3C `traceparent`: in from the client's header, between processes in the
request's own context, which is never ambient, so that no task inherits another one's. Off by default;
then a stage costs one comparison.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crag_core.context import RequestContext
from crag_core.errors import CragError
from crag_core.types import Answer
from deployments.settings import TracingSettings

_HEADER = "traceparent"
_NS_PER_S = 1_000_000_000
_w3c = TraceContextTextMapPropagator()
_tracer: Tracer | None = None
_processor: SpanProcessor | None = None


def trace(process: str, settings: TracingSettings, exporter: SpanExporter | None = None) -> None:
    """Send this process's spans to the collector that the settings name, if they name one.

    `exporter` takes its place.
    """
    global _tracer, _processor
    if exporter is None and settings.otlp_endpoint is None:
        return
    provider = TracerProvider(
        resource=Resource.create({"service.name": "crag-serve", "service.instance.id": process}),
        sampler=ParentBased(TraceIdRatioBased(settings.sampled_share)),
    )
    _processor = BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=settings.otlp_endpoint))
    provider.add_span_processor(_processor)
    _tracer = provider.get_tracer("crag-serve")


def stop() -> None:
    """Send what is left, then trace no more."""
    global _tracer, _processor
    _tracer = None
    if _processor is not None:
        _processor.shutdown()
        _processor = None


@contextmanager
def span(ctx: RequestContext, name: str) -> Iterator[RequestContext]:
    """A span around the body; the context in it is for what the body asks others to do."""
    if _tracer is None:
        yield ctx
        return
    opened = _tracer.start_span(
        name, _parent(ctx.traceparent), attributes={"request_id": ctx.request_id, "lane": ctx.lane}
    )
    with _ended(opened):
        yield replace(ctx, traceparent=_traceparent(opened))


def stages_as_spans(ctx: RequestContext, answer: Answer) -> None:
    """The pipeline's own stages, known now that the answer is; the last of them has just ended."""
    stages = answer.trace.stages
    if _tracer is None or not stages:
        return
    parent = _parent(ctx.traceparent)
    started_s = time.time() - max(record.started_s + record.seconds for record in stages)
    for record in stages:
        begun_ns = int((started_s + record.started_s) * _NS_PER_S)
        stage = _tracer.start_span(f"stage {record.stage}", parent, start_time=begun_ns)
        if record.error_code is not None:
            stage.set_status(Status(StatusCode.ERROR, record.error_code))
        stage.end(begun_ns + int(record.seconds * _NS_PER_S))


class TraceRequests:
    """ASGI middleware: a span for each request, child of the client's where it sent one."""

    def __init__(self, app: ASGIApp) -> None:
        """Wraps everything else."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, with the span's context in the place of the client's."""
        if _tracer is None or scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(_HEADER)
        attributes = {"http.request.method": "POST", "url.path": scope["path"]}
        opened = _tracer.start_span("POST", _parent(given), SpanKind.SERVER, attributes)
        headers = MutableHeaders(raw=list(scope["headers"]))
        headers[_HEADER] = _traceparent(opened)

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened.set_attribute("http.response.status_code", message["status"])
            await send(message)

        with _ended(opened):
            await self._app({**scope, "headers": headers.raw}, receive, send_and_note)


@contextmanager
def _ended(opened: Span) -> Iterator[None]:
    """End the span with the body, however that ends."""
    try:
        yield
    except CragError as error:
        opened.set_status(Status(StatusCode.ERROR, error.code))
        raise
    finally:
        opened.end()


def _parent(traceparent: str | None) -> Context:
    return _w3c.extract({_HEADER: traceparent}) if traceparent else Context()


def _traceparent(opened: Span) -> str:
    carrier: dict[str, str] = {}
    _w3c.inject(carrier, set_span_in_context(opened, Context()))
    return carrier[_HEADER]
