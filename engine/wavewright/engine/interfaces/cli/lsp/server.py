"""The language server: what the editor asks, and what it is told.

Requests are answered from the text as it stood in the editor when they came. A check runs once the
text has rested; what it finds of a text that has changed meanwhile is thrown away. Standard output
belongs to the protocol alone: what a project's modules print goes to standard error.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, json_rpc, lsp_method
from pygls.uris import to_fs_path

from wavewright.config import WavewrightError, exit_codes
from wavewright.config.atomic_files import write_atomically
from wavewright.engine.interfaces.cli.common.error_text import error_text
from wavewright.engine.interfaces.cli.lsp.completion import complete
from wavewright.engine.interfaces.cli.lsp.diagnostics import (
    SOURCE,
    code_actions,
    published,
)
from wavewright.engine.interfaces.cli.lsp.documents import (
    GoodCheck,
    OpenDocument,
    Surroundings,
)
from wavewright.engine.interfaces.cli.lsp.hover import hover
from wavewright.engine.interfaces.cli.lsp.navigation import (
    definition,
    references,
    rename,
)
from wavewright.engine.interfaces.cli.lsp.outline import (
    DRY_RUN,
    dry_run_markdown,
    folds,
    formatted,
    inlay_hints,
    lenses,
    symbols,
)
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.projects import OpenProject, OpenProjects
from wavewright.engine.interfaces.cli.planning.text_check import (
    CheckOutcome,
    GoodText,
    WrittenText,
    check_text,
)
from wavewright.engine.run.jobs.renaming import RenameRefused
from wavewright.engine.run.version import __version__

Answer: TypeAlias = Callable[[OpenDocument, Any, Surroundings], object]
"""Answers a kind of request about a document, by its parameters."""
Notified = TypeVar("Notified")
Published: TypeAlias = list[tuple[Path, list[types.Diagnostic]]]
"""What is shown, by the files that it is shown in."""

SECONDS_OF_REST: Final = 0.3
"""Without a key, after which a changed text is checked."""


class _Protocol(LanguageServerProtocol):
    """The protocol, but for changes of texts, which the server makes itself: pygls takes more for a
    line break than editors do, such as U+2028, and moves places that it is told.
    """

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: types.DidChangeTextDocumentParams
    ) -> Generator[Any, Any, None]:
        features = cast("dict[str, object]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        yield features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class PlanServer(LanguageServer):
    """The server of one editor."""

    def __init__(self) -> None:
        super().__init__(SOURCE, __version__, protocol_cls=_Protocol)  # pyright: ignore[reportUnknownMemberType]
        self.projects = OpenProjects()
        self._documents: dict[str, OpenDocument] = {}
        self._good: dict[str, GoodCheck] = {}
        self._outcomes: dict[str, CheckOutcome] = {}
        self._elsewhere: dict[str, set[Path]] = {}
        """Files with diagnostics of an open document that names them, by that document."""
        self._told = set[str]()
        self._is_settled = False
        self._checks = anyio.CapacityLimiter(1)
        self._answers = anyio.CapacityLimiter(1)

    @property
    def encoding(self) -> str:
        """How the editor counts within a line."""
        encoding = self.workspace.position_encoding
        return encoding.value if isinstance(encoding, types.PositionEncodingKind) else str(encoding)

    def document(self, uri: str) -> OpenDocument:
        """Return a document as it stands in the editor.

        Raises:
            KeyError: it is not open.
        """
        return self._documents[uri]

    def take(self, uri: str, version: int, text: str) -> None:
        """Take a document as it stands in the editor from now on."""
        # The reader of documents drops a byte order mark as well.
        places = TextPositions(text.removeprefix("\ufeff"), self.encoding)
        self._documents[uri] = OpenDocument(uri, _path_of(uri), version, places)

    def around(self, document: OpenDocument) -> Surroundings:
        """Return what a document may name, and what is known of it."""
        texts = {document.path: document.text for document in self._documents.values()}
        project = self.projects.of(document.path)
        uri = document.uri
        return Surroundings(project, self._outcomes.get(uri), self._good.get(uri), texts)

    async def check(self, uri: str, *, rest: float = 0.0) -> None:
        """Check a document once it has rested, and show what is found."""
        # No text is held while it rests: of a thousand edits one text is kept.
        version = self._documents[uri].version if uri in self._documents else None
        await anyio.sleep(rest)
        document = self._documents.get(uri)
        if document is None or document.version != version:
            return
        project = self.projects.of(document.path)
        outcome, shown = await anyio.to_thread.run_sync(
            _check, document, project, self._good.get(uri), limiter=self._checks
        )
        if self._documents.get(uri) is not document:
            return
        if outcome.checked is not None and document.read is not None:
            good = GoodText(document.text, outcome.of_file(document.path))
            self._good[uri] = GoodCheck(document, good)
        self._outcomes[uri] = outcome
        self._publish(document, shown)
        # The first completion would wait for the import of every pack.
        await anyio.to_thread.run_sync(project.tools)
        fault = outcome.fault or project.fault
        if fault is not None and not document.is_foreign:
            self.tell_once(error_text(fault))
        if not self._is_settled:
            self._is_settled = True
            gc.collect()
            gc.freeze()  # what is loaded stays: no later collection goes through it

    def _publish(self, document: OpenDocument, found: Published) -> None:
        open_files = {opened.path for opened in self._documents.values()}
        before = self._elsewhere.pop(document.uri, set[Path]())
        shown = set[Path]()
        for path, diagnostics in found:
            if path == document.path:
                self._show(document.uri, diagnostics, document.version)
            elif path not in open_files:
                self._show(path.as_uri(), diagnostics)
                shown.add(path)
        for path in before - shown - open_files:
            self._show(path.as_uri(), [])
        self._elsewhere[document.uri] = shown

    def _show(
        self, uri: str, diagnostics: list[types.Diagnostic], version: int | None = None
    ) -> None:
        params = types.PublishDiagnosticsParams(uri, diagnostics, version)
        self.text_document_publish_diagnostics(params)

    def forget(self, uri: str) -> None:
        """Forget a document that was closed, and take its diagnostics away."""
        self._documents.pop(uri, None)
        self._good.pop(uri, None)
        self._outcomes.pop(uri, None)
        for path in self._elsewhere.pop(uri, set[Path]()):
            self._show(path.as_uri(), [])
        self._show(uri, [])

    async def check_all(self) -> None:
        """Check every open document again: a file that they depend on has changed."""
        self.projects.forget()
        for uri in [*self._documents]:
            await self.check(uri)

    def tell_once(self, text: str) -> None:
        """Show a message, unless it has been shown before."""
        if text in self._told:
            return
        self._told.add(text)
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, text))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log a fault of the server itself; of all of them only the first is shown.

        A request that is refused is none.
        """
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            return
        logging.getLogger(__name__).error("%s: %s", source, error, exc_info=error)
        self.tell_once(_OWN_FAULT)

    async def or_nothing(self, source: str, work: Awaitable[object]) -> object:
        """Return what a request or a command gives; nothing where it fails, and the editor goes on.

        Raises:
            JsonRpcInvalidParams: a name cannot be changed.
        """
        try:
            return await work
        except RenameRefused as refused:
            raise JsonRpcInvalidParams(str(refused)) from refused
        except WavewrightError as error:
            self.tell_once(error_text(error))
        except Exception as error:  # noqa: BLE001 - the edge of a request
            self.report_server_error(error, source)
        return None

    def answer(self, feature: str, answer: Answer, options: object = None) -> None:
        """Answer a kind of request by a function; one that fails answers with nothing.

        One request is answered at a time, in a thread, so that those that wait can be cancelled.
        """

        async def respond(params: Any) -> object:  # of the feature, with its document
            document = self._documents.get(params.text_document.uri)
            if document is None:
                return None
            work = partial(answer, document, params, self.around(document))
            answered = anyio.to_thread.run_sync(work, limiter=self._answers, abandon_on_cancel=True)
            return await self.or_nothing(feature, answered)

        self.feature(feature, options)(respond)

    def follow(
        self, feature: str, handler: Callable[[PlanServer, Notified], Awaitable[None]]
    ) -> None:
        """Follow a kind of notification by a function."""

        async def respond(params: Notified) -> None:
            await self.or_nothing(feature, handler(self, params))

        self.feature(feature)(respond)


