"""An app whose instrumentation of its own is around the middleware; its spans go into the file INSTRUMENTED_SPANS."""

import os

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from sojourn_middleware import WSGIMiddleware

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(os.environ["INSTRUMENTED_SPANS"])))
trace.set_tracer_provider(provider)
tracer = provider.get_tracer("instrumentation")


def app(environ, start_response):
    with tracer.start_as_current_span("inside"):
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]


measured = WSGIMiddleware(app)


def application(environ, start_response):
    headers = {"traceparent": environ["HTTP_TRACEPARENT"]} if "HTTP_TRACEPARENT" in environ else {}
    with tracer.start_as_current_span("around", propagate.extract(headers), trace.SpanKind.SERVER):
        body = measured(environ, start_response)
        yield from body
        getattr(body, "close", int)()
