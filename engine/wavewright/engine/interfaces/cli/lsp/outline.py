"""What a document looks like: its outline, what can be folded, what is shown between lines, and how it
is formatted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from wavewright.config import Span, read_document
from wavewright.config.formatting import formatted_text
from wavewright.config.sources import ScalarNode, find_node, iterate_nodes
from wavewright.engine.interfaces.cli.planning.broken_texts import kept_of
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.run.jobs.resolving import resolve_job
from wavewright.planner.diagnostics.diagnostic import type_name

if TYPE_CHECKING:
    from wavewright.config import Settings
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.planner import StepId
    from wavewright.planner.checks.context import CheckContext

DRY_RUN: Final = "wavewright.dryRun"
"""Name of the command that shows a dry run."""


def symbols(
    document: OpenDocument, _params: types.DocumentSymbolParams, around: Surroundings
) -> list[types.DocumentSymbol]:
    """Return the steps of a plan by wave, then its gates.

    Those of a text that cannot be read are the last ones that could, where they stand by now.
    """
    read, place = document.read, _as_it_stands
    if read is None and around.good is not None:
        read = around.good.document.read
        place = kept_of(around.good.document.text, document.text).span_around
    subject = None if read is None else around.subject(read)
    if read is None or subject is None:
        return []

    def range_of(pointer: str) -> types.Range | None:
        span = read.document.span(f"{read.base}{pointer}")
        return None if span is None else document.places.range(place(span))

    waves: dict[int, list[types.DocumentSymbol]] = {}
    wave_of = read.waves(subject, around.settings)
    for number, step in enumerate(subject.plan.steps):
        of_wave = waves.setdefault(wave_of.get(step.id, 0), [])
        of_wave += _symbol(range_of, f"/steps/{number}", step.id, step.plan or step.tool)
    symbols = [_wave(number, members) for number, members in sorted(waves.items()) if members]
    for number, gate in enumerate(subject.plan.gates):
        looked_at = gate.on or gate.on_tool or "the plan"
        symbols += _symbol(range_of, f"/gates/{number}", gate.id, f"gate on {looked_at}")
    return symbols


def _as_it_stands(span: Span) -> Span:
    return span


def _symbol(
    range_of: Callable[[str], types.Range | None], pointer: str, name: str, detail: str
) -> Iterator[types.DocumentSymbol]:
    whole, chosen = range_of(pointer), range_of(f"{pointer}/id")
    if whole is not None and chosen is not None:
        kind = types.SymbolKind.Function if "/steps/" in pointer else types.SymbolKind.Event
        yield types.DocumentSymbol(name, kind, whole, chosen, detail)


def _wave(number: int, members: list[types.DocumentSymbol]) -> types.DocumentSymbol:
    start = min(member.range.start for member in members)
    end = max(member.range.end for member in members)
    return types.DocumentSymbol(
        f"wave {number + 1}",
        types.SymbolKind.Namespace,
        types.Range(start, end),
        members[0].selection_range,
        children=members,
    )


def folds(
    document: OpenDocument, _params: types.FoldingRangeParams, _around: Surroundings
) -> list[types.FoldingRange]:
    """Return the lists and objects of several lines."""
    lines: set[tuple[int, int]] = set()
    for node in iterate_nodes(document.read.document.root) if document.read is not None else ():
        whole = document.places.range(Span(node.start, node.end))
        if not isinstance(node, ScalarNode) and whole.end.line > whole.start.line:
            lines.add((whole.start.line, whole.end.line))
    return [types.FoldingRange(start, end) for start, end in sorted(lines)]


def formatted(
    document: OpenDocument, _params: types.DocumentFormattingParams, _around: Surroundings
) -> list[types.TextEdit]:
    """Return the edit that formats a document; none where it cannot be read, or is so already."""
    if document.read is None or document.read.document.faults:
        return []
    text = formatted_text(document.read.document)
    if text == document.text:
        return []
    whole = document.places.range(Span(0, len(document.text)))
    return [types.TextEdit(whole, text)]


def inlay_hints(
    document: OpenDocument, params: types.InlayHintParams, around: Surroundings
) -> list[types.InlayHint]:
    """Return the wave of each step, and the type of the result, of the lines that are shown."""
    read = document.read
    subject = None if read is None else around.subject(read)
    if read is None or subject is None:
        return []
    hints: list[types.InlayHint] = []
    for pointer, text in _hint_texts(subject, read.waves(subject, around.settings)):
        found = find_node(read.document.root, f"{read.base}{pointer}")
        if found is None:
            continue
        node, key = found
        # Behind the key where the value may be of several lines.
        end = node.end if key is None or pointer.endswith("/id") else key.end + 1
        position = document.places.position(end)
        if params.range.start.line <= position.line <= params.range.end.line:
            hints.append(types.InlayHint(position, text, padding_left=True))
    return hints


def _hint_texts(subject: CheckContext, wave_of: Mapping[StepId, int]) -> Iterator[tuple[str, str]]:
    for number, step in enumerate(subject.plan.steps):
        if step.id in wave_of:
            yield f"/steps/{number}/id", f"wave {wave_of[step.id] + 1}"
    if subject.plan.result is not None:
        yield "/result", type_name(subject.types.value(subject.plan.result))


def lenses(
    document: OpenDocument, _params: types.CodeLensParams, _around: Surroundings
) -> list[types.CodeLens]:
    """Return the command on the first line of a plan or a job that shows a dry run of it."""
    if document.read is None or document.read.kind not in ("plan", "job"):
        return []
    command = types.Command("dry run", DRY_RUN, arguments=[document.uri])
    return [types.CodeLens(document.places.range(Span(0, 0)), command)]


def dry_run_markdown(document: OpenDocument, settings: Settings) -> str:
    """Return the forecast of a plan or a job as it stands in the editor, as Markdown.

    Raises:
        DocumentError, PlanError: it is not valid.
    """
    written = read_document(document.text, str(document.path))
    order = resolve_job(written, document.path, None, settings)
    _, record = forecast_job(order, settings)
    return f"# Dry run of {document.path.name}\n\n```text\n{dry_run_text(record)}```\n"
