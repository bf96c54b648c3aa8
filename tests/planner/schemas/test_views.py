"""What a schema says about a value."""

from __future__ import annotations

import pytest

from wavewright.planner.schemas.operator_types import describe_kind
from wavewright.planner.schemas.views import (
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    view_schema,
)
from wavewright.planner.types import JsonSchema

NAMED: JsonSchema = {"type": "object", "properties": {"a": {"type": "integer"}}}
FURTHER: JsonSchema = {
    "properties": {"b": {"type": "string"}, "a": {"minimum": 4}},
    "required": ["b"],
}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"allOf": [NAMED, FURTHER]}, id="side by side"),
        pytest.param({**NAMED, "allOf": [FURTHER]}, id="beside its own fields"),
    ],
)
def test_an_object_has_the_fields_of_all_schemas_that_hold_together(schema: JsonSchema) -> None:
    view = view_schema(scoped_schema(schema))

    assert (view.kind, {*field_schemas(view)}) == ("object", {"a", "b"})
    number = field_schema(view, "a")
    assert number is not None
    assert view_schema(number).kind == "integer"
    assert field_schema(view, "c") is None


def test_an_object_whose_parts_leave_it_open_may_have_any_field() -> None:
    view = view_schema(scoped_schema({**NAMED, "additionalProperties": True, "allOf": [FURTHER]}))

    other = field_schema(view, "c")
    assert other is not None
    assert view_schema(other).kind == "open"


PAIR: JsonSchema = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "place", "kind"),
    [
        (PAIR, 1, "string"),
        (PAIR, 2, "any"),
        (PAIR, None, "any"),
        ({**PAIR, "items": {"type": "boolean"}}, 2, "boolean"),
        ({**PAIR, "items": {"type": "string"}}, None, "integer or string"),
        ({**PAIR, "items": False}, None, "integer or string"),
        ({**PAIR, "items": False}, 2, None),
        ({**PAIR, "maxItems": 2}, None, "integer or string"),
        ({**PAIR, "maxItems": 2}, 2, None),
        ({"type": "array", "items": False}, None, "any"),
        ({"type": "string"}, 0, None),
    ],
)
def test_the_elements_behind_the_first_ones_have_a_type_of_their_own(
    schema: JsonSchema, place: int | None, kind: str | None
) -> None:
    element = element_schema(view_schema(scoped_schema(schema)), place)

    assert (None if element is None else describe_kind(view_schema(element))) == kind
