"""Code actions: the one mend that a diagnostic's hint speaks of, as an edit of the text."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config.sources import Span
from wavewright.config.text_edits import Edit, NotEditable
from wavewright.engine.interfaces.cli.lsp.diagnostics import as_shown
from wavewright.planner.checks.mends import CheckedPlan, mend

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.engine.interfaces.cli.planning.plan_check import CheckedDocument
    from wavewright.planner.diagnostics.diagnostic import Diagnostic


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
