"""A value of a discriminated union is judged by the alternative that its discriminator names."""

from __future__ import annotations

import pytest

from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema


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
