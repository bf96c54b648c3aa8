"""A model that makes a plan one step at a time, held to the schema of each answer or not."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.planner.planning_case import ScriptedModels, goal_of, ladder, planned, said
from wavewright.planner.planning.plan_stream import PlanStream
from wavewright.planner.planning.records import AnsweredQuestion, PlanningResult
from wavewright.planner.ports.asking import RefusedAnswer
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError, OnText, OnUse
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema, as_list, as_object

pytestmark = pytest.mark.anyio


def first_value(schema: JsonSchema) -> Json:
    """Return the first value that a schema of an answer admits."""
    if "anyOf" in schema:
        return first_value(as_object(as_list(schema["anyOf"])[0]))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return as_list(schema["enum"])[0]
    members = as_object(schema.get("properties"))
    plain: dict[str, Json] = {"string": "some words", "integer": 3, "array": [], "null": None}
    if schema["type"] == "object":
        return {name: first_value(as_object(part)) for name, part in members.items()}
    return plain[str(schema["type"])]


@dataclass
class HeldModels(ScriptedModels):
    """Answers as a server does that holds a model to a schema: with the last branch that it has."""

    schemas: list[JsonSchema] = field(default_factory=list[JsonSchema])

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        self.asked.append(call)
        assert call.schema is not None
        self.schemas.append(call.schema)
        following = as_object(as_object(call.schema["properties"])["next"])
        branches = as_list(following["anyOf"])
        chosen: Json = {"next": first_value(as_object(branches[-1]))}
        assert validator_of(call.schema).accepts(chosen)
        return said(json.dumps(chosen))


async def guided(models: ScriptedModels, **more: Any) -> PlanningResult:
    return await planned(models, "guided", **more)


async def test_a_model_that_is_held_to_the_schema_always_has_a_valid_plan() -> None:
    models = HeldModels([])

    result = await guided(models)

    assert result.rung == "guided", result.rungs
    assert result.plan is not None
    assert {"read_sensor", "write_report"} <= {step.tool for step in result.plan.steps}


async def test_each_question_begins_as_the_one_before_with_all_that_is_known() -> None:
    models = HeldModels([])

    said_before = [AnsweredQuestion("Which zone?", "Westfall")]
    await guided(models, answers=said_before, today=dt.date(2026, 3, 1))

    first, *others = models.asked
    assert others
    assert "Today is 2026-03-01" in first.prompt
    assert '"answer": "Westfall"' in first.prompt
    for earlier, later in zip([first, *others], others, strict=False):
        assert (later.instructions, later.prompt) == (first.instructions, first.prompt)
        assert later.turns[: len(earlier.turns)] == earlier.turns


async def test_a_plan_may_end_only_when_the_goal_has_its_tools() -> None:
    models = HeldModels([])

    await guided(models)

    assert '"done"' not in json.dumps(models.schemas[0])
    assert '"done"' in json.dumps(models.schemas[-1])


async def test_an_answer_outside_the_choices_is_told_and_asked_again() -> None:
    wrong = json.dumps({"next": {"call": "delete_all", "arguments": {}}})
    models = ScriptedModels([wrong])

    result = await guided(models)

    assert result.plan is None
    assert len(models.asked) == 2
    assert "'delete_all' is none of the calls that may come next" in models.asked[1].turns[0].reply
    assert "'delete_all' is none of the calls" in result.rungs[0].reason


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"station": "${steps.nothing}"}, "read what is not offered there"),
        ({"station": 3}, "do not fit"),
        ({}, "do not fit"),
        ({"station": "ZRH", "other": 1}, "do not fit"),
    ],
    ids=["a reference that leads nowhere", "another type", "none", "an unknown one"],
)
async def test_arguments_that_were_not_offered_are_refused(
    arguments: dict[str, object], reason: str
) -> None:
    call = "read_sensor for each of ${inputs.stations}"
    models = ScriptedModels([json.dumps({"next": {"call": call, "arguments": arguments}})])

    result = await guided(models)

    assert result.plan is None
    assert reason in result.rungs[0].reason


@pytest.mark.parametrize("answer", ["Sure! I would read the sensors first.", ""])
async def test_an_answer_without_a_choice_is_on_record_and_ends_the_rung_after_its_tries(
    answer: str,
) -> None:
    models, refused = ScriptedModels([answer]), list[RefusedAnswer]()

    result = await guided(models, on_refused=refused.append)

    assert len(models.asked) == 2
    # No provider takes an empty answer in the conversation so far.
    assert models.asked[1].turns[0].answer == (answer or "(the answer was empty)")
    assert [(one.rung, one.text) for one in refused] == [("guided", answer)] * 2
    form = '{"next": {"call": "read_sensor", "arguments": {…}}}'
    assert result.rungs[0].reason == f"step 1: the answer holds no choice; its form is {form}"
    assert form in models.asked[1].turns[0].reply


async def test_the_first_step_is_asked_for_without_what_was_said_of_whole_plans() -> None:
    models = ScriptedModels(["Sure! I would read the sensors first."])

    await planned(models, "llm", "repaired", "guided")

    assert next(call for call in models.asked if call.rung == "guided").turns == ()


async def test_a_model_that_refuses_is_not_asked_in_another_way() -> None:
    models = ScriptedModels([ModelError("refused", "no")])

    result = await planned(models, "llm", "guided")

    assert [record.rung for record in result.rungs] == ["llm", "guided"]
    assert len(models.asked) == 1


async def test_a_guided_plan_follows_faulty_ones() -> None:
    shipped = [rung.name for rung in ladder().rungs]

    assert shipped.index("repaired") < shipped.index("guided") < shipped.index("suggested")


async def test_steps_that_the_goal_demands_have_room_within_its_limit() -> None:
    models = HeldModels([])

    result = await guided(models, goal=goal_of({"limits": {"max_steps": 2}}))

    assert result.plan is not None
    assert [step.tool for step in result.plan.steps] == ["read_sensor", "write_report"]


async def test_its_steps_arrive_as_the_text_of_a_plan_so_that_they_can_start_early() -> None:
    stream, prefixes = PlanStream(), list[int]()

    def receive(text: str) -> None:
        prefix = stream.add(text)
        if prefix is not None:
            prefixes.append(len(prefix.steps))

    result = await planned(HeldModels([]), "guided", on_text=receive)

    assert result.plan is not None
    assert prefixes == [*range(1, len(result.plan.steps) + 1)]
