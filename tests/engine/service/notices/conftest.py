"""A project with rules of notices, and servers on this machine that take them."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.notices.notice_store import NoticeStore
from wavewright.engine.service.notices.notifier import Notifier
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.executor.stores import journal_of


@dataclass
class Hook:
    """A web server that keeps what is posted to it."""

    url: str
    status: int = 200
    """What it answers."""
    posted: list[tuple[dict[str, str], bytes]] = field(
        default_factory=list[tuple[dict[str, str], bytes]]
    )

    @property
    def said(self) -> list[dict[str, object]]:
        return [json.loads(body) for _, body in self.posted]


@pytest.fixture
def hook() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.posted.append((dict(self.headers.items()), body))
            self.send_response(taken.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        taken = Hook(f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield taken
        server.shutdown()
        thread.join()


@dataclass
class Site:
    """A project whose notices go out on a clock that is moved."""

    settings: Settings
    journal: StoredJournal
    now: float
    output: io.StringIO = field(default_factory=io.StringIO)

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.journal)

    def daemon(self, rules: str) -> Notifier:
        """Return the notifier of a daemon that has just started."""
        file = self.settings.root / "wavewright.yaml"
        file.write_text(rules, encoding="utf-8")
        given = load_settings(self.settings.root, {"WAVEWRIGHT_HMAC_KEY": "0123456789abcdef"})
        log = StructuredLog(agent="daemon", domain="jobs", stream=self.output)
        return Notifier(given, NoticeStore(self.journal), log, lambda: self.now)


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    settings = load_settings(tmp_path, {})
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        settings = replace(settings, journal_url=server.database())
    import time

    async with journal_of(settings) as journal:
        yield Site(settings, journal, time.time() - 5)
