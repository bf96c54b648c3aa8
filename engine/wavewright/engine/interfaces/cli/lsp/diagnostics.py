"""Diagnostics of a document as `wavewright check` gives them, for the editor, and the one mend that the
hint of each speaks of, as a code action.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import FILE_NAMES, load_valid_settings
from wavewright.config.sources import Source, Span
from wavewright.config.text_edits import Edit, NotEditable
from wavewright.engine.interfaces.cli.lsp.documents import (
    CheckOutcome,
    FoundInTexts,
    GoodCheck,
    OpenDocument,
)
from wavewright.engine.interfaces.cli.lsp.good_texts import fixed_texts
from wavewright.engine.interfaces.cli.lsp.navigation import parameter_location
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
from wavewright.engine.interfaces.cli.planning.plan_check import CheckOptions, check_plan
from wavewright.planner.checks.mends import CheckedPlan, mend
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError
from wavewright.planner.reading.reader import read_plan

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.interfaces.cli.lsp.documents import Surroundings
    from wavewright.engine.interfaces.cli.planning.plan_check import CheckedDocument

SOURCE = "wavewright"


def check_document(
    document: OpenDocument, project: OpenProject, good: GoodCheck | None
) -> CheckOutcome:
    """Return what `wavewright check` finds in a document as it stands in the editor.

    Where it cannot be read, the rest is checked as if the stretch with the fault stood there as it
    did in the last good text. Where its project cannot be asked, only its shape is checked.
    """
    if document.is_foreign:
        return CheckOutcome(())
    settings = project.settings
    if document.path.name in FILE_NAMES:
        # Its valid part, as if the text stood in the file.
        settings, _ = load_valid_settings(document.path.parent, text=document.text)
    elif project.fault is not None:
        return CheckOutcome(_faults_of_shape(document), project.fault)
    outcome = _check_text(document, document.text, settings)
    checked = outcome.checked
    if checked is not None and checked.text.document is not None:
        document.take(checked.text.document)
        return outcome
    if good is None or document.read is not None or not outcome.found:
        return outcome
    (source, own), *others = outcome.found
    rest = _found_around_fault(document, own, settings, good)
    return replace(outcome, found=((source, (*own, *rest)), *others))


def _check_text(document: OpenDocument, text: str, settings: Settings) -> CheckOutcome:
    options = CheckOptions(document.path, text.encode(errors="replace"), settings=settings)
    try:
        checked = check_plan(options)
    except PlanError as error:
        return CheckOutcome(_by_source([(error.source, error.diagnostics)]))
    except WavewrightError as error:
        return CheckOutcome(_faults_of_shape(document), error)
    found = _by_source((part.text.source, part.diagnostics) for part in checked.documents)
    return CheckOutcome(found, checked=checked)


def _faults_of_shape(document: OpenDocument) -> FoundInTexts:
    if document.read is not None and document.read.kind != "plan":
        return ()
    text = read_plan(document.text, str(document.path))
    return ((text.source, text.diagnostics),)


def _by_source(found: Iterable[tuple[Source, tuple[Diagnostic, ...]]]) -> FoundInTexts:
    joined: dict[str, tuple[Source, tuple[Diagnostic, ...]]] = {}
    for source, diagnostics in found:
        known = joined.get(source.name, (source, ()))[1]
        joined[source.name] = (source, (*known, *diagnostics))
    return tuple(joined.values())


def _found_around_fault(
    document: OpenDocument,
    faults: tuple[Diagnostic, ...],
    settings: Settings,
    good: GoodCheck,
) -> list[Diagnostic]:
    """Return the diagnostics of what can be read of a text that cannot be read as a whole."""
    place = min((fault.span.start for fault in faults if fault.span is not None), default=0)
    for fixed in fixed_texts(good.document.text, document.text, place):
        if fixed.text == good.document.text:
            return fixed.placed(good.diagnostics)
        checked = _check_text(document, fixed.text, settings).checked
        if checked is not None and checked.text.document is not None:
            return fixed.placed(checked.diagnostics)
    return []


# --- as the editor shows them


def published(
    document: OpenDocument, outcome: CheckOutcome, project: OpenProject
) -> Iterator[tuple[Path, list[types.Diagnostic]]]:
    """Yield each file with its diagnostics as the editor shows them, the document's own first."""
    own: list[types.Diagnostic] = []
    others: list[tuple[Path, list[types.Diagnostic]]] = []
    for source, diagnostics in outcome.found:
        path = Path(source.name).absolute()
        if path == document.path:
            own = [_with_related(found, document, project) for found in diagnostics]
        else:
            places = TextPositions(source.text, document.places.encoding)
            others.append((path, [as_shown(found, places) for found in diagnostics]))
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
    found: Diagnostic, document: OpenDocument, project: OpenProject
) -> types.Diagnostic:
    """Return a diagnostic with the other places that it speaks of."""
    shown = as_shown(found, document.places)
    read = document.read
    if read is None:
        return shown
    related: list[types.DiagnosticRelatedInformation] = []
    for place in found.related:
        span = read.document.span((read.base or "") + place.pointer)
        if span is not None:
            location = types.Location(document.uri, document.places.range(span))
            related.append(types.DiagnosticRelatedInformation(location, place.message))
    if found.code in _ABOUT_ARGUMENTS:
        parameter = parameter_location(found, read, project)
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
    """Return the mends of the diagnostics in a range."""
    checked = None if around.outcome is None else around.outcome.checked
    read = document.read
    if checked is None or read is None or checked.text.source.text != document.text:
        return []
    start, end = map(document.places.offset, (params.range.start, params.range.end))
    plan, actions = _checked_plan(checked), list[types.CodeAction]()
    for found in checked.diagnostics:
        span = found.span or Span(0, 0)
        if span.start > end or span.end < start:
            continue
        with suppress(NotEditable):
            edits = mend(found, read.document, read.base or "", plan)
            actions += [_action(document, found, edits)] if edits else []
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
