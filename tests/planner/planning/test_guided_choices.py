"""Laws of plans that are made one step at a time: whatever is chosen is a plan without errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.crash.run_size import volume
from wavewright.planner import Goal
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.types import PlanTypes, incompatibility
from wavewright.planner.checks.written_results import check_written_result
from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.guided_choices import Choice, GuidedPlan
from wavewright.planner.planning.step_building import is_same_call
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId, as_list, as_object
from wavewright.tools.workers.ask_model import ASK_MODEL_SPEC

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
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"enum": ["a", 1, None]},
    ]
)


@st.composite
def objects(draw: st.DrawFn) -> JsonSchema:
    fields = draw(
        st.dictionaries(st.sampled_from(["name", "total", "größe (m)"]), SCALARS, min_size=1)
    )
    required = draw(st.sets(st.sampled_from(sorted(fields))))
    properties: JsonObject = {**fields}
    return {"type": "object", "properties": properties, "required": [*sorted(required)]}


def lists(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def with_one_member(inner: JsonSchema) -> JsonSchema:
    return {"type": "object", "properties": {"inner": inner}, "required": ["inner"]}


CARD: JsonSchema = {
    "type": "object",
    "properties": {
        "kind": {"const": "card"},
        "number": {"type": "string"},
        "code": {"type": "integer"},
    },
    "required": ["kind", "number"],
}
TRANSFER: JsonSchema = {
    "type": "object",
    "properties": {"kind": {"const": "transfer"}, "account": {"type": "string"}},
    "required": ["kind", "account"],
}


def with_tag(schema: JsonSchema, tag: JsonSchema) -> JsonSchema:
    """Return the type of an object with another type of its kind."""
    return {**schema, "properties": {**as_object(schema["properties"]), "kind": tag}}


CHEQUE: JsonSchema = {"type": "string", "enum": ["cheque"]}
PAIR: JsonSchema = {
    "type": "array",
    "prefixItems": [{"type": "string"}, {"type": "number"}],
    "items": False,
    "minItems": 2,
}
COMPOSED: st.SearchStrategy[JsonSchema] = st.sampled_from(
    [
        {},
        PAIR,
        {"oneOf": [CARD, TRANSFER, {"type": "string"}]},
        {"anyOf": [{**CARD, "additionalProperties": False}, {"type": "array", "items": CARD}]},
        {"allOf": [{"type": "string"}, {"minLength": 2}]},
        {"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}},
    ]
)
FLAT: st.SearchStrategy[JsonSchema] = SCALARS | objects() | COMPOSED
NESTED: st.SearchStrategy[JsonSchema] = FLAT.map(with_one_member)
TYPES: st.SearchStrategy[JsonSchema] = FLAT | FLAT.map(lists) | FLAT.map(lists).map(lists) | NESTED


@st.composite
def signatures(draw: st.DrawFn, name: str) -> ToolSignature:
    params = draw(st.dictionaries(st.sampled_from(["x", "y", "z"]), TYPES, max_size=3))
    required = draw(st.sets(st.sampled_from(sorted(params)))) if params else set[str]()
    # A parameter that takes anything is often written as true.
    properties: JsonObject = {name: schema or True for name, schema in params.items()}
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


ASK: ToolSignature = ToolSignature(
    name="ask_model",
    description="Ask a model.",
    input_schema=ASK_MODEL_SPEC.input_schema,
    output_schema=ASK_MODEL_SPEC.output_schema,
)


QUALITIES: list[dict[str, object]] = [
    {},
    {"untrusted_output": True},
    {"effects": frozenset({"write"})},
]


@st.composite
def asking_tool_sets(draw: st.DrawFn) -> dict[str, ToolSignature]:
    """Return tools of which some write, some bring untrusted text, and one asks a model."""
    tools = draw(tool_sets())
    for name, tool in tools.items():
        qualities = draw(st.sampled_from(QUALITIES))
        tools[name] = tool.model_copy(update=qualities)
    return {**tools, "ask_model": ASK}


def goal_of(
    tools: dict[str, ToolSignature],
    required: set[str],
    most: int,
    result: JsonSchema | None = None,
) -> Goal:
    return Goal.model_validate(
        {
            "output_schema": result,
            "name": "any",
            "job": "any",
            "text": "Do something.",
            "inputs": {"words": ["one", "two"], "count": 3, "place": {"name": "here", "größe": 2}},
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
        case "array" if "prefixItems" in schema:
            return [draw(values_of(as_object(part))) for part in as_list(schema["prefixItems"])]
        case "array":
            items = as_object(schema["items"])
            least = int(str(schema.get("minItems", 0)))
            return draw(st.lists(values_of(items), min_size=least, max_size=2))
        case "object":
            members = as_object(schema["properties"])
            return {name: draw(values_of(as_object(part))) for name, part in members.items()}
        case _:
            return draw(texts_of(schema))


def texts_of(schema: JsonSchema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date":
        return st.sampled_from(["2026-01-05", "1999-12-31"])
    if "pattern" in schema:
        pattern = re.compile(str(schema["pattern"]))
        return st.sampled_from([text for text in ("ABC", "day", "in") if pattern.search(text)])
    return st.sampled_from(["", "words", "$", "{x}", "3"][int("minLength" in schema) :])


@st.composite
def arguments_of(draw: st.DrawFn, choice: Choice) -> JsonObject:
    return {name: draw(values_of(schema)) for name, schema in choice.params.items()}


@given(st.data(), tool_sets() | asking_tool_sets())
@settings(max_examples=volume(80, 5_000), deadline=None)
def test_every_sequence_of_choices_is_a_plan_without_errors(
    data: st.DataObject, tools: dict[str, ToolSignature]
) -> None:
    required = data.draw(st.sets(st.sampled_from(sorted(tools))))
    result_type = data.draw(st.none() | TYPES)
    goal = goal_of(tools, required, data.draw(st.integers(1, 4)), result_type)
    made = GuidedPlan(goal, tools)
    for _ in range(4):
        if not made.choices:
            break
        choice = data.draw(st.sampled_from(made.choices))
        longer = made.with_step(choice, data.draw(arguments_of(choice)))

        assert isinstance(longer, GuidedPlan), longer
        made = longer

    composed = [data.draw(values_of(made.result_schema()))] if made.result_fields else []
    for result in [*made.results, *composed]:
        plan = made.ending(result)
        assert plan is not None
        bound = bind_plan(plan, goal)
        assert error_diagnostics(check(bound, goal, tools)) == []
        assert [*check_written_result(bound, goal, tools)] == []
        gives = PlanTypes(bound, goal, tools).value(plan.result)
        items = as_object(gives.get("items"))
        assert result_type is None or not (
            incompatibility(gives, result_type) and incompatibility(items, result_type)
        )
    assert not made.may_end or required <= {step.tool for step in made.steps}


INPUTS = ["words", "count", "place", "place.name", "place.`größe`"]
FIELDS = ["", ".name", ".total", ".`größe (m)`", ".inner", ".inner.name"]


@st.composite
def steps_of(draw: st.DrawFn, tools: dict[str, ToolSignature], before: tuple[Step, ...]) -> Step:
    """Return a step whose arguments are references, whether their types fit or not."""
    signature = draw(st.sampled_from([*tools.values()]))
    outputs = [f"steps.{step.id}{field}" for step in before for field in FIELDS]
    places = [*outputs, *(f"inputs.{name}" for name in INPUTS)]
    for_each = draw(st.none() | st.sampled_from(places))
    read = list(places)
    if for_each is not None:
        read += (f"item{field}" for field in FIELDS)
    possible = sorted(as_object(signature.input_schema["properties"]))
    names = draw(st.sets(st.sampled_from(possible))) if possible else set[str]()
    return Step(
        id=StepId(f"s{len(before)}"),
        tool=signature.name,
        for_each=None if for_each is None else f"${{{for_each}}}",
        params={name: f"${{{draw(st.sampled_from(read))}}}" for name in sorted(names)},
    )


@given(st.data(), tool_sets())
@settings(max_examples=volume(25, 5_000), deadline=None)
def test_every_step_of_references_that_fit_can_be_chosen(
    data: st.DataObject, tools: dict[str, ToolSignature]
) -> None:
    goal = goal_of(tools, set(), 4)
    made = GuidedPlan(goal, tools)
    for _ in range(5):
        step = data.draw(steps_of(tools, made.steps))
        plan = bind_plan(Plan(steps=(*made.steps, step)), goal)
        at = f"/steps/{len(made.steps)}/"
        # That nothing reads a last step (W801) is no fault of it.
        found = {
            fault.code for fault in check(plan, goal, tools) if fault.pointer.startswith(at)
        } - {"W801"}
        reads_item = step.for_each is None or "${item" in str(step.params)
        is_new = not any(is_same_call(step, other) for other in made.steps)
        if not found and reads_item and is_new and made.choices:
            [choice] = [
                choice
                for choice in made.choices
                if (choice.tool, choice.for_each) == (step.tool, step.for_each)
            ]
            arguments: JsonObject = {**dict.fromkeys(choice.params), **step.params}
            assert validator_of(choice.arguments_schema()).accepts(arguments)
            longer = made.with_step(choice, arguments)
            assert isinstance(longer, GuidedPlan)
            made = longer


COUNT = ToolSignature(
    name="count", description="Count.", input_schema={}, output_schema={"type": "integer"}
)
NAMES = ToolSignature(
    name="names",
    description="List names.",
    input_schema={},
    output_schema={"type": "array", "items": {"type": "string"}},
)
SUMMARY: JsonSchema = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "boolean"},
        "first": {"type": "string", "enum": ["one", "two"]},
    },
    "required": ["total", "names"],
}


def test_a_plan_ends_with_a_result_of_the_goal_s_type() -> None:
    tools = {"count": COUNT, "names": NAMES}
    counting = GuidedPlan(goal_of(tools, set(), 3, {"type": "integer"}), tools)
    named = counting.with_step(choice_of(counting, "names"), {})
    assert isinstance(named, GuidedPlan)
    counted = named.with_step(choice_of(named, "count"), {})
    assert isinstance(counted, GuidedPlan)

    assert not named.may_end
    assert counted.results == ("${steps.count}",)
    assert counted.ending("${steps.names}") is None


def test_a_result_is_put_together_of_fields_where_no_step_gives_the_goal_s_type() -> None:
    tools = {"count": COUNT, "names": NAMES}
    empty = GuidedPlan(goal_of(tools, {"count"}, 3, SUMMARY), tools)
    named = empty.with_step(choice_of(empty, "names"), {})
    assert isinstance(named, GuidedPlan)
    counted = named.with_step(choice_of(named, "count"), {})
    assert isinstance(counted, GuidedPlan)

    assert not named.may_end
    assert counted.results == ()
    totals = ["${steps.count}", "${inputs.count}", "${inputs.place.`größe`}"]
    assert counted.result_fields["total"] == {"enum": totals}
    plan = counted.ending({"total": "${steps.count}", "names": "${steps.names}"})
    assert plan is not None
    assert plan.result == {"total": "${steps.count}", "names": "${steps.names}"}
    assert counted.ending({"total": "${steps.names}", "names": "${steps.names}"}) is None
    assert counted.ending({"names": "${steps.names}"}) is None


ROW: JsonSchema = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "total": {"type": "integer"},
        "place": {"type": "object", "properties": {"floor": {"type": "integer"}}},
    },
    "required": ["title", "total"],
}
PUT = ToolSignature(
    name="put",
    description="Put a row.",
    input_schema={"type": "object", "properties": {"row": ROW}, "required": ["row"]},
)


def after_count(tools: dict[str, ToolSignature]) -> GuidedPlan:
    """Return a plan of which the first step counts."""
    empty = GuidedPlan(goal_of(tools, set(), 3), tools)
    counted = empty.with_step(choice_of(empty, "count"), {})
    assert isinstance(counted, GuidedPlan)
    return counted


def test_an_object_is_written_out_with_references_as_its_members() -> None:
    tools = {"count": COUNT, "put": PUT}
    counted = after_count(tools)
    choice = choice_of(counted, "put")
    row: JsonObject = {
        "title": "Words",
        "total": "${steps.count}",
        "place": {"floor": "${inputs.count}"},
    }

    accepts = validator_of(choice.arguments_schema()).accepts
    assert accepts({"row": row})
    assert choice.unoffered_references({"row": row}) == ()
    assert not accepts({"row": {"title": "Words", "total": "many", "place": None}})
    assert choice.unoffered_references({"row": {**row, "title": "of ${steps.count}"}}) == ("row",)

    put = counted.with_step(choice, {"row": {**row, "place": None}})
    assert isinstance(put, GuidedPlan)
    assert put.steps[-1].params == {"row": {"title": "Words", "total": "${steps.count}"}}


ORDER: JsonSchema = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": ROW, "minItems": 1},
        "to": {"type": "object", "properties": {"street": {"type": "string"}}},
    },
    "required": ["lines", "to"],
}
LINE: JsonObject = {"title": "Words", "total": "${steps.count}", "place": None}


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        pytest.param(
            ORDER,
            {"lines": [LINE], "to": {"street": None}},
            {"lines": [{"title": "Words", "total": "${steps.count}"}], "to": {}},
            id="a list of objects in an object",
        ),
        pytest.param(
            {"oneOf": [CARD, TRANSFER]},
            {"kind": "card", "number": "1", "code": None},
            {"kind": "card", "number": "1"},
            id="one of several objects",
        ),
        pytest.param(
            {"oneOf": [CARD, TRANSFER]},
            {"kind": "transfer", "account": "A"},
            {"kind": "transfer", "account": "A"},
            id="another of them",
        ),
        pytest.param(
            {"oneOf": [with_tag(CARD, {"enum": ["card", "debit"]}), with_tag(CARD, CHEQUE)]},
            {"kind": "card", "number": "1", "code": None},
            {"kind": "card", "number": "1"},
            id="one of several objects of the same names",
        ),
        pytest.param(
            {
                "oneOf": [with_tag(CARD, {"$ref": "#/$defs/cheque"}), TRANSFER],
                "discriminator": {"propertyName": "kind"},
            },
            {"kind": "cheque", "number": "1", "code": None},
            {"kind": "cheque", "number": "1"},
            id="one of several objects whose tag is defined elsewhere",
        ),
        pytest.param(
            {**PAIR, "minItems": 2.0},
            ["a", 2.5],
            ["a", 2.5],
            id="a list of places with a whole number of another form",
        ),
        pytest.param(PAIR, ["a", 2.5], ["a", 2.5], id="a list of places with types of their own"),
        pytest.param(True, "${inputs.place}", "${inputs.place}", id="anything"),
    ],
)
def test_an_argument_that_is_composed_is_written_out(
    type_: Json, value: Json, written: Json
) -> None:
    schema: JsonSchema = {
        "type": "object",
        "properties": {"row": type_},
        "required": ["row"],
        "$defs": {"cheque": CHEQUE},
    }
    tools = {"count": COUNT, "put": PUT.model_copy(update={"input_schema": schema})}
    counted = after_count(tools)
    choice = choice_of(counted, "put")

    assert validator_of(choice.arguments_schema()).accepts({"row": value})
    assert choice.unoffered_references({"row": value}) == ()
    put = counted.with_step(choice, {"row": value})
    assert isinstance(put, GuidedPlan), put
    assert put.steps[-1].params == {"row": written}


def test_a_plan_does_not_end_with_what_its_planner_wrote() -> None:
    mean = ToolSignature(
        name="mean",
        description="Return the mean.",
        input_schema={
            "type": "object",
            "properties": {"rows": {"type": "array", "items": ROW}},
            "required": ["rows"],
        },
        output_schema={"type": "number"},
    )
    tools = {"count": COUNT, "mean": mean}
    counted = after_count(tools)
    rows: list[JsonObject] = [
        {"title": "Words", "total": 3, "place": None},
        {"title": "Words", "total": "${steps.count}", "place": None},
    ]
    invented, read = (
        counted.with_step(choice_of(counted, "mean"), {"rows": [row]}) for row in rows
    )

    assert isinstance(invented, GuidedPlan)
    assert isinstance(read, GuidedPlan)
    assert invented.results == ("${steps.count}",)
    assert read.results == ("${steps.mean}", "${steps.count}")


def test_a_list_of_objects_is_written_out_with_references_as_their_members() -> None:
    rows: JsonSchema = {"type": "array", "items": ROW, "minItems": 1}
    schema: JsonSchema = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    tools = {"count": COUNT, "put": PUT.model_copy(update={"input_schema": schema})}
    counted = after_count(tools)
    choice = choice_of(counted, "put")
    row: JsonObject = {"title": "Words", "total": "${steps.count}", "place": None}

    accepts = validator_of(choice.arguments_schema()).accepts
    assert accepts({"rows": [row, {**row, "total": 3}]})
    assert choice.unoffered_references({"rows": [row]}) == ()
    assert not accepts({"rows": []})
    assert not accepts({"rows": [{**row, "total": "many"}]})
    assert choice.unoffered_references({"rows": [row, {**row, "title": "${steps.count}"}]}) == (
        "rows",
    )

    put = counted.with_step(choice, {"rows": [row]})
    assert isinstance(put, GuidedPlan)
    assert put.steps[-1].params == {"rows": [{"title": "Words", "total": "${steps.count}"}]}


def test_a_list_of_objects_that_a_tool_gives_is_not_written_out() -> None:
    rows: JsonSchema = {"type": "array", "items": ROW}
    schema: JsonSchema = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    give = COUNT.model_copy(update={"name": "give", "output_schema": rows})
    tools = {"give": give, "put": PUT.model_copy(update={"input_schema": schema})}
    empty = GuidedPlan(goal_of(tools, set(), 3), tools)
    given = empty.with_step(choice_of(empty, "give"), {})
    assert isinstance(given, GuidedPlan)

    assert [choice.tool for choice in empty.choices] == ["give"]
    assert choice_of(given, "put").params == {"rows": {"enum": ["${steps.give}"]}}


# --- questions to a model, and calls that data chooses

MAIL = ToolSignature(
    name="mail",
    description="Read a mail.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
    output_schema={"type": "string"},
    untrusted_output=True,
)
LOOK_UP = ToolSignature(
    name="look_up",
    description="Look up a day.",
    input_schema={
        "type": "object",
        "properties": {"day": {"type": "string", "format": "date"}},
        "required": ["day"],
        "additionalProperties": False,
    },
    output_schema={"type": "string"},
)
ASKING = {"mail": MAIL, "look_up": LOOK_UP, "ask_model": ASK}


def made_by(*calls: tuple[str, JsonObject]) -> GuidedPlan:
    made = GuidedPlan(goal_of(ASKING, set(), most=6), ASKING)
    for label, arguments in calls:
        longer = made.with_step(choice_of(made, label), arguments)
        assert isinstance(longer, GuidedPlan), longer
        made = longer
    return made


def choice_of(made: GuidedPlan, label: str) -> Choice:
    return next(choice for choice in made.choices if choice.label == label)


def question(**types: str) -> tuple[str, JsonObject]:
    fields: list[Json] = [{"name": name, "type": word} for name, word in types.items()]
    return "ask_model", {"of": "${steps.mail}", "for": fields, "question": "What is asked?"}


def test_fields_of_an_answer_are_offered_where_their_type_fits() -> None:
    made = made_by(("mail", {}), question(day="date", hours="integer", days="list of date"))

    day = choice_of(made, "look_up").params["day"]
    labels = [choice.label for choice in made.choices]

    assert "${steps.ask_model.day}" in str(day)
    assert "${steps.ask_model.hours}" not in str(day)
    assert "look_up for each of ${steps.ask_model.days}" in labels


def test_calls_of_an_answer_can_be_made_by_the_next_step() -> None:
    made = made_by(
        ("mail", {}),
        question(wanted="calls", day="date"),
        ("dispatch ${steps.ask_model.wanted}", {"call": "${item}"}),
    )

    bound = bind_plan(made.plan("${steps.dispatch}"), made.goal)
    assert made.steps[-1].tool == "dispatch.look_up.mail"
    assert made.steps[-1].concurrency == 1
    assert error_diagnostics(check(bound, made.goal, ASKING)) == []


def test_calls_cannot_be_made_where_the_goal_allows_no_question() -> None:
    tools = {"mail": MAIL, "look_up": LOOK_UP}
    made = GuidedPlan(goal_of(tools, set(), most=6), tools)

    assert {choice.tool for choice in made.choices} == {"mail", "look_up"}
