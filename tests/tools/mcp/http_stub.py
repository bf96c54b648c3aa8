"""The stub server over streamable HTTP, in a thread of the test."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.tools.mcp.stub_server import Stub, text


class HttpStub(ThreadingHTTPServer):
    """Answers each request by JSON, and each call as its fault says."""

    daemon_threads = True

    def __init__(self, fault: str = "", location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stub = Stub(fault)
        self.location = location
        self.requests = list[tuple[str, dict[str, str], dict[str, Any]]]()
        """Method, headers and body of each."""
        self.stopping = threading.Event()
        self.replies = list[tuple[int, dict[str, str], bytes]]()
        """Status, headers and body of the answers to the next calls."""
        self.notices = b""
        """Events of the stream of notifications, before the first call is answered."""
        self.noticed = threading.Event()
        self.session = "s1"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    @property
    def calls(self) -> int:
        return sum(body.get("method") == "tools/call" for _, _, body in self.requests)


@contextmanager
def http_stub(fault: str = "", location: str = "") -> Generator[HttpStub]:
    """Serve until the block ends."""
    with HttpStub(fault, location) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpStub  # pyright: ignore[reportIncompatibleVariableOverride] - that of the base class is any server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(("POST", {**self.headers}, body))
        fault = self.server.stub.fault
        if fault.startswith("opens with "):
            status = int(fault.rpartition(" ")[2])
            return self._send(status, b"because", **{"Retry-After": "3"})
        if fault == "takes no notification" and "id" not in body:
            self.server.stopping.wait()
        if body.get("method") == "tools/call":
            if fault in {"stream for ever", "silent stream", "signs of life"}:
                return self._stream(fault)
            if self.server.notices:
                self.server.noticed.wait()
                self.server.stopping.wait(0.3)  # until they are read
            if fault == "redirect":
                return self._send(307, b"", Location=self.server.location)
            if fault == "compressed":
                return self._send(200, gzip.compress(b"{}" * 1000), **{"Content-Encoding": "gzip"})
            if fault == "hangs up":
                self.close_connection = True
                return None
            if fault == "new session" and self.server.calls == 1:
                return self._send(404, b"no such session")
            if self.server.replies:
                status, headers, sent = self.server.replies.pop(0)
                return self._send(status, sent, **headers)
        answers = list(self.server.stub.answers(body))
        if not answers:
            return self._send(202, b"")
        return self._send(
            200, json.dumps(answers[-1]).encode(), **{"Mcp-Session-Id": self.server.session}
        )

    def do_GET(self) -> None:
        self.server.requests.append(("GET", {**self.headers}, {}))
        if not self.server.notices:
            return self._send(405, b"")
        self._send(200, self.server.notices, **{"Content-Type": "text/event-stream"})
        self.server.noticed.set()
        self.server.stopping.wait()
        return None

    def do_DELETE(self) -> None:
        self.server.requests.append(("DELETE", {**self.headers}, {}))
        if self.server.stub.fault == "never ends":
            self.server.stopping.wait()
        is_compressed = self.server.stub.fault == "ends with a compressed body"
        self._send(200, b"no gzip", **({"Content-Encoding": "gzip"} if is_compressed else {}))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named so in the base class
        """Write nothing."""

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, fault: str) -> None:
        """Send events without an answer until the other side has enough."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        event = (
            b"data: "
            + json.dumps(
                {"jsonrpc": "2.0", "method": "notifications/x", "params": text("x" * 100_000)}
            ).encode()
        )
        sent = b": ping\n\n" * 100 if fault == "signs of life" else event + b"\n\n"
        try:
            while not self.server.stopping.is_set():
                self.wfile.write(sent)
                if fault == "silent stream":
                    self.server.stopping.wait()
        except (ConnectionError, OSError):
            return
