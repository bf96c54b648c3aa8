"""Why a value does not fit a schema, in the words that users and models read."""

from __future__ import annotations

import pytest

from wavewright.planner.diagnostics.diagnostic import describe_parameter, type_name
from wavewright.planner.schemas.validation import InvalidSchemaError, Validator, validator_of
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
        pytest.param(
            {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "c",
            "",
            "is 'c', but must be 'a' or 'b'",
            id="constants",
        ),
        pytest.param(
            {"anyOf": [{"prefixItems": [{"const": "a"}]}, {"prefixItems": [{"const": "b"}]}]},
            ["c"],
            "",
            "has [0] 'c', which must be one of 'a', 'b'",
            id="constants of a place",
        ),
    ],
)
def test_of_several_forms_the_one_of_the_values_type_says_what_is_wrong(
    schema: JsonSchema, value: Json, pointer: str, message: str
) -> None:
    (misfit,) = validator_of(schema).violations(value)

    assert (misfit.pointer, misfit.message) == (pointer, message)


@pytest.mark.parametrize(
    ("alternatives", "wanted"),
    [
        pytest.param([{"format": "date"}, {"format": "time"}], "be a date or a time", id="formats"),
        pytest.param([{"format": "date"}, {"const": "now"}], "be a date or 'now'", id="a constant"),
        pytest.param(
            [{"format": "date"}, {"maxLength": 3}],
            "be a date or have 3 characters or fewer",
            id="a length",
        ),
    ],
)
def test_what_alternatives_want_is_one_sentence(alternatives: list[Json], wanted: str) -> None:
    (misfit,) = Validator({"anyOf": alternatives}, checks_formats=True).violations("soon")

    assert misfit.message == f"is 'soon', but must {wanted}"


@pytest.mark.parametrize("dialect", ["draft-04", "draft-07"])
def test_a_schema_whose_dialect_asks_for_formats_has_them_in_a_call(dialect: str) -> None:
    schema: JsonSchema = {"$schema": f"http://json-schema.org/{dialect}/schema#", "format": "date"}

    assert validator_of(schema).accepts("2024-02-29")
    assert not validator_of(schema).accepts("2024-02-30")


def test_a_list_that_may_be_null_is_named_with_what_is_in_it() -> None:
    assert (
        type_name({"type": ["array", "null"], "items": {"type": "string"}})
        == "list of string or null"
    )


def test_a_pattern_that_takes_too_many_steps_is_told_and_no_crash() -> None:
    (misfit,) = validator_of({"type": "string", "pattern": r"^(a|aa)+\1$"}).violations(
        "a" * 60 + "!"
    )

    assert misfit.message.endswith("but must fit the schema's 'pattern'")


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
        {
            "$anchor": f"s{number}",
            keyword: [{"$ref": following.format(number + 1)} for _ in range(2)],
        }
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


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        pytest.param({"minItems": 1}, [], "have 1 item or more", id="an item"),
        pytest.param({"maxItems": 2}, [1, 2, 3], "have 2 items or fewer", id="items"),
        pytest.param({"maxLength": 1}, "ab", "have 1 character or fewer", id="a character"),
        pytest.param({"minProperties": 1}, {}, "have 1 member or more", id="a member"),
    ],
)
def test_a_limit_agrees_with_its_noun(schema: JsonSchema, value: Json, wanted: str) -> None:
    (misfit,) = validator_of(schema).violations(value)

    assert misfit.message.endswith(f"but must {wanted}")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param({"minItems": 1}, "a list of at least 1 item", id="an item"),
        pytest.param({"minItems": 2, "maxItems": 2}, "a list of 2 items", id="as many"),
        pytest.param({"minItems": 0, "maxItems": 1}, "a list of 0 to 1 item", id="from, to"),
    ],
)
def test_a_parameters_bounds_agree_with_their_noun(schema: JsonSchema, words: str) -> None:
    assert describe_parameter("rows", {"type": "array", **schema}) == f"'rows' takes {words}"
