"""A collector of traces that takes OTLP over HTTP."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class TraceCollector:
    """Keeps what is sent to it, while it is open."""

    def __init__(self) -> None:
        self.bodies = list[bytes]()

    def __enter__(self) -> Self:
        bodies = self.bodies

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                bodies.append(
                    gzip.decompress(body)
                    if self.headers.get("content-encoding") == "gzip"
                    else body
                )
                self.send_response(200)
                self.end_headers()

            def log_request(self, code: object = "-", size: object = "-") -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        scopes = [
            scope
            for one in requests
            for resource in one.resource_spans
            for scope in resource.scope_spans
        ]
        return [span for scope in scopes for span in scope.spans]
