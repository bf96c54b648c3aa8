"""Why a value does not fit a schema, in the words that users and models read."""

from __future__ import annotations

import pytest

from wavewright.planner.diagnostics.suggestions import type_name
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema

NAMES: JsonSchema = {"anyOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"type": "null"}]}
ROW: JsonSchema = {
    "anyOf": [{"type": "object", "required": ["x"], "properties": {"x": {}}}, {"type": "null"}]
}


@pytest.mark.parametrize(
    ("schema", "value", "pointer", "message"),
    [
        pytest.param(NAMES, ["a", "c"], "/1", "is 'c', but must be one of 'a', 'b'", id="an item"),
        pytest.param(NAMES, 3, "", "is 3, but must be a list or null", id="another type"),
        pytest.param(ROW, {}, "", "lacks 'x'", id="a field"),
    ],
)
def test_of_several_forms_the_one_of_the_values_type_says_what_is_wrong(
    schema: JsonSchema, value: Json, pointer: str, message: str
) -> None:
    (misfit,) = validator_of(schema).violations(value)

    assert (misfit.pointer, misfit.message) == (pointer, message)


def test_a_list_that_may_be_null_is_named_with_what_is_in_it() -> None:
    assert type_name({"type": ["array", "null"], "items": {"type": "string"}}) == "list of string or null"


def test_a_pattern_that_takes_too_many_steps_is_told_and_no_crash() -> None:
    (misfit,) = validator_of({"type": "string", "pattern": r"^(a|aa)+\1$"}).violations("a" * 60 + "!")

    assert misfit.message.endswith("but must fit the schema's 'pattern'")
