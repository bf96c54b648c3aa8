"""A proxy on loopback that adds the token to each request, for clients that can send none."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url: str, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.target = urlsplit(url)
        self.token = token


class _ProxyHandler(BaseHTTPRequestHandler):
    server: _Proxy  # pyright: ignore[reportIncompatibleVariableOverride] - that of the base class is any server

    def do_POST(self) -> None:
        self._pass_on()

    def do_GET(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        target = self.server.target
        headers = {**self.headers, "Authorization": f"Bearer {self.server.token}"}
        with closing(http.client.HTTPConnection(str(target.hostname), target.port)) as server:
            server.request(self.command, self.path, body or None, headers)
            with server.getresponse() as answer:
                self._send(answer)

    def _send(self, answer: http.client.HTTPResponse) -> None:
        # A client that reads no body would wait long for the end of one without a length; a GET has
        # no end.
        whole = b"" if self.command == "GET" else answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                self.send_header(name, value)
        if self.command != "GET":
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        with suppress(ConnectionError):  # the client may have gone
            self.wfile.write(whole)
            while chunk := answer.read1():
                self.wfile.write(chunk)
                self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so in the base class
        """Write nothing."""


@contextmanager
def token_proxy(url: str, token: str) -> Generator[str]:
    """Serve until the block ends; yield the address under which the server can be called without
    its token.
    """
    with _Proxy(url, token) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}{proxy.target.path}"
        finally:
            proxy.shutdown()
            thread.join()
