"""An editor for tests: a client that speaks to `wavewright lsp` over standard input and output."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client

from tests.support.prepared_command import PreparedCommand

ERRORS = 2
"""Where the server tells what is wrong with it: standard error, as of this process."""
COMMAND = (str(Path(sys.executable).with_name("wavewright")), "lsp")


class News:
    """Lets those who wait know that something new has come."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def tell(self) -> None:
        self._event.set()
        self._event = anyio.Event()


@dataclass
class Editor:
    """One session; positions are counted from 0."""

    client: LanguageClient
    server_pid: int
    """The process of the server."""
    published: dict[str, types.PublishDiagnosticsParams]
    """What was published last of each file."""
    news: News
    encoding: str = "utf-16"
    """How places within a line are counted, as the server has chosen of what the editor can."""
    texts: dict[Path, str] = field(default_factory=dict[Path, str])
    versions: dict[Path, int] = field(default_factory=dict[Path, int])

    def forget(self) -> None:
        """Close every file, and forget what was shown."""
        for path in self.texts:
            params = types.DidCloseTextDocumentParams(self.identifier(path))
            self.client.text_document_did_close(params)
        for held in (self.texts, self.versions, self.published, self.client.messages):
            held.clear()

    def open(self, path: Path, text: str | None = None) -> None:
        """Open a file, with a text that is not saved where one is given."""
        self.texts[path] = path.read_text(encoding="utf-8") if text is None else text
        self.versions[path] = 1
        item = types.TextDocumentItem(path.as_uri(), "yaml", 1, self.texts[path])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def edit(self, path: Path, old: str, new: str) -> None:
        """Replace the only place where a text has these words."""
        text = self.texts[path]
        assert text.count(old) == 1, text.count(old)
        start = text.index(old)
        self.splice(path, start, start + len(old), new)

    def splice(self, path: Path, start: int, end: int, new: str) -> None:
        """Replace a stretch, by offsets, as one incremental change."""
        text = self.texts[path]
        self.versions[path] += 1
        self.texts[path] = text[:start] + new + text[end:]
        span = types.Range(self.position(text, start), self.position(text, end))
        change = types.TextDocumentContentChangePartial(text=new, range=span)
        document = types.VersionedTextDocumentIdentifier(self.versions[path], path.as_uri())
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self, path: Path) -> list[types.Diagnostic]:
        """Return what is shown of the text as it is now, once it is shown."""
        with anyio.fail_after(30):
            while True:
                shown = self.published.get(path.as_uri())
                if shown is not None and shown.version in (self.versions.get(path), None):
                    return [*shown.diagnostics]
                await self.news.wait()

    def place(self, path: Path, after: str, occurrence: int = 1) -> types.Position:
        """Return the place behind the words, of which there may be several."""
        text, offset = self.texts[path], 0
        for _ in range(occurrence):
            offset = text.index(after, offset) + len(after)
        return self.position(text, offset)

    def position(self, text: str, offset: int) -> types.Position:
        """Return a place as this session counts."""
        return position_of(text, offset, self.encoding)

    def identifier(self, path: Path) -> types.TextDocumentIdentifier:
        """Return how the protocol names a file."""
        return types.TextDocumentIdentifier(path.as_uri())


def position_of(text: str, offset: int, encoding: str = "utf-16") -> types.Position:
    """Return a place in units of an encoding."""
    before = text[:offset]
    line = before.count("\n")
    inside = before[before.rfind("\n") + 1 :]
    if encoding == "utf-8":
        return types.Position(line, len(inside.encode()))
    return types.Position(line, len(inside.encode("utf-16-le")) // 2)


async def _start_server(client: Any, root: Path) -> PreparedCommand:
    """Start a server whose standard input and output are the other end of a client's socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await client.start_tcp(*listening.getsockname())
        connection, _ = listening.accept()
    with connection:
        stream = connection.fileno()
        return PreparedCommand(["lsp"], root, os.environ, stream, ERRORS, read=stream)


@asynccontextmanager
async def open_editor(
    root: Path, client_name: str = "neovim", *, is_new_process: bool = False
) -> AsyncGenerator[Editor]:
    """Start the server in a folder, and end the session afterwards.

    It is a copy of a process that has imported it already, unless it is to be a new one, which has
    pipes as an editor makes them.
    """
    client: Any = make_test_lsp_client()  # the library types its methods in part only
    published: dict[str, types.PublishDiagnosticsParams] = {}
    news = News()
    # The client's own keeps no versions.
    client.protocol.fm.features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

    def keep(params: types.PublishDiagnosticsParams) -> None:
        published[params.uri] = params
        news.tell()

    client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(keep)
    server: Any
    if is_new_process:
        await client.start_io(*COMMAND, cwd=root)
        server = client._server
    else:
        server = await _start_server(client, root)
    try:
        session = await client.initialize_session(
            types.InitializeParams(
                capabilities=client_capabilities(client_name), root_uri=root.as_uri()
            )
        )
        encoding = str(session.capabilities.position_encoding)
        yield Editor(client, server.pid, published, news, encoding)
        await client.shutdown_session()
    except BaseException:
        # The client would wait for the end of a server that is still there.
        server.send_signal(signal.SIGKILL)
        raise
    finally:
        await client.stop()
        if not is_new_process:
            client.protocol.writer.close()
            await anyio.to_thread.run_sync(server.wait)
