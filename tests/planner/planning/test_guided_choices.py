"""Laws of plans that are made one step at a time: whatever is chosen is a plan without errors."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner import Goal
from wavewright.planner.checks.checker import check
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.guided_choices import Choice, GuidedPlan
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_list, as_object

SCALARS: st.SearchStrategy[JsonSchema] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "number"},
        {"type": "integer"},
        {"type": "boolean"},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "integer", "minimum": 3},
        {"type": ["string", "null"]},
        {"type": "string", "format": "date"},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    ]
)


@st.composite
def objects(draw: st.DrawFn) -> JsonSchema:
    fields = draw(st.dictionaries(st.sampled_from(["name", "total", "day"]), SCALARS, min_size=1))
    required = draw(st.sets(st.sampled_from(sorted(fields))))
    properties: JsonObject = {**fields}
    return {"type": "object", "properties": properties, "required": [*sorted(required)]}


def lists(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def with_one_member(inner: JsonSchema) -> JsonSchema:
    return {"type": "object", "properties": {"inner": inner}, "required": ["inner"]}


FLAT: st.SearchStrategy[JsonSchema] = SCALARS | objects()
NESTED: st.SearchStrategy[JsonSchema] = FLAT.map(with_one_member)
TYPES: st.SearchStrategy[JsonSchema] = FLAT | FLAT.map(lists) | FLAT.map(lists).map(lists) | NESTED


@st.composite
def signatures(draw: st.DrawFn, name: str) -> ToolSignature:
    params = draw(st.dictionaries(st.sampled_from(["x", "y", "z"]), TYPES, max_size=3))
    required = draw(st.sets(st.sampled_from(sorted(params)))) if params else set[str]()
    properties: JsonObject = {**params}
    return ToolSignature(
        name=name,
        description="A tool.",
        input_schema={
            "type": "object",
            "properties": properties,
            "required": [*sorted(required)],
            "additionalProperties": False,
        },
        output_schema=draw(TYPES),
    )


@st.composite
def tool_sets(draw: st.DrawFn) -> dict[str, ToolSignature]:
    names = draw(st.lists(st.sampled_from(["read", "rank", "join"]), min_size=1, unique=True))
    return {name: draw(signatures(name)) for name in names}


def goal_of(tools: dict[str, ToolSignature], required: set[str], most: int) -> Goal:
    return Goal.model_validate(
        {
            "name": "any",
            "job": "any",
            "text": "Do something.",
            "inputs": {"words": ["one", "two"], "count": 3, "place": {"name": "here"}},
            "tools": [{"name": name} for name in tools],
            "rules": {"required_tools": sorted(required)},
            "limits": {"max_steps": most},
        }
    )


@st.composite
def values_of(draw: st.DrawFn, schema: JsonSchema) -> Json:
    """Return any value that an answer which keeps to the schema may have."""
    if "anyOf" in schema:
        return draw(values_of(as_object(draw(st.sampled_from(as_list(schema["anyOf"]))))))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(as_list(schema["enum"])))
    if schema.get("format") == "date":
        return draw(st.sampled_from(["2026-01-05", "1999-12-31"]))
    if "pattern" in schema:
        return "ABC"
    if "minimum" in schema:
        return draw(st.integers(3, 9))
    match schema["type"]:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "integer":
            return draw(st.integers(-5, 5))
        case "number":
            return draw(st.floats(-5, 5))
        case "array":
            items = as_object(schema["items"])
            return draw(st.lists(values_of(items), max_size=2))
        case _:
            return draw(st.sampled_from(["", "words", "$", "{x}", "3"]))


@st.composite
def arguments_of(draw: st.DrawFn, choice: Choice) -> JsonObject:
    return {name: draw(values_of(schema)) for name, schema in choice.params.items()}


@given(st.data(), tool_sets())
@settings(max_examples=volume(150, 5_000), deadline=None)
def test_every_sequence_of_choices_is_a_plan_without_errors(
    data: st.DataObject, tools: dict[str, ToolSignature]
) -> None:
    required = data.draw(st.sets(st.sampled_from(sorted(tools))))
    goal = goal_of(tools, required, most=data.draw(st.integers(1, 4)))
    made = GuidedPlan(goal, tools)
    for _ in range(4):
        if not made.choices:
            break
        choice = data.draw(st.sampled_from(made.choices))
        longer = made.with_step(choice, data.draw(arguments_of(choice)))

        assert isinstance(longer, GuidedPlan), longer
        made = longer

    for result in made.results:
        bound = bind_plan(made.plan(result), goal, tools)
        assert error_diagnostics(check(bound, goal, tools)) == []
    assert made.results == () or required <= {step.tool for step in made.steps}
