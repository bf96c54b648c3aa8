"""What a place of a document is: the type of an expression's part, a step, a tool, a key, a code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config import Span
from wavewright.config.cursors import NodeAt, node_at, offset_in_string
from wavewright.config.sources import pointer_keys
from wavewright.engine.interfaces.cli.planning.offers import schema_of_place
from wavewright.engine.interfaces.cli.project.tools_command import tool_facts, tool_text
from wavewright.engine.run.jobs.read_texts import ReadText
from wavewright.planner import StepId, catalogue
from wavewright.planner.cel.functions.catalogue import function_entries
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.places import PartAt, expression_at, part_at, part_of_key, type_text
from wavewright.planner.diagnostics.diagnostic import describe_parameter

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.planner import ToolSignature


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
        for diagnostic in diagnostics if source.name == str(document.path) else ():
            span = diagnostic.span or Span(0, 0)
            if span.start <= offset <= span.end and diagnostic.code in catalogue():
                entry = catalogue()[diagnostic.code]
                yield f"**{entry.code}: {entry.title}**\n\n{entry.meaning}\n\n{entry.fix}"


def _of_node(document: OpenDocument, offset: int, around: Surroundings) -> Iterator[str]:
    read = document.read
    at = None if read is None else node_at(read.document.root, offset)
    if read is None or at is None:
        return
    subject = around.subject(read)
    pointer = read.in_plan(at.pointer)
    named = None if subject is None else part_of_key(subject, pointer)
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
        yield f"```\n{part.text}: {type_text(part.schema)}\n```"


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
    lines.append(f"```\n{type_text(output)}\n```")
    signature = subject.signature(step)
    if signature is not None:
        lines.append(_tool(signature, around) if step.plan is None else _call(signature))
    return "\n\n".join(lines)


def _call(signature: ToolSignature) -> str:
    return f"```\n{tool_text(signature)}```"


def _tool(signature: ToolSignature, around: Surroundings) -> str:
    return f"{_call(signature)}\n\n{'; '.join(tool_facts(signature, around.settings))}"
