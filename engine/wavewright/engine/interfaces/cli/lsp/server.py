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
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.interfaces.cli.lsp.actions import code_actions
from wavewright.engine.interfaces.cli.lsp.completion import Surroundings, complete
from wavewright.engine.interfaces.cli.lsp.diagnostics import (
    SOURCE,
    CheckOutcome,
    check_document,
    error_text,
    published,
)
from wavewright.engine.interfaces.cli.lsp.documents import LastGoodCheck, OpenDocument
from wavewright.engine.interfaces.cli.lsp.formatting import formatted
from wavewright.engine.interfaces.cli.lsp.hints import (
    DRY_RUN,
    dry_run_markdown,
    inlay_hints,
    lenses,
)
from wavewright.engine.interfaces.cli.lsp.hover import hover
from wavewright.engine.interfaces.cli.lsp.navigation import (
    RenameRefused,
    definition,
    folds,
    name_at,
    references,
    rename,
    symbols,
)
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.projects import OpenProjects
from wavewright.engine.run.version import __version__
from wavewright.reviewer.atomic_files import write_atomically


class _OfDocument(Protocol):
    """The parameters of a request about one document."""

    @property
    def text_document(self) -> types.TextDocumentIdentifier: ...


Params = TypeVar("Params", bound=_OfDocument)
Notified = TypeVar("Notified")
Handler: TypeAlias = Callable[["PlanServer", OpenDocument, Params], object]

SECONDS_OF_REST: Final = 0.3
"""Without a key, after which a changed text is checked."""


