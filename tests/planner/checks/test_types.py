"""Whether a value of one schema may be given where another is wanted."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.types import Json, JsonSchema

STRING: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "number"}
INTEGER: JsonSchema = {"type": "integer"}
NULL: JsonSchema = {"type": "null"}
ROW: JsonSchema = {
    "type": "object",
    "properties": {"close": NUMBER, "date": STRING},
    "required": ["close", "date"],
}
TREE: JsonSchema = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": STRING,
                "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
            "required": ["name", "below"],
        }
    },
}


def list_of(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(INTEGER, NUMBER, id="integer-as-number"),
        pytest.param({}, NUMBER, id="open-source"),
        pytest.param(NUMBER, {}, id="open-target"),
        pytest.param(
            STRING,
            {"type": "string", "pattern": "^a", "minLength": 3, "format": "date"},
            id="constraints",
        ),
        pytest.param(STRING, {"enum": ["a", "b"]}, id="string-as-choice"),
        pytest.param({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, id="choices-meet"),
        pytest.param({"const": "a"}, {"enum": ["a", "b"]}, id="constant-as-choice"),
        pytest.param({"type": ["number", "null"]}, NUMBER, id="perhaps-null"),
        pytest.param(NULL, {"anyOf": [STRING, NULL]}, id="null-allowed"),
        pytest.param({"anyOf": [STRING, NUMBER]}, NUMBER, id="any-branch-of-the-source"),
        pytest.param(NUMBER, {"oneOf": [STRING, NUMBER]}, id="any-branch-of-the-target"),
        pytest.param(list_of(INTEGER), list_of(NUMBER), id="elements"),
        pytest.param({"type": "array", "maxItems": 0}, list_of(STRING), id="empty-list"),
        pytest.param({"type": "array"}, list_of(STRING), id="open-elements"),
        pytest.param(ROW, {"type": "object"}, id="object"),
        pytest.param(
            ROW,
            {"type": "object", "properties": {"close": NUMBER}, "required": ["close"]},
            id="more-fields",
        ),
        pytest.param({"type": "object"}, ROW, id="open-object"),
        pytest.param(
            {"type": "object", "properties": {"close": NUMBER, "date": STRING}},
            ROW,
            id="perhaps-missing",
        ),
        pytest.param(TREE, TREE | {"title": "another"}, id="recursive"),
    ],
)
def test_what_could_fit_fits(source: JsonSchema, target: JsonSchema) -> None:
    assert incompatibility(source, target) is None


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        pytest.param(
            NUMBER, INTEGER, "a number is given where an integer is wanted", id="number-as-integer"
        ),
        pytest.param(STRING, NUMBER, "a string is given where a number is wanted", id="scalar"),
        pytest.param(NULL, STRING, "null is given where a string is wanted", id="null"),
        pytest.param(
            list_of(NUMBER),
            NUMBER,
            "a list of number is given where a number is wanted",
            id="list-as-scalar",
        ),
        pytest.param(
            list_of(STRING),
            list_of(NUMBER),
            "in each element, a string is given where a number is wanted",
            id="elements",
        ),
        pytest.param(
            {"enum": ["a", "b"]},
            {"enum": ["c", "d"]},
            "one of 'a', 'b' is given where one of 'c', 'd' is wanted",
            id="choices-apart",
        ),
        pytest.param(
            {"const": "x"},
            {"enum": ["c", "d"]},
            "'x' is given where one of 'c', 'd' is wanted",
            id="constant",
        ),
        pytest.param(
            {"const": True},
            {"const": 1},
            "a boolean is given where an integer is wanted",
            id="constants-that-are-equal-to-python",
        ),
        pytest.param(
            {"type": "object", "properties": {"close": NUMBER}},
            ROW,
            "the field 'date' is wanted, and there is none (there is: close)",
            id="missing-field",
        ),
        pytest.param(
            {"type": "object", "properties": {"close": STRING, "date": STRING}},
            ROW,
            "in the field 'close', a string is given where a number is wanted",
            id="field",
        ),
        pytest.param(
            ROW,
            {"type": "object", "properties": {"close": NUMBER}, "additionalProperties": False},
            "a field 'date' is given, and only these are wanted: close",
            id="unwanted-field",
        ),
        pytest.param(
            {"anyOf": [STRING, NULL]},
            NUMBER,
            "a string or null is given where a number is wanted",
            id="every-branch",
        ),
        pytest.param(
            {"anyOf": [STRING, list_of(STRING)]},
            {"anyOf": [NUMBER, INTEGER]},
            "a string or list of string is given where a number or integer is wanted",
            id="no-branch-meets",
        ),
        pytest.param(
            TREE,
            {
                "type": "object",
                "properties": {
                    "below": list_of(
                        {"type": "object", "properties": {"name": NUMBER}, "required": ["name"]}
                    )
                },
                "required": ["below"],
            },
            "in the field 'below', in each element, in the field 'name', a string is given where a number is wanted",
            id="below-a-reference",
        ),
    ],
)
def test_a_misfit_is_said_in_plain_words(
    source: JsonSchema, target: JsonSchema, reason: str
) -> None:
    assert incompatibility(source, target) == reason


def test_schemas_that_refer_to_themselves_in_every_way_end() -> None:
    knot: JsonSchema = {
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"allOf": [{"$ref": "#/$defs/a"}]}]}},
        "$ref": "#/$defs/a",
    }
    loop: JsonSchema = {"$ref": "#"}
    wide: JsonSchema = {
        "type": "object",
        "properties": {name: {"$ref": "#"} for name in "abcdefgh"},
        "required": list[Json]("abcdefgh"),
    }

    assert incompatibility(knot, NUMBER) is None
    assert incompatibility(loop, STRING) is None
    assert incompatibility(wide, {**wide, "title": "the same"}) is None


def _schemas() -> st.SearchStrategy[JsonSchema]:
    scalars: list[JsonSchema] = [
        STRING, NUMBER, INTEGER, NULL, {"type": "boolean"}, {}, {"enum": ["a", "b"]}, {"enum": ["b", 1, None]},
        {"const": "a"}, {"type": ["string", "null"]}, {"type": "string", "minLength": 1},
    ]  # fmt: skip
    return st.recursive(st.sampled_from(scalars), _wider, max_leaves=5)


def _wider(inner: st.SearchStrategy[JsonSchema]) -> st.SearchStrategy[JsonSchema]:
    fields = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    return st.one_of(
        inner.map(list_of),
        st.lists(inner, min_size=1, max_size=2).map(_any_of),
        st.tuples(fields, st.sampled_from([{}, {"additionalProperties": True}])).map(_object),
    )


def _any_of(branches: list[JsonSchema]) -> JsonSchema:
    return {"anyOf": list[Json](branches)}


def _object(parts: tuple[dict[str, JsonSchema], dict[str, bool]]) -> JsonSchema:
    properties, rest = parts
    return {
        "type": "object",
        "properties": dict[str, Json](properties),
        "required": list[Json](properties),
        **rest,
    }


_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from([None, True, 1, 2.5, "a", "b", ""]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(_schemas(), _schemas(), st.lists(_VALUES, max_size=30))
@settings(max_examples=volume(100, 400), deadline=None)
def test_no_value_that_fits_both_is_ever_refused(
    source: JsonSchema, target: JsonSchema, values: list[Json]
) -> None:
    meeting = [
        value
        for value in values
        if jsonschema_rs.is_valid(source, value) and jsonschema_rs.is_valid(target, value)
    ]

    # An object whose schema names fields is taken to have no others, and a list to have elements.
    closed = [value for value in meeting if not isinstance(value, dict | list)]
    assert not closed or incompatibility(source, target) is None
