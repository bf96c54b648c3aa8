"""The SDK of OpenTelemetry, which sends spans to a collector. It is an extra: `trace_export` imports
this module where there is a collector.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

FLUSH_SECONDS: Final = 2.0
"""Timeout in seconds for sending the last spans."""


@contextmanager
def spans_sent(service: str) -> Generator[None]:
    """Send this process's spans, under the name of a service, during the block."""
    provider = TracerProvider(
        resource=Resource.create({"service.name": service}), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # A collector that accepts connections and never answers must not block the program's end.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(FLUSH_SECONDS)
