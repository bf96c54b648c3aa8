"""What may be written at a place: keys, tools, arguments, names, and the parts of expressions.

Keys and their descriptions come from the schemas that are published for documents, arguments from
the signatures of tools, functions from the catalogue of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from lsprotocol import types

from wavewright.config.sources import Span, pointer_keys
from wavewright.engine.interfaces.cli.lsp.reading import (
    Cursor,
    DocumentKind,
    cursors_at,
    schema_of_kind,
    value_at,
)
from wavewright.engine.interfaces.cli.project.tools_command import tool_text
from wavewright.engine.run.project.templates import template_names
from wavewright.planner.cel.functions.catalogue import function_entries
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.places import (
    ExpressionPlace,
    NameAsked,
    expression_at,
    name_asked,
    parameter_schema,
    schema_below,
)
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.diagnostics.diagnostic import type_name, value_text
from wavewright.planner.schemas.views import (
    field_schemas,
    required_fields,
    scoped_schema,
    subschema,
    view_schema,
)
from wavewright.planner.types import JsonSchema, StepId, as_list, as_object
from wavewright.tools.pack_folders import project_prompts
from wavewright.tools.packs import pack_names

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.signatures import ToolSignature

_Kind = types.CompletionItemKind
_WORD_BEFORE = re.compile(r"[\w./:-]*\Z")
_OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "list": frozenset({"array"}),
    "object": frozenset({"object"}),
    "s": frozenset({"string"}),
    "t": frozenset({"timestamp", "duration"}),
}
"""Kinds of what a method is asked of, by the word that the catalogue has for it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that may be written."""

    label: str
    kind: types.CompletionItemKind
    detail: str = ""
    documentation: str = ""
    rank: int = 0
    """Offers of a lower rank come first."""
    inserted: str | None = None
    """The text that is inserted, where it is not the label."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a document may name."""

    settings: Settings
    tools: Mapping[str, ToolSignature]
    goal: Goal | None


def complete(
    document: OpenDocument, position: types.Position, around: Surroundings
) -> types.CompletionList:
    """Return what may be written at a place of a document."""
    offset = document.places.offset(position)
    for cursor in cursors_at(document.text, offset, str(document.path)):
        written, offers = _offers(cursor, document, around)
        if offers:
            span = Span(offset - len(written), offset)
            return types.CompletionList(
                is_incomplete=False, items=[*_items(offers, document, span)]
            )
    return types.CompletionList(is_incomplete=False, items=[])


def _items(
    offers: Iterable[Offer], document: OpenDocument, span: Span
) -> Iterator[types.CompletionItem]:
    where = document.places.range(span)
    for place, offer in enumerate(offers):
        yield types.CompletionItem(
            label=offer.label,
            kind=offer.kind,
            detail=offer.detail or None,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, offer.documentation)
            if offer.documentation
            else None,
            sort_text=f"{offer.rank}{place:04}",
            filter_text=offer.label,
            text_edit=types.TextEdit(where, offer.inserted or offer.label),
        )


def _offers(
    cursor: Cursor, document: OpenDocument, around: Surroundings
) -> tuple[str, list[Offer]]:
    """Return what is written of a word, and what it may become."""
    before = cursor.text[: cursor.offset]
    subject = cursor.read.subject(around.tools, around.goal)
    pointer = cursor.read.in_plan(cursor.pointer)
    if cursor.is_key:
        return before, [*_keys(cursor, subject, pointer)]
    if subject is not None and pointer is not None:
        place = expression_at(subject, pointer, cursor.text, cursor.offset)
        asked = None if place is None else name_asked(place)
        if place is not None and asked is not None:
            return asked.written, [*_expression_offers(place, asked)]
    word = _WORD_BEFORE.search(before)
    written = before if word is None else word[0]
    offers = [*_names(cursor, subject, pointer, document, around)]
    return written, offers or [*_literals(cursor, subject, pointer)]


# --- keys and literals


