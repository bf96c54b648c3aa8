"""Code actions: the one mend that a diagnostic's hint speaks of, as an edit of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config.sources import ObjectNode, Span, find_node
from wavewright.engine.interfaces.cli.lsp.diagnostics import as_shown
from wavewright.engine.interfaces.cli.lsp.plan_mends import (
    FIXABLE_WARNINGS,
    edits_of_needless_dependency,
    edits_of_repeated_call,
)
from wavewright.engine.interfaces.cli.lsp.text_edits import Edit, NotEditable, add_member
from wavewright.planner.diagnostics.diagnostic import Addition, Diagnostic, Replacement
from wavewright.planner.types import Json

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.diagnostics import CheckOutcome
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument

_STEP = re.compile(r".*/steps/\d+(?=/|$)")


def code_actions(
    document: OpenDocument, within: types.Range, outcome: CheckOutcome | None
) -> list[types.CodeAction]:
    """Return the mends of the diagnostics in a range."""
    checked = None if outcome is None else outcome.checked
    if checked is None or checked.text.source.text != document.text:
        return []
    start, end = document.places.offset(within.start), document.places.offset(within.end)
    found: list[types.CodeAction] = []
    for diagnostic in checked.diagnostics:
        span = diagnostic.span or Span(0, 0)
        if span.start > end or span.end < start:
            continue
        with suppress(NotEditable):
            edits = [*_edits(document, diagnostic, outcome)]
            found += [_action(document, diagnostic, edits)] if edits else []
    return found


def _action(document: OpenDocument, diagnostic: Diagnostic, edits: list[Edit]) -> types.CodeAction:
    changes = [
        types.TextEdit(document.places.range(Span(edit.start, edit.end)), edit.text)
        for edit in edits
    ]
    text = edits[0].text.strip()
    title = f"{diagnostic.code}: write {text}" if text else f"{diagnostic.code}: remove it"
    return types.CodeAction(
        title,
        types.CodeActionKind.QuickFix,
        diagnostics=[as_shown(diagnostic, document.places)],
        is_preferred=True,
        edit=types.WorkspaceEdit(changes={document.uri: changes}),
    )


def _edits(
    document: OpenDocument, found: Diagnostic, outcome: CheckOutcome | None
) -> Iterator[Edit]:
    match found.mend:
        case Replacement(text) if found.span is not None:
            written = document.text[found.span.start : found.span.end]
            quote = written[:1] if written[:1] in {'"', "'"} else ""
            yield Edit(found.span.start, found.span.end, f"{quote}{text}{quote}")
        case Addition():
            yield from _addition(document, found, found.mend)
        case _ if found.code in FIXABLE_WARNINGS and outcome is not None:
            yield from _edits_of_warning(found, outcome)
        case _:
            return


def _edits_of_warning(found: Diagnostic, outcome: CheckOutcome) -> Iterator[Edit]:
    checked = outcome.checked
    basis = None if checked is None else checked.basis
    if checked is None or checked.plan is None or basis is None or basis.document is None:
        return
    pointer = found.pointer[len(basis.pointer) :]
    if found.code == "W803":
        yield from edits_of_needless_dependency(basis.document, basis.pointer, pointer)
    else:
        yield from edits_of_repeated_call(
            basis.document,
            basis.pointer,
            pointer,
            plan=basis.plan,
            bound=checked.plan,
            tools=basis.tools,
        )


def _addition(document: OpenDocument, found: Diagnostic, mend: Addition) -> Iterator[Edit]:
    """Yield what adds a member to the step of a diagnostic, or to an object of it."""
    step = _STEP.match(found.pointer)
    read = document.read
    if step is None or read is None:
        return
    keys, value = [*mend.inside], mend.value
    member, added = mend.key, value
    while True:
        pointer = step[0] + "".join(f"/{key}" for key in keys)
        node = find_node(read.document.root, pointer)
        if node is not None and isinstance(node[0], ObjectNode):
            yield add_member(document.text, node[0], member, added)
            return
        if not keys:
            return
        nested: Json = {member: added}
        member, added = keys.pop(), nested
