"""The fields of a form for the inputs of a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.planner import Json, JsonObject, as_list
from wavewright.planner.schemas.validation import infer_schema
from wavewright.planner.schemas.views import ScopedSchema, allowed_values, subschema, view_schema
from wavewright.planner.types import properties_of

INPUT: Final = "input."
"""Beginning of the name of a field that is an input."""


@dataclass(frozen=True, slots=True)
class InputField:
    """An input of a job, as a form asks for it."""

    name: str
    about: str
    value: str
    """As it is typed."""
    options: tuple[str, ...]
    """What may be chosen; anything may be typed where there are none."""
    is_number: bool
    is_long: bool
    """Whether it is typed as JSON."""
    is_required: bool


def fields_of(own: JsonObject, schema: JsonObject, typed: Mapping[str, str]) -> list[InputField]:
    """Return what a form asks for by the schema of the inputs, with what was typed before, or else
    the job's own inputs or the defaults.
    """
    required, declared = as_list(schema.get("required")), properties_of(schema)
    # Inputs without a schema are typed like the job's own.
    like_own: JsonObject = {name: infer_schema(value) for name, value in own.items()}
    return [
        _field(
            name,
            subschema(field_schema, schema),
            own.get(name),
            typed.get(name),
            is_required=name in required,
        )
        for name, field_schema in {**like_own, **declared}.items()
    ]


def _field(
    name: str, declared: ScopedSchema, own: Json, typed: str | None, *, is_required: bool
) -> InputField:
    # Of what may be null, the field is that of what else it may be: empty, it is left as it is.
    view = view_schema(declared)
    told: JsonObject = {**view.schema, **declared.schema}
    options = ["true", "false"] if view.kinds == {"boolean"} else allowed_values(told) or []
    preset = told.get("default") if own is None else own
    return InputField(
        name=name,
        about=str(told.get("description") or told.get("title") or ""),
        value=("" if preset is None else _as_typed(preset)) if typed is None else typed,
        options=tuple(map(_as_typed, options)),
        is_number=view.kinds <= {"integer", "number"},
        is_long=not view.kinds <= {"string", "integer", "number", "boolean"},
        is_required=is_required,
    )


def _as_typed(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
