"""What a place of a document is: the type of an expression's part, a step, a tool, a key, a code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config.sources import NodeAt, Span, node_at, offset_in_string, pointer_keys
from wavewright.engine.interfaces.cli.common.arguments import has_journal
from wavewright.engine.interfaces.cli.lsp.completion import schema_of_place
from wavewright.engine.interfaces.cli.project.tools_command import tool_text
from wavewright.engine.rehearsal.dry_run.history import read_history
from wavewright.planner.cel.functions.catalogue import function_entries
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.places import ExpressionPlace, PartAt, expression_at, part_at
from wavewright.planner.diagnostics.diagnostic import (
    catalogue,
    counted,
    describe_parameter,
    list_fields,
    type_name,
)
from wavewright.planner.schemas.views import scoped_schema, view_schema
from wavewright.planner.types import JsonSchema, StepId
from wavewright.reviewer.values import duration_text

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, ReadText, Surroundings
    from wavewright.planner.language.signatures import ToolSignature


def hover(
    document: OpenDocument, params: types.HoverParams, around: Surroundings
) -> types.Hover | None:
    """Return what is known of a place, as Markdown."""
    offset = document.places.offset(params.position)
    shown = [*_of_node(document, offset, around), *_of_codes(document, offset, around)]
    if not shown:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(shown)))


def _of_codes(document: OpenDocument, offset: int, around: Surroundings) -> Iterator[str]:
    """Yield what the pages of the diagnostics at an offset say."""
    for source, diagnostics in () if around.outcome is None else around.outcome.found:
        for found in diagnostics if source.name == str(document.path) else ():
            span = found.span or Span(0, 0)
            if span.start <= offset <= span.end and found.code in catalogue():
                entry = catalogue()[found.code]
                yield f"**{entry.code}: {entry.title}**\n\n{entry.meaning}\n\n{entry.fix}"


def _of_node(document: OpenDocument, offset: int, around: Surroundings) -> Iterator[str]:
    read = document.read
    at = None if read is None else node_at(read.document.root, offset)
    if read is None or at is None:
        return
    subject = read.subject(around)
    pointer = read.in_plan(at.pointer)
    named = None if subject is None else _expression_of_key(subject, pointer)
    if at.is_key and named is not None:
        yield from _part(named)
        return
    if at.is_key:
        schema = schema_of_place(read.kind, subject, pointer, at.pointer)
        if schema is not None:
            yield describe_parameter(pointer_keys(at.pointer)[-1], schema)
        return
    text = getattr(at.node, "value", None)
    if subject is None or pointer is None or not isinstance(text, str):
        return
    keys = pointer_keys(pointer)
    if keys[-1] == "plan" and text in subject.sub_plans:
        yield _call(subject.sub_plans[text])
    elif keys[-1] == "tool" and text in around.tools:
        yield _tool(around.tools[text], around)
    elif _names_step(keys) and text in subject.steps:
        yield _step(read, subject, StepId(text), around)
    else:
        yield from _expression(read, at, subject, pointer, offset, around)


def _names_step(keys: list[str]) -> bool:
    return keys[-1] in ("id", "on", "supersedes") or keys[-2:-1] == ["depends_on"]


def _expression(
    read: ReadText,
    at: NodeAt,
    subject: CheckContext,
    pointer: str,
    offset: int,
    around: Surroundings,
) -> Iterator[str]:
    text, inside = (
        str(getattr(at.node, "value", "")),
        offset_in_string(read.document.source.text, at.node, offset),
    )
    place = None if inside is None else expression_at(subject, pointer, text, inside)
    part = None if place is None else part_at(place)
    if part is None:
        return
    yield from _part(part)
    if part.step is not None and part.step in subject.steps:
        yield _step(read, subject, part.step, around)
    elif part.is_call:
        yield from _function(part)


def _part(part: PartAt) -> Iterator[str]:
    if part.schema is not None:
        yield f"```\n{part.text}: {schema_text(part.schema)}\n```"


def _expression_of_key(subject: CheckContext, pointer: str | None) -> PartAt | None:
    """Return what expressions read by a key of `inputs` or `let`; None for any other key."""
    match pointer_keys(pointer or ""):
        case ["inputs", name]:
            read = f"inputs.{name}"
        case ["let", name]:
            read = name
        case _:
            return None
    return part_at(ExpressionPlace(subject, "/result", "result", read, "", is_whole=True))


def _function(part: PartAt) -> Iterator[str]:
    for entry in function_entries():
        if entry.name == part.name:
            yield f"`{entry.call}`: {entry.meaning}"


def _step(read: ReadText, subject: CheckContext, name: StepId, around: Surroundings) -> str:
    step = subject.steps[name]
    output = subject.types.outputs.get(name, {})
    wave = read.waves(subject, around.settings).get(name, 0) + 1
    lines = [f"step `{name}`, wave {wave}"]
    lines += [step.why] if step.why else []
    lines.append(f"```\n{schema_text(output)}\n```")
    signature = subject.signature(step)
    if signature is not None:
        lines.append(_tool(signature, around) if step.plan is None else _call(signature))
    return "\n\n".join(lines)


def _call(signature: ToolSignature) -> str:
    return f"```\n{tool_text(signature)}```"


def _tool(signature: ToolSignature, around: Surroundings) -> str:
    facts = [f"effects: {', '.join(sorted(signature.effects)) or 'none'}"]
    if signature.untrusted_output:
        facts.append("its output is untrusted")
    elif signature.untrusted:
        facts.append(f"untrusted: {', '.join(sorted(signature.untrusted))}")
    if signature.needs_approval:
        facts.append("needs an approval")
    if signature.cache_for is not None:
        facts.append(f"results are kept for {duration_text(signature.cache_for)}")
    facts += _past(signature, around)
    return f"{_call(signature)}\n\n{'; '.join(facts)}"


def _past(signature: ToolSignature, around: Surroundings) -> Iterator[str]:
    """Yield how long the latest calls took, and what they cost, as the journal has them."""
    settings = around.settings
    if not has_journal(settings):
        return
    history = read_history(settings.journal_url or settings.journal, {signature.name})
    past = history.get(signature.name)
    if past is None or not past.seconds:
        return
    seconds = sorted(past.seconds)
    median = duration_text(seconds[len(seconds) // 2])
    yield f"the last {counted(len(seconds), 'call')} took {median} (median)"
    costs = [spend.usd for spend in past.spends if spend.usd is not None]
    if costs:
        yield f"and cost {sum(costs) / len(costs):.4f} USD each"


def schema_text(schema: JsonSchema) -> str:
    """Return a type with the fields that it has, or that its elements have."""
    view = view_schema(scoped_schema(schema))
    items = view.schema.get("items")
    fields = list_fields(items if isinstance(items, dict) else view.schema, what="fields")
    return type_name(view.schema or schema) + (f"\n{fields}" if fields else "")
