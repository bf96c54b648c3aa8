"""Where traces go: to a collector, by OTLP over HTTP, where the environment names one.

The variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` for the
address, `OTEL_EXPORTER_OTLP_HEADERS` for a login, `OTEL_SERVICE_NAME` for the name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

LAST_SECONDS: Final = 2.0
"""For the last spans to go out once the block is over."""

_ADDRESSES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class TracingMissingError(Exception):
    """A collector is named, and the library that sends to it is not installed."""


@contextmanager
def exporting_traces(environment: Mapping[str, str] = os.environ) -> Generator[bool]:
    """Send traces while the block runs, where the environment names a collector; gives whether it does.

    Raises:
        TracingMissingError: the extra `otel` is not installed.
    """
    named = next((name for name in _ADDRESSES if environment.get(name, "").strip()), None)
    if named is None:
        yield False
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise TracingMissingError(
            f"{named} names a collector, and the extra 'otel' is not installed; "
            f"pip install 'wavewright[otel]', or unset {named}"
        ) from error
    service = environment.get("OTEL_SERVICE_NAME", "").strip() or "wavewright"
    provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield True
    finally:
        # A collector that takes connections and says nothing must not keep the program from ending.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_SECONDS)