def _keys(cursor: Cursor, subject: CheckContext | None, pointer: str | None) -> Iterator[Offer]:
    if cursor.pointer == "/packs" or (cursor.pointer == "/tools" and cursor.read.kind == "job"):
        yield from (
            Offer(name, _Kind.Module, "pack", inserted=f"{name}: ") for name in pack_names()
        )
    schema = schema_of_place(cursor.read.kind, subject, pointer, cursor.pointer)
    if schema is None:
        return
    view = view_schema(scoped_schema(schema))
    known = as_object(value_at(cursor.read.document.value, cursor.pointer))
    needed = required_fields(view)
    for name, part in field_schemas(view).items():
        if name in known:
            continue
        shape = subschema(part, view.root).schema
        yield Offer(
            name,
            _Kind.Property,
            f"{type_name(shape)}{', required' if name in needed else ''}",
            str(shape.get("description", "")),
            rank=0 if name in needed else 1,
            inserted=f"{name}: " if _is_block(cursor) else None,
        )


def _is_block(cursor: Cursor) -> bool:
    return not cursor.read.document.source.text.lstrip().startswith("{")


def schema_of_place(
    kind: DocumentKind, subject: CheckContext | None, pointer: str | None, whole: str
) -> JsonSchema | None:
    """Return what may stand at a place: of arguments as the tool says, else as the documents do."""
    keys = [] if pointer is None else pointer_keys(pointer)
    if subject is not None and keys[:1] == ["steps"] and keys[2:3] == ["params"]:
        step = subject.plan.steps[int(keys[1])]
        return parameter_schema(subject, step, keys[3:])
    return schema_below(schema_of_kind(kind), pointer_keys(whole))


def _literals(cursor: Cursor, subject: CheckContext | None, pointer: str | None) -> Iterator[Offer]:
    schema = schema_of_place(cursor.read.kind, subject, pointer, cursor.pointer)
    if schema is None:
        return
    view = view_schema(scoped_schema(schema))
    for branch in view.branches or (view,):
        values = [*as_list(branch.schema.get("enum"))]
        values += [branch.schema["const"]] if "const" in branch.schema else []
        values += [True, False] if branch.kind == "boolean" else []
        default = branch.schema.get("default")
        for value in values:
            text = value if isinstance(value, str) else value_text(value)
            yield Offer(text, _Kind.Value, "default" if value == default else "")


# --- names of things


def _names(
    cursor: Cursor,
    subject: CheckContext | None,
    pointer: str | None,
    document: OpenDocument,
    around: Surroundings,
) -> Iterator[Offer]:
    whole = re.sub(r"/\d+(?=/|$)", "/#", cursor.pointer)
    inside = None if pointer is None else re.sub(r"/\d+(?=/|$)", "/#", pointer)
    if inside in _TOOL_NAMES or whole in _TOOL_NAMES:
        yield from _tools(around.tools)
    elif subject is not None and inside in _STEP_NAMES:
        yield from _steps(subject, pointer or "")
    elif subject is not None and inside == "/gates/#/required/#":
        yield from _fields_of_gate(subject, pointer or "")
    elif subject is not None and inside == "/caps/#/field":
        yield from _result_fields(subject)
    elif inside == "/steps/#/plan" or whole == "/plan":
        yield from _plan_files(document.path)
        yield from _templates(around.settings)
    elif whole in _OTHER_NAMES:
        yield from _OTHER_NAMES[whole](around.settings)


_TOOL_NAMES: Final = frozenset(
    {
        *("/steps/#/tool", "/gates/#/on_tool", "/available_tools/#"),
        *("/available_tools/#/name", "/tools/#"),
    }
)
_STEP_NAMES: Final = frozenset(
    {"/steps/#/depends_on/#", "/steps/#/depends_on", "/gates/#/on", "/steps/#/supersedes"}
)


def _tools(tools: Mapping[str, ToolSignature]) -> Iterator[Offer]:
    for name, signature in sorted(tools.items()):
        tags = f" [{', '.join(sorted(signature.tags))}]" if signature.tags else ""
        text = tool_text(signature)
        yield Offer(name, _Kind.Function, text.split("\n", 1)[0] + tags, f"```\n{text}```")


