"""Values that are made of a schema."""

from __future__ import annotations

import datetime as dt
import re
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, strategies as st

from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.simulation.plan_reads import PlanVocabulary
from wavewright.engine.rehearsal.simulation.values import (
    GenerationMode,
    NoValueFound,
    PatternNeedsExtra,
    ValueGenerator,
    texts_of,
)
from wavewright.engine.run.project.tools import all_tools
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
WORDS = PlanVocabulary(NOW, texts=("daily", "urgent"), numbers=(5000, 12.5))
MANNERS: tuple[GenerationMode, ...] = ("full", "sparse", "mixed")

TREE: JsonSchema = {
    "$ref": "#/$defs/Node",
    "$defs": {
        "Node": {
            "type": "object",
            "required": ["name", "children"],
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }
    },
}
SCHEMAS: dict[str, JsonSchema] = {
    "anything": {},
    "a recursive tree": TREE,
    "an exclusive range": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "a narrow range": {"type": "number", "exclusiveMinimum": 0.001, "exclusiveMaximum": 0.002},
    "a whole range": {"type": "integer", "minimum": 7, "maximum": 8},
    "negative numbers": {"type": "number", "maximum": -5},
    "steps": {"type": "number", "multipleOf": 0.25, "minimum": 3},
    "a short text": {"type": "string", "maxLength": 2},
    "a long text": {"type": "string", "minLength": 40},
    "a pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{5}$"},
    "a nullable": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
    "types": {"type": ["integer", "null"]},
    "one of": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}, "a": {"minimum": 4}}, "required": ["b"]},
        ]
    },
    "a set": {
        "type": "array",
        "uniqueItems": True,
        "minItems": 2,
        "items": {"enum": ["a", "b", "c"]},
    },
    "a tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": False,
    },
    "a map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    "a constant": {"const": {"a": 1}},
    "not empty": {"type": "string", "not": {"const": ""}},
    "a union of objects": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {
                "type": "object",
                "properties": {"kind": {"const": "b"}, "n": {"type": "integer"}},
                "required": ["kind", "n"],
            },
        ]
    },
}


def leaf_schemas() -> st.SearchStrategy[JsonSchema]:
    return st.one_of(
        st.just(_schema("boolean")),
        st.integers(-50, 50).map(lambda low: _schema("integer", minimum=low, maximum=low + 3)),
        st.integers(-50, 50).map(lambda low: _schema("number", exclusiveMinimum=low)),
        st.integers(0, 9).map(
            lambda least: _schema("string", minLength=least, maxLength=least + 2)
        ),
        st.just(_schema("string", format="date-time")),
    )


def _schema(kind: str, **keywords: Json) -> JsonSchema:
    return {"type": kind, **keywords}


def schemas() -> st.SearchStrategy[JsonSchema]:
    def larger(inner: st.SearchStrategy[JsonSchema]) -> st.SearchStrategy[JsonSchema]:
        names = st.sampled_from(["a", "b", "c"])
        return st.one_of(
            st.builds(_array, inner, st.integers(0, 3)),
            st.builds(_object, st.dictionaries(names, inner), st.sets(names)),
            st.builds(_either, inner, inner),
        )

    return st.recursive(leaf_schemas(), larger, max_leaves=8)


def _either(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    return {"anyOf": [one, other]}


def _array(items: JsonSchema, least: int) -> JsonSchema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}


