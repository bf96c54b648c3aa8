"""What the editor shows between the lines: waves, the type of the result, and a dry run on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from wavewright.config.documents import read_document
from wavewright.config.sources import Span, find_node
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.run.jobs.documents import no_plan_error
from wavewright.engine.run.jobs.resolving import resolve_job
from wavewright.planner.diagnostics.diagnostic import type_name
from wavewright.planner.plans.uses import embedded_uses
from wavewright.planner.schemas.validation import infer_schema

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.interfaces.cli.lsp.completion import Surroundings
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument
    from wavewright.planner.checks.context import CheckContext

DRY_RUN: Final = "wavewright.dryRun"
"""Name of the command that shows a dry run."""


def inlay_hints(
    document: OpenDocument, within: types.Range, around: Surroundings
) -> list[types.InlayHint]:
    """Return the wave of each step, and the type of the result, of the lines that are shown."""
    read = document.read
    subject = None if read is None else read.subject(around.tools, around.goal)
    if read is None or subject is None:
        return []
    base, found = read.plan_pointer or "", list[types.InlayHint]()
    for pointer, text in _texts(subject):
        node = find_node(read.document.root, base + pointer)
        if node is None:
            continue
        # Behind the key where the value may be of several lines.
        is_id = pointer.endswith("/id")
        end = node[0].end if is_id or node[1] is None else node[1].end + 1
        position = document.places.position(end)
        if within.start.line <= position.line <= within.end.line:
            found.append(types.InlayHint(position, text, padding_left=True))
    return found


def _texts(subject: CheckContext) -> Iterator[tuple[str, str]]:
    wave_of = subject.graph.wave_of()
    for number, step in enumerate(subject.plan.steps):
        if step.id in wave_of:
            yield f"/steps/{number}/id", f"wave {wave_of[step.id] + 1}"
    result = subject.plan.result
    if result is None:
        return
    schema = infer_schema(result)
    uses = embedded_uses(result, "/result", "result") if isinstance(result, str) else []
    if uses and uses[0].is_whole:
        schema = subject.types.result(uses[0], None) or {}
    yield "/result", type_name(schema)


def lenses(document: OpenDocument) -> list[types.CodeLens]:
    """Return the command on the first line of a plan or a job that shows a dry run of it."""
    read = document.read
    if read is None or read.kind not in ("plan", "job"):
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
    if order.draft is None:
        raise no_plan_error(order.goal, order.source)
    _, record = forecast_job(order, settings)
    return f"# Dry run of {document.path.name}\n\n```text\n{dry_run_text(record)}```\n"