def _steps(subject: CheckContext, pointer: str) -> Iterator[Offer]:
    keys = pointer_keys(pointer)
    own = subject.plan.steps[int(keys[1])].id if keys[0] == "steps" else None
    waiting = (
        subject.graph.descendants(own)
        if own is not None and own in subject.steps
        else set[StepId]()
    )
    for name, step in subject.steps.items():
        if name != own and name not in waiting:
            yield Offer(name, _Kind.Variable, step.tool, step.why or "")


def _fields_of_gate(subject: CheckContext, pointer: str) -> Iterator[Offer]:
    gate = subject.plan.gates[int(pointer_keys(pointer)[1])]
    step = None if gate.on is None else subject.steps.get(gate.on)
    if step is not None:
        yield from _fields(subject.types.call_output(step), None)


def _result_fields(subject: CheckContext) -> Iterator[Offer]:
    yield Offer("overall", _Kind.Field, "the confidence of the whole")
    for name in as_object(subject.plan.result):
        yield Offer(name, _Kind.Field)


def _plan_files(own: Path) -> Iterator[Offer]:
    for file in sorted(own.parent.glob("*.plan.*")):
        if file != own:
            yield Offer(file.name, _Kind.File)


def _templates(settings: Settings) -> Iterator[Offer]:
    for name in template_names(settings):
        yield Offer(name, _Kind.Module, "goal template")


def _prompts(settings: Settings) -> Iterator[Offer]:
    for name in project_prompts(settings.prompts).names():
        yield Offer(name, _Kind.File, "prompt")


def _models(_settings: Settings) -> Iterator[Offer]:
    from pydantic_ai.models import KnownModelName

    for name in get_args(KnownModelName.__value__):
        yield Offer(str(name), _Kind.EnumMember, "model")


_OTHER_NAMES: Final[Mapping[str, Callable[[Settings], Iterator[Offer]]]] = {
    "/goal_template": _templates,
    "/prompt": _prompts,
    "/model": _models,
    "/overrides/model_preference": _models,
    "/model_preference": _models,
}


# --- expressions


def _expression_offers(place: ExpressionPlace, asked: NameAsked) -> Iterator[Offer]:
    wanted = place.wanted
    if asked.is_step:
        outputs = place.subject.types.outputs
        for step_id in place.readable_steps():
            schema, step = outputs.get(step_id, {}), place.subject.steps[step_id]
            yield _typed(step_id, _Kind.Variable, schema, wanted, step.why or f"calls {step.tool}")
    elif asked.owner is not None:
        yield from _fields(asked.owner, wanted)
        yield from _methods(asked.owner)
    else:
        for name, schema in asked.names.items():
            yield _typed(name, _Kind.Variable, schema, wanted)
        yield Offer("steps", _Kind.Variable, "outputs of steps")
        yield from _functions(lambda owner: owner is None)


def _fields(owner: JsonSchema, wanted: JsonSchema | None) -> Iterator[Offer]:
    view = view_schema(scoped_schema(owner))
    for name, part in field_schemas(view).items():
        schema = subschema(part, view.root).schema
        yield _typed(name, _Kind.Field, schema, wanted, str(schema.get("description", "")))


def _typed(
    name: str,
    kind: types.CompletionItemKind,
    schema: JsonSchema,
    wanted: JsonSchema | None,
    documentation: str = "",
) -> Offer:
    """Return a name with its type; those that fit what is wanted come first."""
    fits = wanted is None or incompatibility(schema, wanted) is None
    return Offer(name, kind, type_name(schema), documentation, rank=0 if fits else 1)


def _methods(owner: JsonSchema) -> Iterator[Offer]:
    view = view_schema(scoped_schema(owner))
    kinds = {branch.kind for branch in view.branches or (view,)}

    def is_asked_of(word: str | None) -> bool:
        return word is not None and ("open" in kinds or bool(_OWNERS.get(word, kinds) & kinds))

    return _functions(is_asked_of)


def _functions(is_offered: Callable[[str | None], bool]) -> Iterator[Offer]:
    seen = set[str]()
    for entry in function_entries():
        if is_offered(entry.owner) and entry.name not in seen:
            seen.add(entry.name)
            kind = _Kind.Function if entry.owner is None else _Kind.Method
            yield Offer(
                entry.name, kind, entry.call, entry.meaning, rank=2, inserted=f"{entry.name}("
            )
