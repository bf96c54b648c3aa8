"""Diagnostics of a document as `wavewright check` gives them, for the editor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import DocumentError, Source, Span
from wavewright.engine.interfaces.cli.lsp.documents import LastGoodCheck, OpenDocument
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.interfaces.cli.lsp.projects import OpenProjects
from wavewright.engine.interfaces.cli.planning.plan_check import (
    CheckedDocument,
    CheckOptions,
    check_plan,
)
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
)
from wavewright.planner.reading.reader import read_plan

SOURCE = "wavewright"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check of an open document has found."""

    found: tuple[tuple[Source, tuple[Diagnostic, ...]], ...]
    """The diagnostics of each text; the document's own first."""
    good: LastGoodCheck | None = None
    """For later texts that cannot be read; None where this one cannot."""
    project_fault: str | None = None
    """Why the project could not be asked."""
    checked: CheckedDocument | None = field(default=None, repr=False)


def check_document(
    document: OpenDocument, projects: OpenProjects, good: LastGoodCheck | None
) -> CheckOutcome:
    """Return what `wavewright check` finds in a document as it stands in the editor.

    Where it cannot be read, what was found in the last good text is kept as far as that has not
    been changed. Where its project cannot be asked, only its shape is checked.
    """
    try:
        settings = projects.of(document.path).settings
        options = CheckOptions(document.path, document.text.encode(), settings=settings)
        checked = check_plan(options)
    except PlanError as error:
        return CheckOutcome(_by_source([(error.source, error.diagnostics)]))
    except WavewrightError as error:
        return CheckOutcome(_shape_faults(document), project_fault=error_text(error))
    if checked.text.document is not None:
        document.take(checked.text.document)
    own = (checked.text.source, checked.diagnostics)
    if checked.text.document is None and good is not None:
        kept = good.still_standing(document.text)
        return CheckOutcome(((own[0], (*own[1], *kept)),), checked=checked)
    found = _by_source((one.text.source, one.diagnostics) for one in checked.documents)
    read = None if checked.text.document is None else LastGoodCheck(document.text, own[1])
    return CheckOutcome(found, read, checked=checked)


def error_text(error: WavewrightError) -> str:
    """Return an error in one text, with its place and its fix."""
    if isinstance(error, DocumentError):
        return "\n".join(
            f"{error.source.name}: {fault.message}" + (f" ({fault.hint})" if fault.hint else "")
            for fault in error.faults
        )
    return error.describe()


def _shape_faults(
    document: OpenDocument,
) -> tuple[tuple[Source, tuple[Diagnostic, ...]], ...]:
    text = read_plan(document.text, str(document.path))
    unreadable = text.document is None
    return ((text.source, text.diagnostics if unreadable else ()),)


def _by_source(
    found: Iterable[tuple[Source, tuple[Diagnostic, ...]]],
) -> tuple[tuple[Source, tuple[Diagnostic, ...]], ...]:
    joined: dict[str, tuple[Source, tuple[Diagnostic, ...]]] = {}
    for source, diagnostics in found:
        known = joined.get(source.name, (source, ()))[1]
        joined[source.name] = (source, (*known, *diagnostics))
    return tuple(joined.values())


def published(
    document: OpenDocument, outcome: CheckOutcome, encoding: str
) -> Iterator[tuple[Path, list[types.Diagnostic]]]:
    """Yield each file with its diagnostics as the editor shows them, the document's own first."""
    own: list[types.Diagnostic] = []
    others: list[tuple[Path, list[types.Diagnostic]]] = []
    for source, diagnostics in outcome.found:
        path = Path(source.name).absolute()
        if path == document.path:
            own = [
                with_related(as_shown(one, document.places), one, document) for one in diagnostics
            ]
        else:
            places = TextPositions(source.text, encoding)
            others.append((path, [as_shown(one, places) for one in diagnostics]))
    yield document.path, own
    yield from others


def as_shown(found: Diagnostic, places: TextPositions) -> types.Diagnostic:
    """Return a diagnostic as the editor shows it."""
    span = found.span or Span(0, 0)
    hint = f"\nhelp: {found.hint}" if found.hint else ""
    severity = types.DiagnosticSeverity
    return types.Diagnostic(
        range=places.range(span),
        message=f"{found.message}{hint}",
        severity=severity.Error if found.severity == "error" else severity.Warning,
        code=found.code,
        source=SOURCE,
        data={"pointer": found.pointer},
    )


def with_related(
    shown: types.Diagnostic, found: Diagnostic, document: OpenDocument
) -> types.Diagnostic:
    """Return a diagnostic with the other places of the document that it speaks of."""
    read = document.read
    if not found.related or read is None:
        return shown
    base = read.plan_pointer or ""
    places = ((one, read.document.span(base + one.pointer)) for one in found.related)
    shown.related_information = [
        types.DiagnosticRelatedInformation(
            types.Location(document.uri, document.places.range(span)), one.message
        )
        for one, span in places
        if span is not None
    ]
    return shown