def _object(properties: dict[str, JsonSchema], required: set[str]) -> JsonSchema:
    return {
        "type": "object",
        "properties": cast("JsonObject", properties),
        "required": [*sorted(required & properties.keys())],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_value_of_every_kind_of_schema_can_be_made(name: str, manner: GenerationMode) -> None:
    schema = SCHEMAS[name]
    generator = ValueGenerator("1", WORDS)

    values = [generator.make(schema, manner) for _ in range(20)]

    assert all(validator_of(schema).accepts(value) for value in values)


@given(schemas(), st.sampled_from(MANNERS), st.integers())
def test_what_is_made_and_what_is_varied_fits_the_schema(
    schema: JsonSchema, manner: GenerationMode, seed: int
) -> None:
    generator = ValueGenerator(str(seed), WORDS)

    made = generator.make(schema, manner)
    variants = generator.variants(made, schema, focus=frozenset({"a", "b"}))

    assert validator_of(schema).accepts(made)
    assert all(validator_of(schema).accepts(varied) for varied in variants)
    assert made not in variants


@given(schemas(), st.integers())
def test_the_same_seed_makes_the_same_values(schema: JsonSchema, seed: int) -> None:
    def values() -> list[Json]:
        generator = ValueGenerator(str(seed), WORDS)
        return [generator.make(schema, "mixed") for _ in range(5)]

    assert values() == values()


def test_every_tool_that_comes_along_can_have_a_stub(tmp_path: Path) -> None:
    tools = all_tools(load_settings(tmp_path, {}))
    generator = ValueGenerator("1", WORDS)

    for tool in tools.values():
        for manner in MANNERS:
            generator.make(
                tool.signature.output_schema, manner, time_field=tool.signature.freshness_field
            )

    assert len(tools) > 5


def test_a_schema_that_nothing_fits_is_told() -> None:
    with pytest.raises(NoValueFound):
        ValueGenerator("1", WORDS).make({"type": "integer", "minimum": 3, "maximum": 2}, "full")


def test_plausible_values_are_whole_and_of_today() -> None:
    schema: JsonSchema = {
        "type": "object",
        "required": ["at"],
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "rows": {"type": "array", "items": {"type": "string"}},
        },
    }

    made = cast("JsonObject", ValueGenerator("1", WORDS).make(schema, "full"))

    assert made["at"] == "2026-02-28T23:00:00Z"
    assert isinstance(made["note"], str)
    assert len(cast("list[Json]", made["rows"])) == 2


def test_a_freshness_field_of_plain_text_is_a_time() -> None:
    schema: JsonSchema = {
        "type": "object",
        "properties": {"as_of": {"type": "string"}},
        "required": ["as_of"],
    }
    generator = ValueGenerator("1", WORDS)

    made = [
        cast("JsonObject", generator.make(schema, "mixed", time_field="as_of")) for _ in range(20)
    ]

    assert all(dt.datetime.fromisoformat(str(value["as_of"])) for value in made)


def test_a_variant_changes_one_member_of_the_focus() -> None:
    schema: JsonSchema = {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "other": {"type": "integer"}},
        "required": ["other"],
    }
    start: JsonObject = {"count": 7, "other": 7}

    variants = ValueGenerator("1", WORDS).variants(start, schema, focus=frozenset({"count"}))

    assert {"count": 5000, "other": 7} in variants
    assert {"count": 0, "other": 7} in variants
    assert {"other": 7} in variants
    assert all(cast("JsonObject", varied)["other"] == 7 for varied in variants)


def test_a_variant_has_a_member_that_was_not_there() -> None:
    schema: JsonSchema = {"type": "object", "properties": {"open": {"type": "boolean"}}}

    variants = ValueGenerator("1", WORDS).variants({}, schema, focus=frozenset({"open"}))

    assert {"open": True} in variants
    assert {"open": False} in variants


def test_entries_of_a_list_change_alike_and_the_first_alone() -> None:
    schema: JsonSchema = {"type": "array", "items": {"enum": ["a", "b"]}}

    variants = ValueGenerator("1", WORDS).variants(["a", "a"], schema)

    assert ["b", "b"] in variants
    assert ["b", "a"] in variants
    assert [] in variants
    assert ["a"] in variants


@pytest.mark.parametrize(
    "pattern", ["^[A-Z]{3}$", "^[a-f0-9]{40}$", r"^\d{4}/\d{2}$", "^x{3,5}y+$"]
)
def test_texts_of_a_pattern_match_it(pattern: str) -> None:
    found = texts_of(pattern)

    assert found
    assert all(re.search(pattern, text) for text in found)


def test_a_pattern_of_addresses_has_two_texts_so_that_calls_can_differ() -> None:
    assert set(texts_of(r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$")) == {"a@b.example", "b@a.example"}


def test_a_pattern_that_only_hypothesis_knows_a_text_for_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    with pytest.raises(PatternNeedsExtra):
        texts_of("^[a-f]{9}[0-9]{9}$")
