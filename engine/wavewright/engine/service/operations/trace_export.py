"""Sending of traces to a collector, by OTLP over HTTP.

The variables are OpenTelemetry's own: `OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` for the address, `OTEL_EXPORTER_OTLP_HEADERS` for a login,
`OTEL_SERVICE_NAME` for the name, and `TRACEPARENT` for the span to which the runs of a command
belong. A program that has set a tracer provider of its own keeps it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from wavewright.config import WavewrightError, exit_codes, install_hint, is_installed
from wavewright.engine.run.ports import Ports

_ADDRESS_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class TracingError(WavewrightError):
    """A collector is configured, and nothing can be sent to it."""

    exit_code = exit_codes.MISUSE


def check_tracing(environment: Mapping[str, str] = os.environ) -> None:
    """Check that traces can be sent, if a collector is configured.

    Raises:
        TracingError: the extra `otel` is not installed, or the collector's address is invalid.
    """
    named = _collector_variable(environment)
    if named is None:
        return
    if not is_installed("otel"):
        raise TracingError(
            f"{named} names a collector, and the extra 'otel' is not installed",
            f"{install_hint('otel')}, or unset {named}",
        )
    try:
        parts = urlsplit(environment[named].strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise TracingError(
            f"{named} is not an address of a collector", "write it as http://HOST:4318, or unset it"
        )


def _collector_variable(environment: Mapping[str, str]) -> str | None:
    return next((name for name in _ADDRESS_VARIABLES if environment.get(name, "").strip()), None)


@contextmanager
def export_traces(environment: Mapping[str, str] = os.environ) -> Generator[bool]:
    """Send traces during the block if the environment names a collector; yields whether it does.

    Raises:
        TracingError: as `check_tracing`.
    """
    check_tracing(environment)
    if _collector_variable(environment) is None or _has_provider():
        yield False
        return
    # Imported here: the SDK is an extra, and most programs have no collector.
    from wavewright.engine.service.operations.collector import spans_sent

    with spans_sent(environment.get("OTEL_SERVICE_NAME", "").strip() or "wavewright"):
        yield True


def _has_provider() -> bool:
    """Whether the program has set a tracer provider; the SDK, which one is made with, is not
    imported for it.
    """
    if "opentelemetry.sdk.trace" not in sys.modules:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def traced(ports: Ports, environment: Mapping[str, str] = os.environ) -> Generator[Ports]:
    """Yield ports whose runs are traced, if traces are sent; the spans end with the block.

    A run is within the current span; without one it belongs to that of the variable `TRACEPARENT`.
    """
    if not _has_provider():
        yield ports
        return
    from wavewright.engine.service.operations.tracing import traced_ports

    with traced_ports(ports, environment) as traced_run:
        yield traced_run
