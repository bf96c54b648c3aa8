"""Laws of the schema of a goal: what the checker accepts fits it, and what fits it can be read."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from tests.planner.planning.test_guided_choices import arguments_of, goal_of, tool_sets
from wavewright.planner import Goal
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.goal_schema import REFERENCE, goal_plan_schema
from wavewright.planner.planning.guided_choices import GuidedPlan
from wavewright.planner.planning.prompt import emit_schema
from wavewright.planner.reading.reader import read_model_answer
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema, as_list, as_object
from wavewright.tools.models.dialects import (
    Dialect,
    SchemaTooLarge,
    for_anthropic,
    for_gemini,
    for_grammar,
    for_openai,
)

DIALECTS = [None, for_openai, for_anthropic, for_gemini, for_grammar]
ANYTHING: list[Json] = [None, 1, "a", {"b": [2]}]
NAMES = ["read", "rank", "join"]


def schema_of(goal: Goal, tools: dict[str, ToolSignature]) -> JsonSchema:
    return goal_plan_schema(emit_schema([*tools], sub_plans=["clean"]), goal, tools, [*tools])


@given(st.data(), tool_sets(), st.sampled_from([None, for_anthropic, for_gemini, for_grammar]))
@settings(max_examples=volume(15, 2_000), deadline=None)
def test_a_plan_that_the_checker_accepts_fits(
    data: st.DataObject, tools: dict[str, ToolSignature], dialect: Dialect | None
) -> None:
    goal = goal_of(tools, set(), most=4)
    made = GuidedPlan(goal, tools)
    for _ in range(3):
        if made.choices:
            choice = data.draw(st.sampled_from(made.choices))
            longer = made.with_step(choice, data.draw(arguments_of(choice)))
            assert isinstance(longer, GuidedPlan), longer
            made = longer
    schema = written(schema_of(goal, tools), dialect)
    fits = validator_of(schema)

    for result in made.results:
        plan = made.plan(result).model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for step in plan["steps"]:
            # The reader takes an absent one for an empty one; a model is to write it.
            step.setdefault("params", {})
            if (
                dialect is for_gemini
                and step["params"] == {}
                and takes_nothing(tools[step["tool"]])
            ):
                del step["params"]
        assert fits.violations(plan) == []


def written(schema: JsonSchema, dialect: Dialect | None) -> JsonSchema:
    if dialect is None:
        return schema
    made = dialect(schema)
    assert not isinstance(made, SchemaTooLarge)
    return made


def takes_nothing(tool: ToolSignature) -> bool:
    return not as_object(tool.input_schema["properties"])


@given(st.data(), tool_sets(), st.sampled_from(DIALECTS))
@settings(max_examples=volume(15, 2_000), deadline=None)
def test_a_plan_that_fits_is_one_that_can_be_read(
    data: st.DataObject, tools: dict[str, ToolSignature], dialect: Dialect | None
) -> None:
    schema = written(schema_of(goal_of(tools, set(), most=4), tools), dialect)
    plan = as_object([*as_list(schema.get("anyOf")), schema][0])
    answer = data.draw(values_of(plan))
    assert isinstance(answer, dict)
    for name in ("cannot_plan", "ask"):
        answer.pop(name, None)
    if answer.get("steps") is None:
        # A root without alternatives cannot say that one of its members is there.
        steps = as_object(as_object(plan["properties"])["steps"])
        shapes = [as_object(shape) for shape in as_list(steps.get("anyOf"))] or [steps]
        answer["steps"] = data.draw(values_of(shapes[0]))

    text = json.dumps(answer)
    if dialect not in (None, for_grammar):
        # The others cannot say that a text is not empty.
        text = text.replace('""', '"true"')

    read = read_model_answer(text)

    faults = [found.code for found in error_diagnostics(read.diagnostics)]
    assert [code for code in faults if code.startswith("E1") and code != "E119"] == []


@st.composite
def values_of(draw: st.DrawFn, schema: JsonSchema) -> Json:
    """Return any value that an answer which keeps to the schema may have."""
    if "anyOf" in schema:
        return draw(values_of(as_object(draw(st.sampled_from(as_list(schema["anyOf"]))))))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(as_list(schema["enum"])))
    match schema.get("type"):
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "integer" | "number":
            return draw(st.integers(int(str(schema.get("minimum", -5))), 9))
        case "array":
            items = as_object(schema.get("items"))
            least = int(str(schema.get("minItems", 0)))
            return draw(st.lists(values_of(items), min_size=least, max_size=2))
        case "object":
            return draw(objects_of(schema))
        case "string" if "pattern" in schema:
            return draw(texts_of(str(schema["pattern"])))
        case "string":
            least = int(str(schema.get("minLength", 0)))
            return draw(st.sampled_from(["24h", "${item}", "a.b", *([""] if least == 0 else [])]))
        case _:
            return draw(st.sampled_from(ANYTHING))


@st.composite
def objects_of(draw: st.DrawFn, schema: JsonSchema) -> Json:
    members = as_object(schema.get("properties"))
    required = {str(name) for name in as_list(schema.get("required"))}
    others = sorted(members.keys() - required)
    named = draw(st.sets(st.sampled_from(others), max_size=2)) if others else set[str]()
    drawn = {
        name: draw(values_of(as_object(part)))
        for name, part in members.items()
        if name in required | named
    }
    if "until" in drawn:
        # Some providers take no bounds, and so any number of runs.
        drawn["max"] = 2
    if "id" in drawn:
        # Some take no pattern, and so any text for an id.
        drawn["id"] = draw(st.sampled_from(NAMES))
    if "fresh_within" in drawn:
        drawn["fresh_within"] = "24h"
    if isinstance(drawn.get("params"), str):
        # Arguments of any names are asked for as an object in a text where none can be open.
        drawn["params"] = '{"words": ["one"]}'
    return drawn


def texts_of(pattern: str) -> st.SearchStrategy[str]:
    """Return texts of a pattern: some references, else words."""
    if pattern.startswith(str(REFERENCE["pattern"])[:5]):
        texts = [
            "${inputs.words}",
            "${item}",
            "${size(steps.read)}",
            "${[1, 2]}",
            "${!has(inputs.x)}",
        ]
        return st.sampled_from([text for text in texts if re.search(pattern, text)])
    return st.sampled_from(NAMES)