class PlanServer(LanguageServer):
    """The server of one editor."""

    def __init__(self) -> None:
        super().__init__(SOURCE, __version__)  # pyright: ignore[reportUnknownMemberType]
        self.projects = OpenProjects()
        self._documents: dict[str, OpenDocument] = {}
        self._good: dict[str, LastGoodCheck] = {}
        self.outcomes: dict[str, CheckOutcome] = {}
        self._elsewhere: dict[str, set[Path]] = {}
        """Files with diagnostics of an open document that names them, by that document."""
        self._told = set[str]()
        self._is_settled = False
        self._checks = anyio.CapacityLimiter(1)
        self._answers = anyio.CapacityLimiter(1)

    @property
    def encoding(self) -> str:
        """How the editor counts within a line."""
        return str(getattr(self.workspace.position_encoding, "value", "utf-16"))

    def document(self, uri: str) -> OpenDocument:
        """Return a document as it stands in the editor."""
        held = self.workspace.get_text_document(uri)
        known = self._documents.get(uri)
        if known is not None and known.version == held.version and known.text == held.source:
            return known
        path = Path(to_fs_path(uri) or uri).absolute()
        document = OpenDocument(uri, path, held.version, TextPositions(held.source, self.encoding))
        self._documents[uri] = document
        return document

    @property
    def open_texts(self) -> dict[Path, str]:
        """The texts that stand in the editor, saved or not, by their files."""
        held = self.workspace.text_documents
        return {Path(to_fs_path(uri) or uri).absolute(): text.source for uri, text in held.items()}

    def around(self, document: OpenDocument) -> Surroundings:
        """Return what a document may name."""
        project = self.projects.of(document.path)
        outcome = self.outcomes.get(document.uri)
        checked = None if outcome is None else outcome.checked
        basis = None if checked is None else checked.basis
        goal = None if basis is None else basis.goal
        return Surroundings(project.settings, project.tools().signatures, goal)

    async def check(self, uri: str, *, rest: float = 0.0) -> None:
        """Check a document once it has rested, and show what is found."""
        version = self.workspace.get_text_document(uri).version
        if rest:
            await anyio.sleep(rest)
        if not self._is_current(uri, version):
            return
        document = self.document(uri)
        outcome = await anyio.to_thread.run_sync(
            check_document, document, self.projects, self._good.get(uri), limiter=self._checks
        )
        if not self._is_current(uri, version):
            return
        if outcome.good is not None:
            self._good[uri] = outcome.good
        self.outcomes[uri] = outcome
        if outcome.project_fault is not None:
            self.tell_once(outcome.project_fault)
        self._publish(document, outcome)
        # The first completion would wait for the import of every pack.
        with suppress(WavewrightError):
            project = self.projects.of(document.path)
            await anyio.to_thread.run_sync(project.tools)
            if not self._is_settled:
                self._is_settled = True
                gc.collect()
                gc.freeze()  # what is loaded stays: no later collection goes through it

    def _is_current(self, uri: str, version: int | None) -> bool:
        held = self.workspace.text_documents.get(uri)
        return held is not None and held.version == version

    def _publish(self, document: OpenDocument, outcome: CheckOutcome) -> None:
        open_files = {Path(to_fs_path(uri) or uri) for uri in self.workspace.text_documents}
        before = self._elsewhere.pop(document.uri, set[Path]())
        shown = set[Path]()
        for path, diagnostics in published(document, outcome, self.encoding):
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
        self.outcomes.pop(uri, None)
        for path in self._elsewhere.pop(uri, set[Path]()):
            self._show(path.as_uri(), [])
        self._show(uri, [])

    async def check_all(self) -> None:
        """Check every open document again: a file that they depend on has changed."""
        self.projects.forget()
        for uri in [*self.workspace.text_documents]:
            await self.check(uri)

    def tell_once(self, text: str) -> None:
        """Show a message, unless it has been shown before."""
        if text in self._told:
            return
        self._told.add(text)
        self.window_show_message(types.ShowMessageParams(types.MessageType.Error, text))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log a fault of the server itself; of all of them only the first is shown."""
        logging.getLogger(__name__).error("%s: %s", source, error, exc_info=error)
        self.tell_once(_OWN_FAULT)

    def answer(self, feature: str, handler: Handler[Params], options: object = None) -> None:
        """Answer a kind of request by a function; one that fails answers with nothing.

        One request is answered at a time, in a thread, so that those that wait can be cancelled.
        """

        async def respond(params: Params) -> object:
            try:
                document = self.document(params.text_document.uri)
                work = partial(handler, self, document, params)
                return await anyio.to_thread.run_sync(
                    work, limiter=self._answers, abandon_on_cancel=True
                )
            except RenameRefused as refused:
                raise JsonRpcInvalidParams(str(refused)) from refused
            except WavewrightError as error:
                self.tell_once(error_text(error))
            except Exception as error:  # noqa: BLE001 - the edge of a request: the editor goes on
                self.report_server_error(error, feature)
            return None

        self.feature(feature, options)(respond)

    def follow(
        self, feature: str, handler: Callable[[PlanServer, Notified], Awaitable[None]]
    ) -> None:
        """Follow a kind of notification by a function; one that fails is logged."""

        async def respond(params: Notified) -> None:
            try:
                await handler(self, params)
            except Exception as error:  # noqa: BLE001 - the edge of a notification: the editor goes on
                self.report_server_error(error, feature)

        self.feature(feature)(respond)


_OWN_FAULT: Final = "wavewright lsp has met a fault of its own; its log (standard error) says which"


async def _opened(server: PlanServer, params: types.DidOpenTextDocumentParams) -> None:
    await server.check(params.text_document.uri)


async def _changed(server: PlanServer, params: types.DidChangeTextDocumentParams) -> None:
    await server.check(params.text_document.uri, rest=SECONDS_OF_REST)


async def _saved(server: PlanServer, _params: types.DidSaveTextDocumentParams) -> None:
    await server.check_all()


async def _watched(server: PlanServer, _params: types.DidChangeWatchedFilesParams) -> None:
    await server.check_all()


async def _closed(server: PlanServer, params: types.DidCloseTextDocumentParams) -> None:
    server.forget(params.text_document.uri)


def _complete(
    server: PlanServer, document: OpenDocument, params: types.CompletionParams
) -> types.CompletionList:
    return complete(document, params.position, server.around(document))


def _hover(
    server: PlanServer, document: OpenDocument, params: types.HoverParams
) -> types.Hover | None:
    outcome = server.outcomes.get(document.uri)
    return hover(document, params.position, server.around(document), outcome)


def _definition(
    server: PlanServer, document: OpenDocument, params: types.DefinitionParams
) -> types.Location | None:
    around = server.around(document)
    name = name_at(document, params.position, around)
    tools = server.projects.of(document.path).tools()
    return None if name is None else definition(document, name, around, tools)


def _references(
    server: PlanServer, document: OpenDocument, params: types.ReferenceParams
) -> list[types.Location]:
    around = server.around(document)
    name = name_at(document, params.position, around)
    return [] if name is None else references(document, name, around)


def _rename(
    server: PlanServer, document: OpenDocument, params: types.RenameParams
) -> types.WorkspaceEdit | None:
    around = server.around(document)
    name = name_at(document, params.position, around)
    if name is None:
        raise RenameRefused("no name of a step, an input or a gate stands here")
    return rename(document, name, params.new_name, around, server.open_texts)


def _symbols(
    server: PlanServer, document: OpenDocument, _params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol]:
    return symbols(document, server.around(document))


def _folds(
    _server: PlanServer, document: OpenDocument, _params: types.FoldingRangeParams
) -> list[types.FoldingRange]:
    return folds(document)


def _formatting(
    _server: PlanServer, document: OpenDocument, _params: types.DocumentFormattingParams
) -> list[types.TextEdit]:
    return formatted(document)


def _inlays(
    server: PlanServer, document: OpenDocument, params: types.InlayHintParams
) -> list[types.InlayHint]:
    return inlay_hints(document, params.range, server.around(document))


def _lenses(
    _server: PlanServer, document: OpenDocument, _params: types.CodeLensParams
) -> list[types.CodeLens]:
    return lenses(document)


def _actions(
    server: PlanServer, document: OpenDocument, params: types.CodeActionParams
) -> list[types.CodeAction]:
    return code_actions(document, params.range, server.outcomes.get(document.uri))


async def _dry_run(server: PlanServer, uri: str) -> str | None:
    """Return the dry run of a document as Markdown, and show it where the editor can."""
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
    if window is not None and window.show_document is not None:
        file = Path(tempfile.gettempdir(), f"dry-run-{document.path.stem}.md")
        write_atomically(file, text.encode())
        await server.window_show_document_async(types.ShowDocumentParams(file.as_uri()))
    return text


def build_server() -> PlanServer:
    """Return the server with everything that it answers."""
    server = PlanServer()
    server.follow(types.TEXT_DOCUMENT_DID_OPEN, _opened)
    server.follow(types.TEXT_DOCUMENT_DID_CHANGE, _changed)
    server.follow(types.TEXT_DOCUMENT_DID_SAVE, _saved)
    server.follow(types.TEXT_DOCUMENT_DID_CLOSE, _closed)
    server.follow(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, _watched)
    server.answer(
        types.TEXT_DOCUMENT_COMPLETION,
        _complete,
        types.CompletionOptions(trigger_characters=[".", "{", "$", " ", "("]),
    )
    server.answer(types.TEXT_DOCUMENT_HOVER, _hover)
    server.answer(types.TEXT_DOCUMENT_DEFINITION, _definition)
    server.answer(types.TEXT_DOCUMENT_REFERENCES, _references)
    server.answer(types.TEXT_DOCUMENT_RENAME, _rename)
    server.answer(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols)
    server.answer(types.TEXT_DOCUMENT_FOLDING_RANGE, _folds)
    server.answer(types.TEXT_DOCUMENT_FORMATTING, _formatting)
    server.answer(types.TEXT_DOCUMENT_INLAY_HINT, _inlays)
    server.answer(types.TEXT_DOCUMENT_CODE_LENS, _lenses)
    server.answer(
        types.TEXT_DOCUMENT_CODE_ACTION,
        _actions,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )

    async def dry_run(uri: str) -> str | None:
        return await _dry_run(server, uri)

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
