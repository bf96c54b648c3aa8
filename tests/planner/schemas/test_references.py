"""References in a schema, and schemas that nobody could compare a value with."""

from __future__ import annotations

import pytest

from wavewright.planner.schemas.references import InvalidSchemaError
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema


@pytest.mark.parametrize(
    ("keyword", "first", "following"),
    [
        pytest.param("oneOf", "#/$defs/s0", "#/$defs/s{}", id="by name"),
        pytest.param("allOf", "#/$defs/s0", "#s{}", id="by anchor"),
        pytest.param("anyOf", "#/x/0", "#/x/{}", id="in a list"),
    ],
)
def test_a_schema_whose_alternatives_double_with_each_reference_is_refused_at_once(
    keyword: str, first: str, following: str
) -> None:
    steps: list[Json] = [
        {"$anchor": f"s{number}", keyword: [{"$ref": following.format(number + 1)} for _ in range(2)]}
        for number in range(40)
    ]
    steps.append({"$anchor": "s40", "type": "string"})
    schema: JsonSchema = {"properties": {"a": {"$ref": first}}}
    if first == "#/x/0":
        schema["x"] = steps
    else:
        schema["$defs"] = {f"s{number}": step for number, step in enumerate(steps)}

    with pytest.raises(InvalidSchemaError, match="more than 10,000 alternatives"):
        validator_of(schema)


def test_a_schema_that_is_within_itself_is_taken() -> None:
    schema: JsonSchema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}],
                "allOf": [{"$ref": "#/$defs/node"}],
            }
        },
    }

    assert validator_of(schema).accepts([["a"], "b"])
