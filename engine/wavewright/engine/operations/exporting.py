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
from urllib.parse import urlsplit

from wavewright.config.extras import install_hint, is_installed

FLUSH_SECONDS: Final = 2.0
"""For the last spans to go out once the block is over."""

_ADDRESS_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class TracingError(Exception):
    """A collector is named, and nothing can be sent to it."""


def check_tracing(environment: Mapping[str, str] = os.environ) -> None:
    """Return where traces can be sent, or none are wanted.

    Raises:
        TracingError: the extra `otel` is not installed, or the collector's address is none.
    """
    named = _collector_variable(environment)
    if named is None:
        return
    if not is_installed("otel"):
        raise TracingError(
            f"{named} names a collector, and the extra 'otel' is not installed; "
            f"{install_hint('otel')}, or unset {named}"
        )
    try:
        parts = urlsplit(environment[named].strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise TracingError(f"{named} is no address of a collector; write it as http://HOST:4318, or unset it")


def _collector_variable(environment: Mapping[str, str]) -> str | None:
    return next((name for name in _ADDRESS_VARIABLES if environment.get(name, "").strip()), None)


@contextmanager
def export_traces(environment: Mapping[str, str] = os.environ) -> Generator[bool]:
    """Send traces while the block runs, where the environment names a collector; gives whether it does.

    Raises:
        TracingError: as `refuse_faulty_tracing` says.
    """
    check_tracing(environment)
    if _collector_variable(environment) is None:
        yield False
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

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
        last.join(FLUSH_SECONDS)