def _check(
    document: OpenDocument, project: OpenProject, good: GoodCheck | None
) -> tuple[CheckOutcome, Published]:
    written = WrittenText(document.text, document.path, project.settings, project.fault)
    outcome = check_text(written, None if good is None else good.text)
    if outcome.document is not None:
        document.take(outcome.document)
    return outcome, [*published(document, outcome, project)]


def _path_of(uri: str) -> Path:
    return Path(to_fs_path(uri) or uri).absolute()


_OWN_FAULT: Final = (
    "wavewright lsp has met an error of its own; its log (standard error) says which"
)


async def _opened(server: PlanServer, params: types.DidOpenTextDocumentParams) -> None:
    opened = params.text_document
    server.take(opened.uri, opened.version, opened.text)
    await server.check(opened.uri)


async def _changed(server: PlanServer, params: types.DidChangeTextDocumentParams) -> None:
    changed = params.text_document
    text = server.document(changed.uri).text
    for change in params.content_changes:
        text = TextPositions(text, server.encoding).changed(change)
    server.take(changed.uri, changed.version, text)
    del text  # as in `check`
    await server.check(changed.uri, rest=SECONDS_OF_REST)


async def _files_changed(server: PlanServer, _params: object) -> None:
    await server.check_all()


async def _closed(server: PlanServer, params: types.DidCloseTextDocumentParams) -> None:
    server.forget(params.text_document.uri)


