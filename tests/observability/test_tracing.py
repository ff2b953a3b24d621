"""A request's spans form one tree, whichever processes it passes; without a collector there are none."""

import asyncio
import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from crag_core.context import RequestContext
from crag_core.errors import SearchFailed
from crag_core.protocols import Ask
from crag_core.types import PipelineName
from deployments.crag_graph import CragGraph
from deployments.messages import PipelineRequest, WireContext
from deployments.observability import tracing
from deployments.observability.stage_times import working
from deployments.settings import TracingSettings
from tests.deployments.application import QUESTION, Application

CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = CLIENT[:-1] + "0"


class Spans:
    """What would have been sent."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        assert tracing._processor is not None
        tracing._processor.force_flush()
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self.finished if span.name == name)
        return span

    def parent_of(self, name: str) -> str | None:
        parent = self.named(name).parent
        names = {span.context.span_id: span.name for span in self.finished if span.context}
        return parent and names.get(parent.span_id, f"{parent.span_id:x}")


@pytest.fixture
def spans() -> Iterator[Spans]:
    exporter = InMemorySpanExporter()
    tracing.trace("test", TracingSettings(), exporter)
    yield Spans(exporter)
    tracing.stop()


def ctx(traceparent: str | None = None) -> RequestContext:
    return RequestContext.starting_now("r", 10, traceparent=traceparent)


def test_work_of_another_process_is_a_child_of_who_asked_for_it(spans: Spans) -> None:
    with working(ctx(CLIENT), "crag") as graph:
        crossed = WireContext.of(graph.ctx).localize()
        with working(crossed, "evaluate"):
            pass
    assert spans.parent_of("evaluate") == "crag"
    assert spans.parent_of("crag") == "b7ad6b7169203331"
    assert {f"{it.context.trace_id:x}" for it in spans.finished if it.context} == {
        "af7651916cd43dd8448eb211c80319c"
    }


async def test_tasks_side_by_side_do_not_become_each_others_children(spans: Spans) -> None:
    with working(ctx(), "crag") as graph:

        async def stage(name: str) -> None:
            with working(graph.ctx, name):
                await asyncio.sleep(0)

        await asyncio.gather(stage("search"), stage("evaluate"))
    assert spans.parent_of("search") == spans.parent_of("evaluate") == "crag"


def test_an_error_stands_in_its_span(spans: Spans) -> None:
    with pytest.raises(SearchFailed), working(ctx(), "search"):
        raise SearchFailed("the wiki is down")
    status = spans.named("search").status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "search_failed")


def test_what_the_client_does_not_sample_is_not_traced(spans: Spans) -> None:
    with working(ctx(UNSAMPLED), "crag") as graph:
        assert graph.ctx.traceparent is not None
        assert graph.ctx.traceparent.endswith("-00")
    assert spans.finished == ()


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    received: ClassVar[list[ExportTraceServiceRequest]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def test_spans_reach_a_collector_over_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}/v1/traces"
        tracing.trace("Evaluator", TracingSettings(otlp_endpoint=endpoint))
        with working(ctx(CLIENT), "evaluate"):
            pass
    finally:
        tracing.stop()
        server.shutdown()
        server.server_close()
        thread.join()
    ((resource,),) = ([*request.resource_spans] for request in Collector.received)
    described = {it.key: it.value.string_value for it in resource.resource.attributes}
    assert (described["service.name"], described["service.instance.id"]) == ("crag-serve", "Evaluator")
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.parent_span_id.hex()) == ("evaluate", "b7ad6b7169203331")


def test_without_a_collector_a_context_passes_unchanged() -> None:
    tracing.trace("test", TracingSettings())
    context = ctx(CLIENT)
    with working(context, "crag") as work:
        assert work.ctx is context


async def test_a_request_is_traced_from_the_clients_context_to_every_stage(spans: Spans) -> None:
    application = Application()
    graph = object.__new__(CragGraph)
    graph._pipelines, graph._is_recording = dict(application._real_pipelines()), False

    class Client:
        async def stream(self, context: RequestContext, ask: Ask):  # type: ignore[no-untyped-def]
            request = PipelineRequest(WireContext.of(context), PipelineName.CRAG, ask)
            async with aclosing(graph.stream(request)) as pieces:
                async for piece in pieces:
                    yield piece

    application.pipelines = {PipelineName.CRAG: Client()}
    api = application.api()
    api.add_middleware(tracing.TraceRequests)
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://crag.example") as client:
        reply = await client.post(
            "/v1/answer", json={"question": QUESTION}, headers={"traceparent": CLIENT}
        )
    assert reply.status_code == 200
    assert spans.parent_of("POST") == "b7ad6b7169203331"
    assert spans.parent_of("crag") == "POST"
    stages = [span.name for span in spans.finished if span.name.startswith("stage ")]
    assert stages == ["stage retrieve", "stage evaluate", "stage refine_internal", "stage generate"]
    assert {spans.parent_of(stage) for stage in stages} == {"crag"}
    assert spans.named("POST").attributes["http.response.status_code"] == 200  # type: ignore[index]
