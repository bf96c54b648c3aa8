"""A value of a discriminated union is judged by the alternative that its discriminator names."""

from __future__ import annotations

import pytest

from wavewright.planner.checks.checker import check
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema


def alternative(kind: str, field: str, wanted: str) -> JsonSchema:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind, "type": "string"}, field: {"type": wanted}},
        "required": ["kind", field],
    }


ANIMAL: JsonSchema = {
    "oneOf": [
        alternative("cat", "lives", "integer"),
        alternative("dog", "bark", "string"),
        alternative("fish", "depth", "number"),
    ]
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "cow"}, "has 'kind' 'cow', which must be one of 'cat', 'dog', 'fish'"),
        ({"kind": "dog", "lives": 3}, "lacks 'bark'"),
        ({"kind": "dog", "bark": 3}, "is 3, but must be a string"),
        ({"lives": 3, "bark": 1, "depth": 1}, "lacks 'kind', which every alternative has"),
    ],
)
def test_the_message_names_the_discriminator_or_the_fault_of_its_alternative(
    value: Json, message: str
) -> None:
    assert [found.message for found in validator_of(ANIMAL).violations(value)] == [message]


READ = "${steps.n}"
BY_SIZE: JsonSchema = {
    "type": "object",
    "if": {"properties": {"size": {"const": "large"}}, "required": ["size"]},
    "then": {"required": ["weight"]},
    "else": {"properties": {"weight": {"type": "integer", "maximum": 9}}},
}


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        (ANIMAL, {"kind": "dog", "bark": READ}, []),
        (ANIMAL, {"kind": READ, "bark": "wow"}, []),
        (ANIMAL, {"kind": "dog", "lives": READ}, ["argument 'v' of 't' lacks 'bark'"]),
        (
            ANIMAL,
            {"kind": "cow", "lives": READ},
            ["has 'kind' 'cow', which must be one of 'cat', 'dog', 'fish'"],
        ),
        ({"anyOf": [ANIMAL, {"type": "null"}]}, {"kind": "dog", "lives": READ}, ["lacks 'bark'"]),
        (BY_SIZE, {"size": "large", "weight": READ}, []),
        (BY_SIZE, {"size": "large", "name": READ}, ["lacks 'weight'"]),
        (BY_SIZE, {"size": "small", "name": READ}, []),
        (BY_SIZE, {"size": "small", "name": READ, "weight": 10}, ["but must be at most 9"]),
        (BY_SIZE, {"size": READ, "weight": 10}, []),
    ],
)
def test_what_stands_beside_a_reference_is_judged_alike(
    schema: JsonSchema, value: JsonObject, messages: list[str]
) -> None:
    takes: JsonSchema = {"type": "object", "properties": {"v": schema}}
    gives: JsonSchema = {"description": "anything"}
    tools = {
        "t": ToolSignature(name="t", input_schema=takes, output_schema=gives),
    }
    steps = [{"id": "n", "tool": "t"}, {"id": "a", "tool": "t", "params": {"v": value}}]

    found = check(Plan.model_validate({"steps": steps, "result": "${steps.a}"}), None, tools)

    assert [one.code for one in found] == ["E205"] * len(messages)
    for one, message in zip(found, messages, strict=True):
        assert one.message.endswith(message)