async def _dry_run(server: PlanServer, uri: str) -> str | None:
    """Return the dry run of a document as Markdown, and show it: as a document where the editor can,
    or else as a message.
    """
    document = server.document(uri)
    try:
        settings = server.projects.of(document.path).settings
        text = await anyio.to_thread.run_sync(dry_run_markdown, document, settings)
    except WavewrightError as error:
        server.window_show_message(
            types.ShowMessageParams(types.MessageType.Error, error_text(error))
        )
        return None
    window = server.client_capabilities.window
    if window is not None and window.show_document is not None and window.show_document.support:
        file = Path(tempfile.gettempdir(), f"dry-run-{document.path.stem}.md")
        write_atomically(file, text.encode())
        await server.window_show_document_async(types.ShowDocumentParams(file.as_uri()))
    else:
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))
    return text


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether what pygls logs is a fault: a request that is refused is none."""
    return record.exc_info is None or not isinstance(record.exc_info[1], JsonRpcInvalidParams)


def build_server() -> PlanServer:
    """Return the server with everything that it answers."""
    logging.getLogger(json_rpc.__name__).addFilter(_is_fault)
    server = PlanServer()
    server.follow(types.TEXT_DOCUMENT_DID_OPEN, _opened)
    server.follow(types.TEXT_DOCUMENT_DID_CHANGE, _changed)
    server.follow(types.TEXT_DOCUMENT_DID_SAVE, _files_changed)
    server.follow(types.TEXT_DOCUMENT_DID_CLOSE, _closed)
    server.follow(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, _files_changed)
    triggers = types.CompletionOptions(trigger_characters=[".", "{", "$", " ", "("])
    mends = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    server.answer(types.TEXT_DOCUMENT_COMPLETION, complete, triggers)
    server.answer(types.TEXT_DOCUMENT_HOVER, hover)
    server.answer(types.TEXT_DOCUMENT_DEFINITION, definition)
    server.answer(types.TEXT_DOCUMENT_REFERENCES, references)
    server.answer(types.TEXT_DOCUMENT_RENAME, rename)
    server.answer(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols)
    server.answer(types.TEXT_DOCUMENT_FOLDING_RANGE, folds)
    server.answer(types.TEXT_DOCUMENT_FORMATTING, formatted)
    server.answer(types.TEXT_DOCUMENT_INLAY_HINT, inlay_hints)
    server.answer(types.TEXT_DOCUMENT_CODE_LENS, lenses)
    server.answer(types.TEXT_DOCUMENT_CODE_ACTION, code_actions, mends)

    async def dry_run(uri: str) -> object:
        return await server.or_nothing(DRY_RUN, _dry_run(server, uri))

    server.command(DRY_RUN)(dry_run)
    return server


_OBJECTS_OF_A_CHECK: Final = 100_000
"""Objects that one check of a long plan makes: collected meanwhile, it takes twice as long."""


def serve() -> int:
    """Serve an editor over standard input and output until it ends the session; return the exit
    code.
    """
    protocol = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    gc.set_threshold(_OBJECTS_OF_A_CHECK, 20, 20)
    build_server().start_io(sys.stdin.buffer, protocol)
    return exit_codes.OK
