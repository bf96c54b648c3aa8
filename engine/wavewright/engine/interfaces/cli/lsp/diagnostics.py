"""Diagnostics of a document as the editor shows them, and the one mend that the hint of each speaks
of, as a code action.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config import Span
from wavewright.config.text_edits import Edit, NotEditable
from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument
from wavewright.engine.interfaces.cli.lsp.navigation import parameter_location
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.planner import Diagnostic
from wavewright.planner.checks.mends import CheckedPlan, mend

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import Surroundings
    from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
    from wavewright.engine.interfaces.cli.planning.plan_check import CheckedDocument
    from wavewright.engine.interfaces.cli.planning.text_check import CheckOutcome

SOURCE = "wavewright"


def published(
    document: OpenDocument, outcome: CheckOutcome, project: OpenProject
) -> Iterator[tuple[Path, list[types.Diagnostic]]]:
    """Yield each file with its diagnostics as the editor shows them, the document's own first."""
    own: list[types.Diagnostic] = []
    others: list[tuple[Path, list[types.Diagnostic]]] = []
    for source, diagnostics in outcome.found:
        path = Path(source.name).absolute()
        if path == document.path:
            own = [_with_related(diagnostic, document, project) for diagnostic in diagnostics]
        else:
            places = TextPositions(source.text, document.places.encoding)
            others.append((path, [as_shown(diagnostic, places) for diagnostic in diagnostics]))
    yield document.path, own
    yield from others


def as_shown(found: Diagnostic, places: TextPositions) -> types.Diagnostic:
    """Return a diagnostic as the editor shows it."""
    hint = f"\nhelp: {found.hint}" if found.hint else ""
    severity = types.DiagnosticSeverity
    return types.Diagnostic(
        range=places.range(found.span or Span(0, 0)),
        message=f"{found.message}{hint}",
        severity=severity.Error if found.severity == "error" else severity.Warning,
        code=found.code,
        source=SOURCE,
        data={"pointer": found.pointer},
    )


def _with_related(
    diagnostic: Diagnostic, document: OpenDocument, project: OpenProject
) -> types.Diagnostic:
    """Return a diagnostic with the other places that it speaks of."""
    shown = as_shown(diagnostic, document.places)
    read = document.read
    if read is None:
        return shown
    related: list[types.DiagnosticRelatedInformation] = []
    for place in diagnostic.related:
        span = read.document.span((read.base or "") + place.pointer)
        if span is not None:
            location = types.Location(document.uri, document.places.range(span))
            related.append(types.DiagnosticRelatedInformation(location, place.message))
    if diagnostic.code in _ABOUT_ARGUMENTS:
        parameter = parameter_location(diagnostic, read, project)
        if parameter is not None:
            related.append(types.DiagnosticRelatedInformation(parameter, "the tool's parameter"))
    shown.related_information = related or None
    return shown


_ABOUT_ARGUMENTS = frozenset({"E203", "E204", "E205", "E304", "W812"})
"""Codes of what is wrong between an argument and the parameter that takes it."""


# --- mends


def code_actions(
    document: OpenDocument, params: types.CodeActionParams, around: Surroundings
) -> list[types.CodeAction]:
    """Return the mends of the diagnostics in a range, and of those that the editor names: some
    editors ask where the cursor is, and name what is shown on its line.
    """
    checked, read = around.checked, document.read
    if checked is None or read is None or checked.text.source.text != document.text:
        return []
    start, end = map(document.places.offset, (params.range.start, params.range.end))
    named = [(shown.code, shown.range) for shown in params.context.diagnostics]
    plan, actions = _checked_plan(checked), list[types.CodeAction]()
    for diagnostic in checked.diagnostics:
        span = diagnostic.span or Span(0, 0)
        is_in_range = span.start <= end and start <= span.end
        if not is_in_range and (diagnostic.code, document.places.range(span)) not in named:
            continue
        with suppress(NotEditable):
            edits = mend(diagnostic, read.document, read.base or "", plan)
            actions += [_action(document, diagnostic, edits)] if edits else []
    return actions


def _checked_plan(checked: CheckedDocument) -> CheckedPlan | None:
    basis = checked.basis
    if basis is None or basis.document is None or checked.plan is None:
        return None
    return CheckedPlan(basis.plan, checked.plan, basis.tools)


def _action(document: OpenDocument, found: Diagnostic, edits: list[Edit]) -> types.CodeAction:
    changes = [
        types.TextEdit(document.places.range(Span(edit.start, edit.end)), edit.text)
        for edit in edits
    ]
    text = edits[0].text.strip(" \r\n,")
    return types.CodeAction(
        f"{found.code}: write {text}" if text else f"{found.code}: remove it",
        types.CodeActionKind.QuickFix,
        diagnostics=[as_shown(found, document.places)],
        is_preferred=True,
        edit=types.WorkspaceEdit(changes={document.uri: changes}),
    )
