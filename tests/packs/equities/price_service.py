"""A real HTTP server that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    body: Any = ""
    """Text and bytes are sent as they are, everything else as JSON."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Service:
    """Answers by path; to other paths in turn, of which the last one stays."""

    url: str
    answers: list[Answer]
    paths: Mapping[str, Answer]
    asked: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    posted: list[Any] = field(default_factory=list[Any])
    """Bodies, decoded from JSON."""


@contextmanager
def serving(*answers: Answer, paths: Mapping[str, Answer] | None = None) -> Generator[Service]:
    """Run a server on a free local port."""
    service = Service("", list(answers), paths or {})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.asked.append(self.path)
            service.headers.append(dict(self.headers.items()))
            answer = service.paths.get(self.path) or service.answers[0]
            if answer is service.answers[0] and len(service.answers) > 1:
                del service.answers[0]
            body = answer.body if isinstance(answer.body, str | bytes) else json.dumps(answer.body)
            content = body.encode() if isinstance(body, str) else body
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            service.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
