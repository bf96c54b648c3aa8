"""The fields of a form are those of the types that the schema of the inputs names, however it names
them.
"""

from __future__ import annotations

import pytest

from wavewright.engine.interfaces.view.input_fields import fields_of
from wavewright.planner.types import JsonObject

DEFINED: JsonObject = {
    "level": {"type": "integer", "title": "How high"},
    "way": {"enum": ["a", "b"]},
}


@pytest.mark.parametrize(
    ("declared", "options", "is_number", "is_long"),
    [
        ({"type": "string"}, (), False, False),
        ({"type": ["string", "null"]}, (), False, False),
        ({"type": ["string", "integer"]}, (), False, False),
        ({"type": ["integer", "null"]}, (), True, False),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, (), True, False),
        ({"type": ["boolean", "null"]}, ("true", "false"), False, False),
        ({"$ref": "#/$defs/level", "default": 2}, (), True, False),
        ({"$ref": "#/$defs/way"}, ("a", "b"), False, False),
        ({"enum": [1, None, "blau ü"]}, ("1", "null", "blau ü"), False, False),
        ({"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}]}, ("x", "y"), False, False),
        ({"type": ["array", "null"], "items": {"type": "string"}}, (), False, True),
        ({}, (), False, True),
    ],
)
def test_a_field_is_one_of_the_types_that_its_schema_names(
    declared: JsonObject, options: tuple[str, ...], *, is_number: bool, is_long: bool
) -> None:
    schema: JsonObject = {"properties": {"size": declared}, "$defs": DEFINED}

    [field] = fields_of({}, schema, {})

    assert (field.options, field.is_number, field.is_long) == (options, is_number, is_long)
    assert field.value == ("2" if "default" in declared else "")
