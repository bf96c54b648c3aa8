"""What may be written at a place of a document: keys, tools, arguments, names, and the parts of
expressions.

Keys and their descriptions come from the schemas that are published for documents, arguments from
the signatures of tools, functions from the catalogue of expressions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, get_args

from wavewright.config.cursors import Cursor
from wavewright.config.documents import value_at
from wavewright.config.sources import pointer_keys
from wavewright.engine.interfaces.cli.project.init_command import schema_text
from wavewright.engine.interfaces.cli.project.tools_command import tool_text
from wavewright.engine.run.jobs.documents import DocumentKind
from wavewright.engine.run.jobs.read_texts import ReadText
from wavewright.engine.run.project.templates import template_names
from wavewright.planner import Json, JsonSchema, as_list, as_object
from wavewright.planner.checks.names import NameKind, kind_of_name, pointer_shape
from wavewright.planner.checks.offers import (
    Offer,
    expression_offers,
    fields_of_cap,
    fields_of_gate,
    names_of_steps,
)
from wavewright.planner.checks.places import argument_schema, expression_at, name_asked
from wavewright.planner.diagnostics.diagnostic import type_name, value_text
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.schemas.views import (
    allowed_values,
    field_schemas,
    required_fields,
    schema_below,
    subschema,
    view_of,
)
from wavewright.tools import PackError, pack_names, project_prompts
from wavewright.tools.packs import pack_settings_schema

if TYPE_CHECKING:
    from pathlib import Path

    from wavewright.config import Settings
    from wavewright.planner import ToolSignatures
    from wavewright.planner.checks.context import CheckContext

_WORD_BEFORE = re.compile(r"[\w./:-]*\Z")


class Surrounded(Protocol):
    """What a document may name."""

    @property
    def settings(self) -> Settings:
        """The settings of its project."""
        ...

    @property
    def tools(self) -> ToolSignatures:
        """Every tool of the project, which is imported once they are asked for."""
        ...

    @property
    def inputs(self) -> Mapping[str, Json]:
        """The inputs of the plan that a job names."""
        ...


@dataclass(frozen=True, slots=True)
class CursorPlace:
    """Where something is being written, and what is known there."""

    cursor: Cursor
    read: ReadText
    path: Path
    around: Surrounded
    subject: CheckContext | None
    pointer: str | None
    """From the plan; None outside it."""

    @property
    def schema(self) -> JsonSchema | None:
        """What may stand there."""
        return schema_of_place(self.kind, self.subject, self.pointer, self.cursor.pointer)

    @property
    def kind(self) -> DocumentKind:
        """What the document is meant as, or is to become in its folder."""
        settings = self.around.settings
        folder = self.path.parent
        if folder in settings.templates:
            return "goal"
        return "worker" if folder in settings.workers else self.read.kind


def offers_at(place: CursorPlace) -> tuple[str, Iterator[Offer]]:
    """Return what is written of a word, and what it may become."""
    cursor, subject = place.cursor, place.subject
    before = cursor.text[: cursor.offset]
    if cursor.is_key:
        return before, _keys(place)
    if subject is not None and place.pointer is not None:
        expression = expression_at(subject, place.pointer, cursor.text, cursor.offset)
        partial_name = None if expression is None else name_asked(expression)
        if expression is not None and partial_name is not None:
            return partial_name.written, expression_offers(expression, partial_name)
    word = _WORD_BEFORE.search(before)
    written = before if word is None else word[0]
    names = [*_names(place)]
    return written, iter(names) if names else _literals(place)


# --- keys and literals


def schema_of_place(
    kind: DocumentKind, subject: CheckContext | None, pointer: str | None, whole: str
) -> JsonSchema | None:
    """Return what may stand at a place: of arguments as the tool says, else as the documents do."""
    if subject is not None and pointer is not None:
        of_argument = argument_schema(subject, pointer)
        if of_argument is not None:
            return of_argument
    match pointer_keys(whole):
        case [section, pack, *rest] if section == _SECTION_OF_PACKS.get(kind):
            return _pack_setting(pack, rest)
        case whole_keys:
            return schema_below(_schema_of_kind(kind), whole_keys)


_SECTION_OF_PACKS: Final[Mapping[DocumentKind, str]] = {"settings": "packs", "job": "tools"}
"""Where a document has the settings of packs, by their names."""


def _pack_setting(pack: str, keys: list[str]) -> JsonSchema | None:
    try:
        schema = pack_settings_schema(pack)
    except PackError:  # reported where the document is checked
        return None
    return None if schema is None else schema_below(schema, keys)


@lru_cache(maxsize=8)
def _schema_of_kind(kind: DocumentKind) -> JsonSchema:
    """Return the schema that is published for documents of a kind, without the rules on which
    fields go together.
    """
    schema: JsonSchema = json.loads(schema_text(kind), object_hook=_with_free_names)
    for definition in (schema, *as_object(schema.get("$defs")).values()):
        if isinstance(definition, dict) and "properties" in definition:
            for rule in ("allOf", "anyOf", "oneOf"):
                definition.pop(rule, None)
    return schema


def _with_free_names(part: JsonSchema) -> JsonSchema:
    """Return a part of a schema in which fields of a pattern may have any name: that of a schedule, or
    of a rule for notices, is being written.
    """
    patterns = part.pop("patternProperties", None)
    for below in as_object(patterns).values():
        part["additionalProperties"] = below
    return part


def _keys(place: CursorPlace) -> Iterator[Offer]:
    cursor = place.cursor
    is_block = not cursor.source.text.lstrip().startswith("{")
    if cursor.pointer == f"/{_SECTION_OF_PACKS.get(place.kind)}":
        for name in pack_names():
            yield Offer(name, "module", "pack", inserted=f"{name}: ")
    known = as_object(value_at(place.read.document.value, cursor.pointer))
    if cursor.pointer == "/inputs" and place.read.base != "":
        for name, value in place.around.inputs.items():
            if name not in known:
                detail = type_name(infer_schema(value))
                yield Offer(name, "key", detail, inserted=f"{name}: ")
    schema = place.schema
    if schema is None:
        return
    view = view_of(schema)
    needed = required_fields(view)
    for name, part in field_schemas(view).items():
        if name in known:
            continue
        shape = subschema(part, view.root).schema
        is_needed = name in needed
        yield Offer(
            name,
            "key",
            f"{type_name(shape)}{', required' if is_needed else ''}",
            str(shape.get("description", "")),
            rank=0 if is_needed else 1,
            inserted=f"{name}: " if is_block else None,
        )


def _literals(place: CursorPlace) -> Iterator[Offer]:
    schema = place.schema
    if schema is None:
        return
    view = view_of(schema)
    for branch in view.branches or (view,):
        values = [*(allowed_values(branch.schema) or ())]
        values += [True, False] if branch.kind == "boolean" else []
        default = branch.schema.get("default")
        for value in values:
            text = value if isinstance(value, str) else value_text(value)
            yield Offer(text, "value", "default" if value == default else "")


# --- names of things


def _names(place: CursorPlace) -> Iterator[Offer]:
    inside = None if place.pointer is None else pointer_shape(place.pointer)
    kind = kind_of_name(place.cursor.pointer, place.read.base)
    if inside == "/gates/#/required/#":
        yield from _of_plan(place, fields_of_gate)
    elif inside == "/caps/#/field":
        yield from _of_plan(place, fields_of_cap)
    elif place.cursor.pointer in _MODEL_NAMES:
        yield from _models()
    elif kind is not None and kind in _NAMES and not place.cursor.pointer.endswith("/id"):
        yield from _NAMES[kind](place)


_MODEL_NAMES: Final = frozenset({"/model", "/overrides/model_preference", "/model_preference"})
"""By the pointer from a job or a worker."""


def _tools(place: CursorPlace) -> Iterator[Offer]:
    for name, signature in sorted(place.around.tools.items()):
        tags = f" [{', '.join(sorted(signature.tags))}]" if signature.tags else ""
        text = tool_text(signature)
        yield Offer(name, "tool", text.split("\n", 1)[0] + tags, f"```\n{text}```")


def _steps(place: CursorPlace) -> Iterator[Offer]:
    return _of_plan(place, names_of_steps)


def _of_plan(
    place: CursorPlace, offers: Callable[[CheckContext, str], Iterator[Offer]]
) -> Iterator[Offer]:
    if place.subject is not None and place.pointer is not None:
        yield from offers(place.subject, place.pointer)


def _plans(place: CursorPlace) -> Iterator[Offer]:
    root, home = place.around.settings.root, place.path.parent
    folders = dict.fromkeys((home, root, root / "plans", home / "plans"))
    for file in (file for folder in folders for file in sorted(folder.glob("*.plan.*"))):
        if file != place.path:
            yield Offer(os.path.relpath(file, home), "file")
    yield from _templates(place)


def _templates(place: CursorPlace) -> Iterator[Offer]:
    for name in template_names(place.around.settings):
        yield Offer(name, "module", "goal template")


def _gates(place: CursorPlace) -> Iterator[Offer]:
    for gate in as_list(as_object(place.read.document.value).get("gates")):
        name = as_object(gate).get("id")
        if isinstance(name, str):
            yield Offer(name, "gate", "gate")


def _prompts(place: CursorPlace) -> Iterator[Offer]:
    for name in project_prompts(place.around.settings.prompts).names():
        yield Offer(name, "file", "prompt")


def _models() -> Iterator[Offer]:
    # It takes a second to load, and few complete a model.
    from pydantic_ai.models import KnownModelName

    for name in get_args(KnownModelName.__value__):
        yield Offer(str(name), "model", "model")


_NAMES: Final[Mapping[NameKind, Callable[[CursorPlace], Iterator[Offer]]]] = {
    "step": _steps,
    "gate": _gates,
    "tool": _tools,
    "plan": _plans,
    "template": _templates,
    "prompt": _prompts,
}
